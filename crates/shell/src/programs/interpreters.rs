//! Interpreters: programs that run a program in their own language, from a file, an option or their input.
//!
//! A file is the business of whoever allows it. A program in an option, or from the input, cannot be seen.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::is_option;
use crate::{Hidden, Word};

struct Interpreter {
    names: &'static str,
    /// Letters of options that run their value, or load something.
    runs: &'static str,
    /// The same, long.
    long_runs: &'static str,
    /// Letters of options with a value.
    values: &'static str,
    /// The same, long, without `--`.
    long_values: &'static str,
    /// Letters of options without a value.
    flags: &'static str,
}

const NONE: Interpreter =
    Interpreter { names: "", runs: "", long_runs: "", values: "", long_values: "", flags: "" };

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: "python python2 python3 pypy pypy3",
        runs: "ci",
        values: "WXQ",
        long_values: "check-hash-based-pycs",
        flags: "bBdEIOPqRsSuvVx?h",
        ..NONE
    },
    Interpreter {
        names: "ipython ipython3 bpython ptpython",
        runs: "ci",
        long_runs: "command code-to-run ext",
        ..NONE
    },
    Interpreter {
        names: "node nodejs",
        runs: "eprCi",
        long_runs: "eval print require import loader experimental-loader env-file interactive run build-snapshot inspect",
        flags: "vch",
        ..NONE
    },
    Interpreter {
        names: "bun",
        runs: "eprc",
        long_runs: "eval print preload require import config shell run bun cwd",
        ..NONE
    },
    Interpreter { names: "deno", runs: "", long_runs: "preload config import-map", ..NONE },
    Interpreter {
        names: "tsx ts-node esno",
        runs: "epr",
        long_runs: "eval print require import loader",
        ..NONE
    },
    Interpreter { names: "perl perl5", runs: "eEMmdIxiC", flags: "acflnpsStTuUvVwWX", ..NONE },
    Interpreter { names: "raku", runs: "eMI", ..NONE },
    Interpreter {
        names: "ruby jruby truffleruby",
        runs: "erIxSCi",
        long_runs: "require",
        values: "EKTW",
        flags: "acdhlnpsUvwy",
        ..NONE
    },
    Interpreter {
        names: "php",
        runs: "rBREFdzcS",
        long_runs: "run process-begin process-code process-end process-file define zend-extension php-ini server",
        values: "ft",
        flags: "nqCehilmvwa",
        ..NONE
    },
    Interpreter { names: "lua luajit lua5.1 lua5.2 lua5.3 lua5.4", runs: "elijb", flags: "vEW", ..NONE },
    Interpreter { names: "Rscript R r littler", runs: "ef", long_runs: "eval expression args file", ..NONE },
    Interpreter { names: "julia", runs: "eELJm", long_runs: "eval print load sysimage module", ..NONE },
    Interpreter {
        names: "elixir iex mix",
        runs: "erS",
        long_runs: "eval require erl dot-iex rpc-eval",
        ..NONE
    },
    Interpreter { names: "erl escript", runs: "es", long_runs: ":eval :s :run :config :boot", ..NONE },
    Interpreter {
        names: "ghc ghci runghc runhaskell",
        runs: "eF",
        long_runs: ":ghci-script :fplugin :pgmF",
        ..NONE
    },
    Interpreter { names: "ocaml utop", runs: "eI", long_runs: ":init :ppx :pp", ..NONE },
    Interpreter {
        names: "swift scala groovy clojure clj kotlin crystal bb jbang",
        runs: "eMmXJSr",
        long_runs: "eval expression main init",
        ..NONE
    },
    Interpreter {
        names: "guile racket sbcl ecl clisp mit-scheme chez csi gosh",
        runs: "ceEfrlx",
        long_runs: "eval load expression script require",
        ..NONE
    },
    Interpreter {
        names: "octave matlab sage scilab maxima",
        runs: "crf",
        long_runs: "eval :batch :r",
        ..NONE
    },
    Interpreter { names: "tclsh wish jshell irb pry", runs: "re", long_runs: "require startup", ..NONE },
];

/// The row of each interpreter.
static BY_NAME: LazyLock<HashMap<&str, &Interpreter>> = LazyLock::new(|| {
    let rows = INTERPRETERS.iter().flat_map(|row| row.names.split(' ').map(move |name| (name, row)));
    rows.collect()
});

/// Modules of Python that run code from their arguments.
const MODULES: &str =
    "timeit code codeop pdb trace profile cProfile runpy IPython ipython asyncio idlelib doctest";

/// Options that only tell something.
const TELL: &str = "--version --help -V -v -h --v8-options";

/// Why it cannot be seen what an interpreter of this name runs. The outer layer says whether it is one.
#[expect(clippy::option_option, reason = "no interpreter, or one with nothing hidden")]
pub(super) fn check(name: &str, arguments: &[Word]) -> Option<Option<Hidden>> {
    let interpreter = BY_NAME.get(name).or_else(|| BY_NAME.get(version_taken_off(name)))?;
    Some(interpreter.check(name, arguments))
}

/// `python3.12` is `python`.
fn version_taken_off(name: &str) -> &str {
    name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.' || char == '-')
}

impl Interpreter {
    fn check(&self, name: &str, arguments: &[Word]) -> Option<Hidden> {
        let mut words = arguments.iter();
        // After an option that is not known, a word may be its value instead of the file.
        let mut uncertain = false;
        while let Some(word) = words.next() {
            let Some(text) = word.literal() else {
                if word.is_flag_possible() {
                    return Some(Hidden::MayBeOption(name.to_owned()));
                }
                return None;
            };
            if text == "-" || text == "/dev/stdin" {
                return Some(Hidden::ProgramFromInput(name.to_owned()));
            }
            if text == "--" {
                return if words.len() == 0 { Some(Hidden::ProgramFromInput(name.to_owned())) } else { None };
            }
            if !text.starts_with(['-', '+']) {
                if matches!((name, &*text), ("deno", "eval" | "repl" | "x") | ("bun", "x" | "repl" | "exec"))
                {
                    return Some(Hidden::runs(name, &text));
                }
                if uncertain {
                    continue;
                }
                return None;
            }
            if TELL.split_ascii_whitespace().any(|tell| tell == text) {
                if arguments.len() == 1 {
                    return None;
                }
                continue;
            }
            if let Some(module) =
                text.strip_prefix("-m").filter(|_| version_taken_off(name).starts_with("py"))
            {
                let module = if module.is_empty() {
                    words.next().and_then(Word::literal)
                } else {
                    Some(module.into())
                };
                return match module {
                    Some(module) if MODULES.split(' ').any(|known| known == module) => {
                        Some(Hidden::runs(name, "-m"))
                    }
                    Some(_) => None,
                    None => Some(Hidden::MayBeOption(name.to_owned())),
                };
            }
            if is_option(&text, self.runs, self.long_runs) {
                return Some(Hidden::runs(name, &text));
            }
            if let Some(long) = text.strip_prefix("--") {
                if self.long_values.split_ascii_whitespace().any(|known| known == long) {
                    words.next();
                } else if !text.contains('=') {
                    uncertain = true;
                }
                continue;
            }
            for (index, letter) in text.char_indices().skip(1) {
                if self.values.contains(letter) {
                    if index + letter.len_utf8() == text.len() {
                        words.next();
                    }
                    break;
                }
                uncertain |= !self.flags.contains(letter);
            }
        }
        // There may have been a file.
        if uncertain && arguments.iter().any(|word| !word.is_flag_possible()) {
            return None;
        }
        Some(Hidden::ProgramFromInput(name.to_owned()))
    }
}
