//! Merges the layers of the configuration: defaults, portolan.toml, environment, command line.
//!
//! Reads only the file and the variables that the caller passes, so that every error can be tested. Keeps the origin of
//! each value.
//!
//! - [`mod@file`]: portolan.toml, with the line of everything in it
//! - [`values`]: one value by its full name
//! - [`mod@contradictions`]: values that are valid alone but not together

mod contradictions;
mod file;
mod values;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, io::ErrorKind, path::Path};

use toml::Table;

use self::{contradictions::contradictions, values::put};
use super::{
    Settings,
    keys::{self, KEYS, Key},
};
use crate::failure::{Failure, Outcome};

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nothing set the value.
    Default,
    /// This line of portolan.toml.
    File(usize),
    /// This variable.
    Environment(String),
    /// This option of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "portolan.toml:{line}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "option {flag}"),
        }
    }
}

/// A value given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    /// The key's full name.
    pub(crate) path: String,
    /// The value as text.
    pub(crate) value: String,
    /// The option, for messages.
    pub(crate) flag: String,
}

/// The configuration in use.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Every value.
    pub(crate) settings: Settings,
    /// The origin of each value that was set, by full name.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Variables that look like mistakes but may belong to another program.
    pub(crate) warnings: Vec<String>,
}

/// The prefix of our variables.
const PREFIX: &str = "PORTOLAN_";

/// Variables that begin with PORTOLAN_ but are not keys of the configuration.
const OTHER_VARIABLES: &[&str] =
    &["PORTOLAN_HOME", "PORTOLAN_URL", "PORTOLAN_TOKEN", "PORTOLAN_TOKEN_FILE", "PORTOLAN_CA_FILE"];

/// Reads portolan.toml, the environment and the command line's overrides.
pub(crate) fn load(file: &Path, overrides: &[Override]) -> Outcome<Loaded> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        // A home folder that does not exist yet: creating the folder reports what is wrong with its path.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
        Err(error) => return Err(Failure::usage(format!("{}: {error}", file.display()))),
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX));
    assemble(&text, variables, overrides).map_err(|problems| Failure::usage(problems.join("\n")))
}

/// Merges the layers, or returns every error in them.
pub(crate) fn assemble(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
    overrides: &[Override],
) -> Result<Loaded, Vec<String>> {
    let mut layers = Layers::default();
    match file::read(text, &mut layers.origins, &mut layers.warnings) {
        Ok(table) => layers.merged = table,
        Err(found) => layers.problems.extend(found),
    }
    let variables: BTreeMap<String, String> = variables.into_iter().collect();
    for (name, value) in &variables {
        layers.variable(name, value);
    }
    for given in overrides {
        layers.option(given);
    }
    let Layers { merged, origins, mut problems, warnings } = layers;
    if !problems.is_empty() {
        return Err(problems);
    }
    let settings: Settings =
        merged.try_into().map_err(|error: toml::de::Error| vec![one_line(error.message())])?;
    problems.extend(contradictions(&settings, &origins));
    if problems.is_empty() { Ok(Loaded { settings, origins, warnings }) } else { Err(problems) }
}

/// The layers so far; each layer overrides the layers before it.
#[derive(Default)]
struct Layers {
    merged: Table,
    origins: BTreeMap<String, Origin>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Layers {
    /// An environment variable with our prefix.
    fn variable(&mut self, name: &str, value: &str) {
        let old = keys::MOVED.iter().find(|(old, _)| keys::variable(old) == name);
        let wanted = old.map_or_else(|| name.to_owned(), |(_, new)| keys::variable(new));
        if old.is_some() {
            self.warnings.push(format!("environment {name}: {}", moved(name, &wanted)));
        }
        match KEYS.iter().find(|key| key.variable().is_some_and(|variable| variable == wanted)) {
            Some(key) => {
                let origin = Origin::Environment(name.to_owned());
                let done = put(&mut self.merged, key, &key.path, value, origin, &mut self.origins);
                self.problems.extend(done.err());
            }
            None if OTHER_VARIABLES.contains(&name) => {}
            None => {
                let bare = |name: &str| name.trim_start_matches(PREFIX).to_owned();
                let known: Vec<String> =
                    KEYS.iter().filter_map(Key::variable).map(|name| bare(&name)).collect();
                if let Some(meant) = keys::similar(&bare(name), known.iter().map(String::as_str)) {
                    self.warnings.push(format!("unknown variable `{name}`; did you mean `{PREFIX}{meant}`?"));
                }
            }
        }
    }

    /// An option of the command line.
    fn option(&mut self, given: &Override) {
        let old = keys::MOVED.iter().find(|(old, _)| *old == given.path);
        let path = old.map_or(given.path.as_str(), |(_, new)| new);
        if old.is_some() {
            self.warnings.push(format!("{}: {}", given.flag, moved(&given.path, path)));
        }
        let Some(key) = keys::find(path) else {
            let meant = keys::similar(&given.path, KEYS.iter().map(|key| key.path.as_str()));
            let why = format!("{}: unknown key `{}`{}", given.flag, given.path, did_you_mean(meant));
            self.problems.push(why);
            return;
        };
        let origin = Origin::Flag(given.flag.clone());
        let done = put(&mut self.merged, key, path, &given.value, origin, &mut self.origins);
        self.problems.extend(done.err());
    }
}

/// An old name works in this version only.
fn moved(old: &str, new: &str) -> String {
    format!("`{old}` is now called `{new}`; the next version refuses the old name")
}

fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(
        || "; `portolan config` shows every key".to_owned(),
        |meant| format!("; did you mean `{meant}`?"),
    )
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}
