//! The wrappers that are known, with their options.
//!
//! An option that is missing here hides what runs, so it is safe to leave one out, and wrong to list one that runs
//! something, reads a configuration or changes how the rest is read.

use crate::WrapperKind::{self, Elsewhere, Privilege, Transparent};

/// Options of a wrapper. Long ones are separated by blanks, without `--`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Letters without a value. `-` stands for a `-` alone, `#` for a number such as `-10`.
    pub(super) flags: &'static str,
    /// Letters with a value, attached or as the next word.
    pub(super) values: &'static str,
    /// Letters with a value that may only be attached.
    pub(super) attached: &'static str,
    /// Long options without a value.
    pub(super) long: &'static str,
    /// Long options with a value, behind `=` or as the next word.
    pub(super) long_values: &'static str,
    /// Long options with a value that may only stand behind `=`.
    pub(super) long_attached: &'static str,
    /// Options with which it runs nothing.
    pub(super) alone: &'static str,
}

/// No options.
pub(super) const NONE: Options =
    Options { flags: "", values: "", attached: "", long: "", long_values: "", long_attached: "", alone: "" };

/// What stands behind the options and operands of a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// A command.
    Command,
    /// `NAME=VALUE` words and a command.
    Assignments,
    /// Words that are joined and run by a shell.
    Text,
    /// The same, or a command if the option `-x` is given: `watch`.
    TextOrCommand,
    /// A command, or `-c` and a text: `flock`.
    CommandOrOption,
    /// A command that gets more words from the input: `xargs`.
    Fed,
    /// Nothing: the text is the value of `-c`, wherever it stands: `su`.
    Option,
}

/// What a wrapper does without a command behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bare {
    /// Something of its own.
    Own,
    /// It starts a shell.
    Shell,
}

/// Where options may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Only before the operands.
    First,
    /// Behind the operands too.
    Anywhere,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// Its names, separated by blanks.
    pub(super) names: &'static str,
    /// The subcommand that makes it a wrapper, and the options that may stand before that.
    pub(super) subcommand: &'static [&'static str],
    pub(super) global: Options,
    pub(super) kind: WrapperKind,
    pub(super) options: Options,
    /// How many words stand between the options and the command.
    pub(super) operands: usize,
    pub(super) order: Order,
    pub(super) rest: Rest,
    pub(super) bare: Bare,
    /// The settings that `-o` may have, in lower case, because others may run something; empty if it has none.
    pub(super) settings: &'static str,
}

const TRANSPARENT: Spec = Spec {
    names: "",
    subcommand: &[],
    global: NONE,
    kind: Transparent,
    options: NONE,
    operands: 0,
    order: Order::First,
    rest: Rest::Command,
    bare: Bare::Own,
    settings: "",
};
const PRIVILEGE: Spec = Spec { kind: Privilege, ..TRANSPARENT };
const ELSEWHERE: Spec = Spec { kind: Elsewhere, bare: Bare::Shell, ..TRANSPARENT };

const DOCKER: Options =
    Options { flags: "D", values: "Hcl", long: "debug tls", long_values: "host context log-level", ..NONE };
const COMPOSE: Options = Options {
    values: "fp",
    long: "compatibility all-resources",
    long_values: "file project-name profile project-directory ansi progress parallel",
    ..NONE
};
const DOCKER_EXEC: Options = Options {
    flags: "ditT",
    values: "euw",
    long: "detach interactive tty privileged no-TTY",
    long_values: "env user workdir detach-keys index",
    ..NONE
};
const DOCKER_RUN: Options = Options {
    flags: "ditPT",
    values: "acehlmpuvw",
    long: "detach init interactive no-healthcheck oom-kill-disable privileged publish-all quiet read-only rm tty \
           no-deps service-ports use-aliases build no-TTY remove-orphans",
    long_values: "add-host attach cap-add cap-drop cgroupns cpus cpuset-cpus device dns env env-file expose \
                  gpus group-add hostname ip ipc label log-driver mac-address memory mount name net network \
                  network-alias pid platform pull publish restart runtime security-opt shm-size stop-signal \
                  stop-timeout sysctl tmpfs ulimit user userns volume volumes-from workdir",
    ..NONE
};
const KUBECTL: Options = Options {
    flags: "itq",
    values: "ncsv",
    long: "stdin tty quiet insecure-skip-tls-verify",
    long_values: "namespace container context cluster user server request-timeout pod-running-timeout as",
    ..NONE
};

