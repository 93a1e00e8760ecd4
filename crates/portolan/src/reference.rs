//! Generates docs/cli.md, docs/configuration.md and shell completions from the code. A test fails when the pages in
//! docs/ do not match the code; the hidden verb `reference` prints the pages.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};
use portolan_core::command::DAEMON_ACTIONS;

use crate::{
    arguments::{Arguments, Page},
    commands::ACTIONS,
    config::keys::KEYS,
    failure::{Exit, Outcome},
    output::{self, Format},
};

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell, format: Format) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "portolan", &mut script);
    match format {
        Format::Json => output::json(&serde_json::json!({"script": String::from_utf8_lossy(&script)})),
        Format::Plain => output::raw(&script),
    }
}

/// Prints a page.
pub(crate) fn print(page: Page) -> Outcome {
    output::raw(
        match page {
            Page::Cli => cli(),
            Page::Configuration => configuration(),
        }
        .as_bytes(),
    )
}

/// docs/cli.md.
pub(crate) fn cli() -> String {
    let mut root = Arguments::command();
    root.build();
    let mut out = String::from(
        "# Command line\n\n\
         Generated from the code by `portolan reference cli`; do not edit.\n\n\
         Results go to stdout, messages for people go to stderr. Every verb takes `--json`. You may shorten a session's id to its \
         beginning or end, as long as the short form is unique. A verb that needs the daemon starts the daemon if none runs. Colour is for \
         terminals only; `NO_COLOR` switches it off.\n\n",
    );
    out.push_str("## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in Exit::TABLE {
        let _ = writeln!(out, "| {code} | {meaning} |");
    }
    out.push_str("\n## Options of every verb\n\n");
    options(&root, &mut out, Which::Global);
    out.push_str("\n## Verbs\n\n");
    for verb in root.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        section(verb, "portolan", "portolan", 3, &mut out);
    }
    out.push_str(
        "## Actions\n\n\
         An *action* is something that a client can ask of a session or of the daemon. The \
         [protocol](protocol.md) uses the same names for the actions. The tables show an example command line for each \
         action. An action of a session, such as `add_rule`, changes that session only. An action of the \
         daemon can also change the rules or budgets of a project, of an agent or of every session. Some names differ \
         only in the order of their words: `add_rule` is an action of a session, and `rule_add` is an action of the \
         daemon.\n\n",
    );
    let is_of_daemon = |action: &str| DAEMON_ACTIONS.contains(&action);
    for (title, of_daemon) in [("of a session", false), ("of the daemon", true)] {
        let _ = writeln!(out, "| action {title} | command line |\n|---|---|");
        for (action, line) in ACTIONS.iter().filter(|(action, _)| is_of_daemon(action) == of_daemon) {
            let _ = writeln!(out, "| `{action}` | `portolan {line}` |");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len() + 1);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Global,
    Own,
}

/// A verb and its subcommands. `typed` is the command line before the verb: the parent verbs with their required
/// arguments.
fn section(command: &Command, above: &str, typed: &str, level: usize, out: &mut String) {
    let name = format!("{above} {}", command.get_name());
    let mut typed = format!("{typed} {}", command.get_name());
    let _ = writeln!(out, "{} {name}\n", "#".repeat(level));
    if let Some(about) = command.get_about() {
        let _ = writeln!(out, "{about}.\n");
    }
    // The first paragraph of the help is already above.
    let more = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    if let Some((_, more)) = more.split_once("\n\n") {
        let _ = writeln!(out, "{more}\n");
    }
    let mut usage = typed.clone();
    let positionals: Vec<_> = command.get_positionals().collect();
    if command
        .get_arguments()
        .any(|argument| !argument.is_positional() && !argument.is_global_set() && !skipped(argument))
    {
        usage.push_str(" [OPTIONS]");
    }
    for positional in &positionals {
        let value = positional.get_id().as_str().to_uppercase();
        let many = positional.get_num_args().is_some_and(|range| range.max_values() > 1);
        let dots = if many { "…" } else { "" };
        let _ = if positional.is_required_set() {
            write!(usage, " {value}{dots}")
        } else {
            write!(usage, " [{value}{dots}]")
        };
    }
    if command.has_subcommands() {
        usage.push_str(if command.is_subcommand_required_set() { " VERB" } else { " [VERB]" });
    }
    let _ = writeln!(out, "`{usage}`\n");
    let mut rows = String::new();
    for positional in positionals {
        let help = positional.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(rows, "- `{}`: {help}", positional.get_id().as_str().to_uppercase());
    }
    options(command, &mut rows, Which::Own);
    if !rows.is_empty() {
        let _ = writeln!(out, "{rows}");
    }
    for wanted in command.get_positionals().filter(|positional| positional.is_required_set()) {
        let _ = write!(typed, " {}", wanted.get_id().as_str().to_uppercase());
    }
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        section(verb, &name, &typed, level + 1, out);
    }
}

fn skipped(argument: &clap::Arg) -> bool {
    argument.is_hide_set() || matches!(argument.get_id().as_str(), "help" | "version")
}

