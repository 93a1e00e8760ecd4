//! Why it cannot be seen what a command runs.

/// A reason why what runs cannot be told from the text, although the text can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hidden {
    /// `$CMD args`: the name of the program comes from somewhere else.
    ProgramNotKnown,
    /// `"" args`.
    ProgramEmpty,
    /// `./env cmd`: a program with the name of a known one, in a folder where that one is not installed.
    UnusualPlace(String),
    /// A function of this name is defined: it may stand in for any program.
    Function(String),
    /// `coproc`.
    Coprocess,
    /// `alias`, `trap`, `set` and the like change what the rest of the text means.
    ChangesShell(String),
    /// A variable is set for the rest of the text that changes which programs run, or what they run.
    ChangesWhatRuns(String),
    /// A builtin sets a variable whose name is not known.
    VariableNotKnown(String),
    /// Bash may run commands that it finds in the value of this variable, where it counts with it.
    Counting(String),
    /// `${!X}`, `${X@P}`: Bash may run commands that it finds in the value.
    ExpandsValue,
    /// A wrapper has an option that is not known here: what it runs may begin anywhere.
    WrapperOption {
        /// The wrapper.
        wrapper: String,
        /// The option as written.
        option: String,
    },
    /// A word of a wrapper is not known before it runs, so what it runs may begin anywhere.
    WrapperWord(String),
    /// `bash`, or another shell, that takes its commands from its input or from a person.
    ShellInput(String),
    /// `bash FILE`.
    ShellFile(String),
    /// `bash -c "$X"`, `eval "$X"`: the text is not known before it runs.
    ShellText(String),
    /// A shell with an option that changes how it reads its text, or that is not known here.
    ShellOption {
        /// The shell.
        shell: String,
        /// The option as written.
        option: String,
    },
    /// `source FILE`.
    Sourced,
    /// An option or an argument that makes the program run something, or may: `python -c`.
    RunsArgument {
        /// The program.
        program: String,
        /// The option or the argument as written, or its beginning.
        argument: String,
    },
    /// A program that runs what it is given: `parallel`, `tmux`, `vim`.
    RunsOthers(String),
    /// An interpreter that takes its program from its input.
    ProgramFromInput(String),
    /// A subcommand that is not known here, so that it may be an alias or a program of its own: `git foo`.
    Subcommand {
        /// The program.
        program: String,
        /// The subcommand.
        subcommand: String,
    },
    /// An argument that is not known before it runs, of a program with options that run something.
    MayBeOption(String),
    /// A redirection in a text that runs elsewhere or with other rights.
    RedirectionElsewhere,
    /// `/dev/tcp/HOST/PORT`: the shell itself opens a connection.
    Connection,
}

impl Hidden {
    /// The reason, in plain English.
    pub fn describe(&self) -> String {
        match self {
            Self::ProgramNotKnown => "the name of the program is not known before it runs".to_owned(),
            Self::ProgramEmpty => "the name of the program is empty".to_owned(),
            Self::UnusualPlace(program) => {
                format!("`{program}` has the name of a known program, but is not in a usual place")
            }
            Self::Function(name) => {
                format!("a function `{name}` is defined, which may stand in for a program")
            }
            Self::Coprocess => "a coprocess is started".to_owned(),
            Self::ChangesShell(builtin) => format!("`{builtin}` changes how the shell runs later commands"),
            Self::ChangesWhatRuns(name) => format!("the variable `{name}` is set, which changes what runs"),
            Self::VariableNotKnown(builtin) => {
                format!("`{builtin}` sets a variable whose name is not known before it runs")
            }
            Self::Counting(what) => {
                format!("Bash evaluates {what} as arithmetic, and arithmetic can run commands")
            }
            Self::ExpandsValue => "Bash may run commands that it finds in the value of a variable".to_owned(),
            Self::WrapperOption { wrapper, option } => {
                format!("the option `{option}` of `{wrapper}` is not known here")
            }
            Self::WrapperWord(wrapper) => {
                format!(
                    "an argument of `{wrapper}` is not known before `{wrapper}` runs, so the program that `{wrapper}` \
                     starts is not known either"
                )
            }
            Self::ShellInput(shell) => format!("`{shell}` takes its commands from its input"),
            Self::ShellFile(shell) => format!("`{shell}` runs the commands in a file"),
            Self::ShellText(shell) => format!("the text that `{shell}` runs is not known before it runs"),
            Self::ShellOption { shell, option } => {
                format!("`{shell}` has the option `{option}`, so Portolan does not know what `{shell}` runs")
            }
            Self::Sourced => "the commands in a file are run".to_owned(),
            Self::RunsArgument { program, argument } => {
                format!("`{program}` can run something because of `{argument}`")
            }
            Self::RunsOthers(program) => format!("`{program}` can run other programs"),
            Self::ProgramFromInput(program) => {
                format!("`{program}` runs code that it gets from its input")
            }
            Self::Subcommand { program, subcommand } => {
                format!("`{program} {subcommand}` is not known here; it may be an alias")
            }
            Self::MayBeOption(program) => {
                format!(
                    "`{program}` has an argument that is not known before `{program}` runs and that may be an option"
                )
            }
            Self::RedirectionElsewhere => {
                "a command that runs elsewhere or with other rights reads or writes a file by a redirection"
                    .to_owned()
            }
            Self::Connection => "the shell opens a connection to the network".to_owned(),
        }
    }

    /// `program` can run something because of `argument`, of which only the beginning is told.
    pub(crate) fn runs(program: &str, argument: &str) -> Self {
        const SHOWN: usize = 40;
        Self::RunsArgument { program: program.to_owned(), argument: argument.chars().take(SHOWN).collect() }
    }
}
