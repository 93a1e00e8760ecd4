//! Tables of programs and of the options that make them run something. Be generous: what is listed here by
//! mistake costs a question, what is missing costs more.

/// Programs that run what they are given, or that take commands of their own language: editors, terminals,
/// schedulers, debuggers, tools that fetch a program and run it.
pub(super) const RUNS_OTHERS: &str = "
    parallel sem xe entr watchexec fswatch nodemon hyperfine chokidar reflex modd
    tmux screen zellij byobu dtach abduco script scriptreplay expect ttyrec asciinema
    vi vim nvim view vimdiff rvim gvim ex ed red emacs emacsclient nano pico joe mcedit micro kak helix hx
    gdb lldb strace ltrace valgrind perf rr bpftrace dtrace dtruss truss uftrace
    at batch crontab anacron run-parts start-stop-daemon daemonize supervisord
    pnpx bunx uvx pipx dlx
    firejail bwrap proot fakeroot fakechroot faketime torsocks torify proxychains proxychains4 tsocks
    setpriv capsh prlimit numactl cgexec setarch linux32 linux64 i386 x86_64 dbus-run-session dbus-launch xvfb-run
    xinit startx systemd-inhibit systemd-nspawn machinectl rlwrap setlock softlimit catchsegv tini dumb-init
    s6-setuidgid chpst envdir envuidgid setuidgid
    xterm gnome-terminal konsole alacritty kitty wezterm foot urxvt rxvt terminator
    m4 dc gnuplot socat fzf sk peco dmenu rofi
    osascript automator shortcuts open xdg-open gio start cmd cmd.exe powershell.exe pwsh.exe wscript cscript
    ansible ansible-playbook ansible-console fab pssh pdsh mosh telnet rsh rlogin rexec adb vagrant multipass limactl
    distrobox toolbox toolbx devcontainer heroku flyctl fly
    nix-shell direnv dotenv dotenvx chamber aws-vault envchain with-contenv
    sqlite3 psql mysql mariadb mongosh mongo redis-cli sqlplus clickhouse duckdb
    mail mailx mutt sendmail procmail
    rustup-init ghcup sdk nvm fnm volta asdf mise rtx jenv pyenv rbenv
    ldd ldconfig insmod modprobe kexec
    lftp ftp ncftp
";

/// What makes a program run something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) names: &'static str,
    /// Letters of options.
    pub(super) short: &'static str,
    /// Long options without `--`; with `:` before it, one that may also have a single `-`.
    pub(super) long: &'static str,
    /// Subcommands.
    pub(super) subcommands: &'static str,
    /// Arguments, wherever they stand.
    pub(super) words: &'static str,
    /// How such arguments begin.
    pub(super) beginnings: &'static str,
    /// What such arguments contain.
    pub(super) parts: &'static str,
}

const ROW: Row =
    Row { names: "", short: "", long: "", subcommands: "", words: "", beginnings: "", parts: "" };

