//! Variables that change which program runs, or what it runs.
//!
//! There is no end to them: every program may have its own. The table is generous, with whole families by the
//! beginning or the end of the name; a harmless variable that is caught costs a question. The tables are
//! words in a text, because there are many.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Whole names.
const NAMES: &str = "
    ACLOCAL ANT_OPTS AR AS AUTOCONF AUTOMAKE AWKPATH AWKLIBPATH BASHOPTS BASH_ENV BASH_CMDS BASH_ALIASES
    BASH_LOADABLES_PATH BASH_XTRACEFD BROWSER BUN_OPTIONS CC CDPATH CLASSPATH COMPILER_PATH COMSPEC CPP CXX
    DEBUGINFOD_URLS DISPLAY DOCKER_HOST EDITOR ENV EXECIGNORE FC FCEDIT FIGNORE FPATH FUNCNEST
    GCC_EXEC_PREFIX GCONV_PATH GLOBIGNORE GOENV GOFLAGS GOPATH GOPROXY GOROOT GOTOOLCHAIN GREP_OPTIONS
    HISTFILE HOME HOSTALIASES IFS INPUTRC JAVA_HOME JAVA_OPTS KUBECONFIG LD LESSCLOSE LESSOPEN LOCPATH
    LOCALDOMAIN LUA_INIT LUA_PATH LUA_CPATH MAILCAPS MAKE MAKEFILES MAKEFLAGS MANPAGER MANOPT MFLAGS
    GNUMAKEFLAGS NLSPATH NM NODE_OPTIONS NODE_PATH NULLCMD OLDPWD PAGER PATH PATHEXT PERL5DB PERL5LIB
    PERL5OPT PERLLIB PERLIO PHPRC PHP_INI_SCAN_DIR POSIXLY_CORRECT PROMPT_COMMAND PS0 PS1 PS2 PS4 PWD
    PYTHONBREAKPOINT PYTHONEXECUTABLE PYTHONHOME PYTHONINSPECT PYTHONPATH PYTHONPLATLIBDIR
    PYTHONPYCACHEPREFIX PYTHONSTARTUP PYTHONUSERBASE PYTHONWARNINGS READNULLCMD RESOLV_HOST_CONF RES_OPTIONS
    RSYNC_RSH RUBYLIB RUBYOPT RUSTC RUSTDOC RUSTUP_HOME SED SHELL SHELLOPTS SSH_ASKPASS SUDO_ASKPASS
    SVN_EDITOR SVN_SSH SYSTEMD_EDITOR TAPE TAR_OPTIONS TERMCAP TERMINFO TERMINFO_DIRS TMOUT TMPDIR TMPPREFIX
    TZDIR VIRTUAL_ENV VISUAL WGETRC XARGS XAUTHORITY ZDOTDIR ZIPOPT UNZIP _ _JAVA_OPTIONS JDK_JAVA_OPTIONS
    JAVA_TOOL_OPTIONS RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS OPENSSL_CONF OPENSSL_MODULES
    OPENSSL_ENGINES SSLKEYLOGFILE CURL_HOME LESS LESSEDIT MORE VIMINIT EXINIT MYVIMRC VIM VIMRUNTIME
    EMACSLOADPATH GNUPGHOME PGSERVICEFILE PSQLRC PSQL_PAGER PSQL_EDITOR MYSQL_HOME SQLITE_HISTORY SCREENRC
    TMUX http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY path cdpath fpath module_path
";

/// How the names of a family begin.
const BEGINNINGS: &str = "
    LD_ DYLD_ GIT_ BASH_FUNC_ NPM_CONFIG_ npm_config_ YARN_ PNPM_ COREPACK_ BUN_CONFIG_ CARGO_ RUSTC_
    RUSTUP_ XDG_ PIP_ UV_ POETRY_ CONDA_ GLIBC_ MALLOC_ CORECLR_ DOTNET_ COR_ ELECTRON_ BUNDLE_ GEM_ MAVEN_
    GRADLE_ CMAKE_ PKG_CONFIG NIX_ SSH_ SUDO_ LIBGL_ GTK_ QT_ GST_ VK_ ASAN_ LSAN_ TSAN_ UBSAN_ MSAN_ LLVM_
    ANSIBLE_ TF_CLI_ HELM_ DOCKER_ BUILDKIT_ CONTAINER_ HG DENO_ PERL_ OPAM COMPOSER_ ERL_ ELIXIR_ JULIA_ R_
    CCACHE_ SCCACHE_ DISTCC_ KDE_ PLAYWRIGHT_
";

/// How the names of a family end.
const ENDS: &str = "
    _COMMAND _CMD _EDITOR _PAGER _SHELL _WRAPPER _RUNNER _LINKER _PRELOAD _HOME _CONFIG _CONFIG_FILE
    _CONFIG_DIR _OPTIONS _OPTS OPTS FLAGS _ASKPASS _BROWSER _INIT _RC _PATH _PROGRAM _BIN _EXEC _EXE _HOOK
    _HOOKS _PLUGIN _PLUGINS _STARTUP _RSH _PROXY _proxy _ALIASES
";

/// In a family, but harmless, and often seen.
const HARMLESS: &str = "
    GIT_AUTHOR_DATE GIT_AUTHOR_EMAIL GIT_AUTHOR_NAME GIT_COMMITTER_DATE GIT_COMMITTER_EMAIL
    GIT_COMMITTER_NAME GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT GIT_TRACE_SETUP CARGO_TERM_COLOR
    CARGO_INCREMENTAL CARGO_NET_OFFLINE CARGO_BUILD_JOBS DOCKER_BUILDKIT UV_OFFLINE PIP_NO_INPUT
    DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO
";

/// Does a variable of this name change which program runs, or what a program runs?
pub(crate) fn changes_what_runs(name: &str) -> bool {
    // A text may set thousands of variables.
    static TABLES: LazyLock<[HashSet<&str>; 2]> =
        LazyLock::new(|| [HARMLESS, NAMES].map(|table| table.split_ascii_whitespace().collect()));
    static EDGES: LazyLock<[Vec<&str>; 2]> =
        LazyLock::new(|| [BEGINNINGS, ENDS].map(|table| table.split_ascii_whitespace().collect()));
    let [harmless, names] = &*TABLES;
    let [beginnings, ends] = &*EDGES;
    if harmless.contains(name) {
        return false;
    }
    names.contains(name)
        || beginnings.iter().any(|beginning| name.starts_with(beginning))
        || ends.iter().any(|end| name.ends_with(end))
        // `BASH_FUNC_x%%`, and anything else that is no name at all.
        || !is_name(name)
}

/// Is it a name as variables of the shell have it?
pub(crate) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_a_program_change_what_runs() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "IFS",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "PAGER",
            "MANPAGER",
            "EDITOR",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUSTC_WRAPPER",
            "DYLD_INSERT_LIBRARIES",
            "CFLAGS",
            "JAVA_TOOL_OPTIONS",
            "BASH_FUNC_git%%",
            "HOME",
        ] {
            assert!(changes_what_runs(name), "{name}");
        }
    }

    #[test]
    fn everyday_variables_do_not() {
        for name in
            ["FOO", "CI", "NODE_ENV", "RUST_LOG", "DEBUG", "TZ", "LANG", "LC_ALL", "GIT_AUTHOR_NAME", "i"]
        {
            assert!(!changes_what_runs(name), "{name}");
        }
    }
}