fn options(command: &Command, out: &mut String, which: Which) {
    for argument in command.get_arguments() {
        if argument.is_positional()
            || skipped(argument)
            || argument.is_global_set() != (which == Which::Global)
        {
            continue;
        }
        let mut names = Vec::new();
        names.extend(argument.get_short().map(|short| format!("-{short}")));
        names.extend(argument.get_long().map(|long| format!("--{long}")));
        let mut shown = names.join(", ");
        if argument.get_action().takes_values()
            && let Some(values) = argument.get_value_names()
        {
            for value in values {
                let _ = write!(shown, " {value}");
            }
        }
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some(variable) = argument.get_env() {
            let _ = write!(help, " (variable `{}`)", variable.to_string_lossy());
        }
        let possible: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|_| argument.get_action().takes_values())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let _ = match possible.as_slice() {
            [] => Ok(()),
            [only] => write!(help, "; must be {only}"),
            several => write!(help, "; one of {}", several.join(", ")),
        };
        let defaults: Vec<String> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        if argument.get_action().takes_values() && !defaults.is_empty() {
            let _ = write!(help, "; default: `{}`", defaults.join(", "));
        }
        let _ = writeln!(out, "- `{shown}`: {help}");
    }
}

/// docs/configuration.md.
pub(crate) fn configuration() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         Generated from the code by `portolan reference configuration`; do not edit.\n\n\
         The file is `portolan.toml` in the home folder; `portolan config path` prints its path. The file is optional. An \
         environment variable overrides the file, and a command-line option (`portolan up --set KEY=VALUE`) overrides both. \
         `portolan config` shows every value with its origin, and `portolan config check` lists the mistakes. Portolan \
         refuses a file with an unknown key, and names the line of the key.\n\n\
         The home folder is `PORTOLAN_HOME`, otherwise the folder `portolan` in the platform's data \
         folder (on Linux `~/.local/share/portolan`). The home folder holds `portolan.toml`, \
         `portolan.db` (every session), `token` (the owner's token, mode 0600), `identity.json` (the \
         id of this home), `daemon.lock`, `logs/`, `run/` (the files of agents that outlive the daemon), and while \
         the daemon runs `daemon.json` and `daemon.sock`.\n",
    );
    let mut table = "";
    for key in KEYS.iter() {
        let (section, name) = key.path.rsplit_once('.').unwrap_or(("", &key.path));
        if section != table {
            table = section;
            let _ = writeln!(out, "\n## [{}]\n", section.replace('*', "NAME"));
            out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        }
        let default = if key.default.is_empty() { "none".to_owned() } else { format!("`{}`", key.default) };
        let variable = key.variable().map(|name| format!(" Variable: `{name}`.")).unwrap_or_default();
        let _ = writeln!(out, "| `{name}` | {} | {default} | {}{variable} |", key.kind.word(), key.doc);
    }
    out.push_str(
        "\n## Variables for clients\n\n\
         | variable | meaning |\n|---|---|\n\
         | `PORTOLAN_HOME` | the home folder |\n\
         | `PORTOLAN_URL` | use the daemon at this address instead of the local one |\n\
         | `PORTOLAN_TOKEN_FILE` | the file with the token for the daemon |\n\
         | `PORTOLAN_TOKEN` | the token itself; agents never get it |\n\
         | `PORTOLAN_CA_FILE` | also trust the certificates in this PEM file |\n\
         | `NO_COLOR` | no colour |\n\
         | `VISUAL`, `EDITOR` | the editor that `attach` uses for inputs |\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> (std::path::PathBuf, String) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (path, text)
    }

    /// Compares a page in docs/ with the code; with PORTOLAN_UPDATE_DOCS set, writes it instead.
    fn check(name: &str, expected: &str) {
        let (path, found) = page(name);
        if std::env::var_os("PORTOLAN_UPDATE_DOCS").is_some() {
            std::fs::write(path, expected).unwrap();
            return;
        }
        assert!(found == expected, "docs/{name} is old; run `cargo xtask schemas`");
    }

    // The page describes the program with all features.
    #[cfg(feature = "conformance")]
    #[test]
    fn the_command_line_reference_matches_the_code() {
        check("cli.md", &cli());
    }

    #[test]
    fn the_configuration_reference_matches_the_code() {
        check("configuration.md", &configuration());
    }

    #[test]
    fn clap_accepts_the_command_line() {
        Arguments::command().debug_assert();
    }

    /// Every verb and subcommand, each as a user types it.
    fn verbs(command: &clap::Command, typed: &[String], all: &mut Vec<Vec<String>>) {
        for verb in command.get_subcommands() {
            let typed = [typed, &[verb.get_name().to_owned()]].concat();
            verbs(verb, &typed, all);
            all.push(typed);
        }
    }

    // covers: 000-099
    #[test]
    fn the_help_of_every_verb_says_what_the_verb_does() {
        let mut all = vec![vec![]];
        verbs(&Arguments::command(), &[], &mut all);
        let typed: Vec<String> = all.iter().map(|verb| verb.join(" ")).collect();
        assert!(typed.contains(&"up".to_owned()) && typed.contains(&"past resume".to_owned()), "{typed:?}");
        for verb in all {
            let words = [&["portolan".to_owned()], verb.as_slice(), &["--help".to_owned()]].concat();
            let said = Arguments::command().try_get_matches_from(&words).unwrap_err();
            assert_eq!(said.kind(), clap::error::ErrorKind::DisplayHelp, "{words:?}: {said}");
            let said = said.to_string();
            let usage = said.find("Usage: portolan").unwrap_or_else(|| panic!("{words:?}: {said}"));
            assert!(!said[..usage].trim().is_empty(), "{words:?} does not say what it is for: {said}");
        }
    }

    #[test]
    fn every_shell_gets_a_completion_script() {
        use clap::ValueEnum as _;
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "portolan", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("approve"), "{shell}");
        }
    }
}