pub(super) const PROGRAMS: &[Row] = &[
    Row { names: "fd fdfind", short: "xX", long: "exec exec-batch", ..ROW },
    Row {
        names: "tar gtar bsdtar",
        short: "IF",
        long: "use-compress-program checkpoint-action to-command info-script new-volume-script rsh-command \
               rmt-command transform xform",
        parts: ":",
        beginnings: "I F cI xI tI cF xF",
        ..ROW
    },
    Row { names: "cpio", short: "HF", long: "rsh-command", ..ROW },
    Row { names: "rsync", short: "eM", long: "rsh rsync-path daemon config remote-option", ..ROW },
    Row { names: "scp", short: "SoFD", ..ROW },
    Row { names: "sftp", short: "SoFDb", ..ROW },
    Row { names: "ssh-keygen ssh-add ssh-agent", short: "DPs", words: "sh bash", ..ROW },
    Row { names: "zip", short: "T", long: "unzip-command test", ..ROW },
    Row { names: "man", short: "PHCtT", long: "pager html config-file", ..ROW },
    Row {
        names: "less more most pg",
        short: "koO",
        long: "lesskey-file lesskey-src lesskey-content log-file",
        beginnings: "+",
        ..ROW
    },
    Row {
        names: "make gmake bmake",
        short: "E",
        long: "eval",
        parts: "=",
        words: "- /dev/stdin",
        beginnings: "-f- -f/dev/stdin",
        ..ROW
    },
    Row { names: "ninja", short: "t", ..ROW },
    Row { names: "cmake", short: "E", beginnings: "-DCMAKE_", ..ROW },
    Row { names: "ctest", short: "S", long: "test-command build-and-test script", ..ROW },
    Row { names: "just", short: "cf", long: "command shell shell-arg justfile set chooser", ..ROW },
    Row { names: "bazel bazelisk", long: "run_under", subcommands: "run", ..ROW },
    Row { names: "gradle gradlew", short: "Icb", long: "init-script build-file settings-file", ..ROW },
    Row { names: "mvn mvnw", short: "f", parts: "exec: antrun:", ..ROW },
    Row {
        names: "npm",
        short: "c",
        long: "call script-shell node-options shell editor viewer git init-module userconfig globalconfig",
        subcommands: "exec x explore edit init create innit config set dlx",
        ..ROW
    },
    Row {
        names: "pnpm yarn",
        short: "c",
        long: "script-shell node-options use-yarnrc",
        subcommands: "exec dlx create init config set node x",
        ..ROW
    },
    Row { names: "uv", subcommands: "run tool x", ..ROW },
    Row {
        names: "poetry pipenv rye hatch pdm pixi conda mamba micromamba bundle rbenv bundler",
        subcommands: "run exec shell env open console",
        short: "c",
        ..ROW
    },
    Row { names: "pip pip3", long: "python config-settings global-option", ..ROW },
    Row { names: "rustup", subcommands: "run", ..ROW },
    Row { names: "cargo", short: "Z", long: "config", subcommands: "script", ..ROW },
    Row { names: "rustc rustdoc", short: "C", long: "codegen runtool test-runtool", ..ROW },
    Row {
        names: "go",
        long: ":exec :toolexec :vettool :fiximports :overlay :modfile :w",
        subcommands: "tool generate",
        parts: "@",
        ..ROW
    },
    Row {
        names: "gcc g++ cc c++ clang clang++ cpp",
        long: ":wrapper :fplugin :specs :load :Xclang",
        beginnings: "-fplugin -fpass-plugin -B -specs @ -fuse-ld",
        ..ROW
    },
    Row { names: "ld gold lld", long: ":plugin :load-pass-plugin", beginnings: "@", ..ROW },
    Row {
        names: "java javac javaw",
        beginnings: "-agent -javaagent -XX:On -XX:Flags -J @ -processor --processor",
        ..ROW
    },
    Row { names: "curl", short: "K", long: "config engine", ..ROW },
    Row { names: "wget wget2", short: "e", long: "execute use-askpass config", ..ROW },
    Row { names: "aria2c", long: "on-download conf-path on-bt", ..ROW },
    Row { names: "nc ncat netcat", short: "ec", long: "exec sh-exec lua-exec", ..ROW },
    Row { names: "nmap", long: ":script :script-args :datadir :servicedb", short: "A", words: "-sC", ..ROW },
    Row { names: "tcpdump", short: "z", ..ROW },
    Row { names: "tshark dumpcap", short: "X", ..ROW },
    Row { names: "openssl", long: ":engine :provider :provider-path :config", ..ROW },
    Row {
        names: "gpg gpg2",
        long: "exec-path photo-viewer keyserver-options pinentry-mode options agent-program dirmngr-program homedir",
        ..ROW
    },
    Row { names: "sort gsort", long: "compress-program", ..ROW },
    Row { names: "split gsplit", long: "filter", ..ROW },
    Row { names: "rg", long: "pre hostname-bin", ..ROW },
    Row { names: "ag ack", long: "pager ackrc", ..ROW },
    Row { names: "bat batcat delta", long: "pager config-file diff-command", ..ROW },
    Row { names: "diff3 sdiff", long: "diff-program", ..ROW },
    Row { names: "patch gpatch", short: "e", long: "ed", ..ROW },
    Row { names: "hg", long: "config config-file debugger", subcommands: "debugshell", ..ROW },
    Row { names: "svn", long: "diff-cmd diff3-cmd editor-cmd config-option config-dir merge-cmd", ..ROW },
    Row { names: "jj", long: "config config-toml config-file tool", subcommands: "util run", ..ROW },
    Row { names: "gh", subcommands: "alias extension codespace config", ..ROW },
    Row { names: "glab", subcommands: "alias config", ..ROW },
    Row { names: "pandoc", short: "FLd", long: "filter lua-filter pdf-engine defaults", ..ROW },
    Row {
        names: "pdflatex latex xelatex lualatex tex luatex pdftex latexmk",
        short: "e",
        long: ":shell-escape :enable-write18 :lua",
        beginnings: "-shell-escape --shell-escape",
        ..ROW
    },
    Row { names: "apt apt-get aptitude", short: "oc", long: "option config-file", ..ROW },
    Row { names: "dpkg", long: "pre-invoke post-invoke admindir root", ..ROW },
    Row { names: "rpm rpmbuild", long: "eval pipe define macros rcfile load", short: "ED", ..ROW },
    Row { names: "yum dnf", long: "setopt config", ..ROW },
    Row { names: "pacman", long: "config hookdir gpgdir", ..ROW },
    Row { names: "flatpak snap", subcommands: "run", ..ROW },
    Row {
        names: "nix",
        subcommands: "run shell develop eval repl",
        short: "c",
        long: "command run option",
        ..ROW
    },
    Row { names: "guix", subcommands: "shell environment repl", ..ROW },
    Row { names: "gcloud", subcommands: "ssh", long: "command", ..ROW },
    Row { names: "aws", subcommands: "ssm alias configure", ..ROW },
    Row { names: "kubectl oc", subcommands: "debug run plugin edit", long: "kubeconfig", ..ROW },
    Row { names: "helm", long: "post-renderer", subcommands: "plugin", ..ROW },
    Row { names: "terraform tofu", subcommands: "console", ..ROW },
    Row { names: "op doppler infisical", subcommands: "run", ..ROW },
    Row { names: "ffmpeg ffplay", parts: "ladspa= lv2=", ..ROW },
    Row { names: "convert magick mogrify identify", beginnings: "msl: ephemeral: https: @ |", ..ROW },
    Row { names: "env", short: "S", long: "split-string chdir", ..ROW },
    Row { names: "sysctl", short: "w", ..ROW },
    Row { names: "mount", short: "oti", ..ROW },
    Row { names: "systemctl", subcommands: "edit set-environment import-environment", ..ROW },
    Row { names: "launchctl", subcommands: "submit asuser bsexec setenv", ..ROW },
    Row { names: "defaults", subcommands: "write", ..ROW },
    Row { names: "code cursor codium subl", beginnings: "--", ..ROW },
    Row { names: "tig", beginnings: "+", ..ROW },
];