/// The table. The first row that fits counts.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        names: "env genv",
        options: Options {
            flags: "i0v-",
            values: "u",
            long: "ignore-environment null debug list-signal-handling",
            long_values: "unset",
            long_attached: "block-signal default-signal ignore-signal",
            ..NONE
        },
        rest: Rest::Assignments,
        ..TRANSPARENT
    },
    Spec {
        names: "timeout gtimeout",
        options: Options {
            flags: "fpv",
            values: "ks",
            long: "foreground preserve-status verbose",
            long_values: "kill-after signal",
            ..NONE
        },
        operands: 1,
        ..TRANSPARENT
    },
    Spec {
        names: "nice gnice",
        options: Options { flags: "#", values: "n", long_values: "adjustment", ..NONE },
        ..TRANSPARENT
    },
    Spec {
        names: "ionice",
        options: Options { flags: "t", values: "cn", long: "ignore", long_values: "class classdata", ..NONE },
        ..TRANSPARENT
    },
    Spec { names: "nohup builtin unbuffer nocache chronic eatmydata", ..TRANSPARENT },
    Spec { names: "busybox toybox", ..TRANSPARENT },
    Spec { names: "time gtime", options: Options { flags: "pvq", values: "f", ..NONE }, ..TRANSPARENT },
    Spec {
        names: "stdbuf gstdbuf",
        options: Options { values: "ioe", long_values: "input output error", ..NONE },
        ..TRANSPARENT
    },
    Spec {
        names: "setsid",
        options: Options { flags: "cfw", long: "ctty fork wait", ..NONE },
        ..TRANSPARENT
    },
    Spec { names: "command", options: Options { flags: "p", alone: "vV", ..NONE }, ..TRANSPARENT },
    Spec { names: "exec", options: Options { flags: "cl", values: "a", ..NONE }, ..TRANSPARENT },
    Spec {
        names: "chrt",
        options: Options {
            flags: "bfiordRv",
            values: "TPD",
            long: "batch fifo idle other rr deadline reset-on-fork verbose",
            alone: "pm",
            ..NONE
        },
        operands: 1,
        ..TRANSPARENT
    },
    Spec {
        names: "taskset",
        options: Options { flags: "ac", long: "all-tasks cpu-list", alone: "p", ..NONE },
        operands: 1,
        ..TRANSPARENT
    },
    Spec {
        names: "xargs gxargs",
        options: Options {
            flags: "0trxpo",
            values: "adEILnPsJRS",
            attached: "eil",
            long: "null no-run-if-empty verbose interactive exit open-tty",
            long_values: "arg-file delimiter max-args max-procs max-chars",
            long_attached: "replace max-lines eof",
            ..NONE
        },
        rest: Rest::Fed,
        ..TRANSPARENT
    },
    Spec {
        names: "watch",
        options: Options {
            flags: "bcegptwx",
            values: "nq",
            attached: "d",
            long: "beep color errexit chgexit precise no-title no-wrap exec differences",
            long_values: "interval equexit",
            long_attached: "differences",
            ..NONE
        },
        rest: Rest::TextOrCommand,
        ..TRANSPARENT
    },
    Spec {
        names: "flock",
        options: Options {
            flags: "sxeunoFv",
            values: "wE",
            long: "shared exclusive unlock nonblock nb close no-fork verbose",
            long_values: "timeout wait conflict-exit-code",
            ..NONE
        },
        operands: 1,
        order: Order::First,
        rest: Rest::CommandOrOption,
        ..TRANSPARENT
    },
    Spec { names: "caffeinate", options: Options { flags: "dimsu", values: "tw", ..NONE }, ..TRANSPARENT },
    Spec {
        names: "sudo",
        options: Options {
            flags: "AbEHknPS",
            values: "gpu",
            long: "askpass background preserve-env set-home reset-timestamp non-interactive preserve-groups stdin",
            long_values: "group prompt user",
            long_attached: "preserve-env",
            alone: "lvKV",
            ..NONE
        },
        rest: Rest::Assignments,
        ..PRIVILEGE
    },
    Spec { names: "doas", options: Options { flags: "n", values: "u", alone: "L", ..NONE }, ..PRIVILEGE },
    Spec {
        names: "pkexec",
        options: Options { long: "disable-internal-agent keep-cwd", long_values: "user", ..NONE },
        ..PRIVILEGE
    },
    Spec { names: "gosu su-exec", operands: 1, ..PRIVILEGE },
    Spec {
        names: "su runuser",
        options: Options {
            flags: "lmpfP-",
            values: "cgG",
            long: "login preserve-environment fast pty",
            long_values: "command group supp-group",
            ..NONE
        },
        order: Order::Anywhere,
        rest: Rest::Option,
        bare: Bare::Shell,
        ..PRIVILEGE
    },
    Spec {
        names: "ssh",
        options: Options { flags: "46AaCfgKkMNnqTtvXxYy", values: "bcDeiJLlmopRWw", alone: "V", ..NONE },
        operands: 1,
        order: Order::Anywhere,
        rest: Rest::Text,
        settings: "addressfamily batchmode compression connectionattempts connecttimeout controlmaster controlpath \
                   controlpersist exitonforwardfailure forwardagent identitiesonly identityfile loglevel \
                   numberofpasswordprompts passwordauthentication port preferredauthentications \
                   pubkeyauthentication requesttty serveralivecountmax serveraliveinterval \
                   stricthostkeychecking tcpkeepalive user userknownhostsfile",
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["exec"],
        global: DOCKER,
        options: DOCKER_EXEC,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["container", "exec"],
        global: DOCKER,
        options: DOCKER_EXEC,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["run"],
        global: DOCKER,
        options: DOCKER_RUN,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["container", "run"],
        global: DOCKER,
        options: DOCKER_RUN,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["compose", "exec"],
        global: COMPOSE,
        options: DOCKER_EXEC,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker podman nerdctl",
        subcommand: &["compose", "run"],
        global: COMPOSE,
        options: DOCKER_RUN,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker-compose podman-compose",
        subcommand: &["exec"],
        global: COMPOSE,
        options: DOCKER_EXEC,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "docker-compose podman-compose",
        subcommand: &["run"],
        global: COMPOSE,
        options: DOCKER_RUN,
        operands: 1,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "kubectl oc",
        subcommand: &["exec"],
        global: KUBECTL,
        options: KUBECTL,
        operands: 1,
        order: Order::Anywhere,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "lxc incus",
        subcommand: &["exec"],
        options: Options {
            flags: "tTn",
            long: "force-interactive force-noninteractive disable-stdin",
            long_values: "cwd env user group",
            ..NONE
        },
        operands: 1,
        order: Order::Anywhere,
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "chroot",
        options: Options { long: "skip-chdir", long_values: "groups userspec", ..NONE },
        operands: 1,
        ..ELSEWHERE
    },
    Spec {
        names: "nsenter",
        options: Options {
            flags: "aFeZk",
            values: "tSG",
            attached: "muinpUCTrw",
            long: "all no-fork preserve-credentials keep-caps",
            long_values: "target setuid setgid",
            long_attached: "mount uts ipc net pid user cgroup time root wd",
            ..NONE
        },
        ..ELSEWHERE
    },
    Spec {
        names: "unshare",
        options: Options {
            flags: "frc",
            values: "SGR",
            attached: "muinpUCT",
            long: "fork map-root-user map-current-user keep-caps",
            long_values: "setuid setgid root",
            long_attached: "mount uts ipc net pid user cgroup time mount-proc kill-child",
            ..NONE
        },
        ..ELSEWHERE
    },
    Spec {
        names: "systemd-run",
        options: Options {
            flags: "tPdGqr",
            values: "u",
            long: "user system scope wait pipe pty collect quiet no-ask-password same-dir remain-after-exit no-block",
            long_values: "unit description slice uid gid nice",
            ..NONE
        },
        bare: Bare::Own,
        ..ELSEWHERE
    },
    Spec {
        names: "wsl wsl.exe",
        options: Options { flags: "e", values: "du", long: "exec", long_values: "distribution user", ..NONE },
        rest: Rest::Text,
        ..ELSEWHERE
    },
];
