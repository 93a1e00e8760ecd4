//! Puts the layers of the configuration together: defaults, portolan.toml, environment, command line.
//!
//! Reads nothing but the file and the variables it is given, so that every error can be tested. Remembers for
//! each value where it came from.

use std::{collections::BTreeMap, fmt, io::ErrorKind, ops::Range, path::Path};

use toml::{Spanned, Table, Value, de::DeTable, de::DeValue};

use super::{
    Settings,
    keys::{self, KEYS, Key, Kind},
};
use crate::failure::{Failure, Outcome};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nothing was said.
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

/// The configuration in force.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Every value.
    pub(crate) settings: Settings,
    /// Where those that were set came from, by full name.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// What looks like a mistake but may belong to another program.
    pub(crate) warnings: Vec<String>,
}

/// How our variables begin.
const PREFIX: &str = "PORTOLAN_";

/// Variables that begin with PORTOLAN_ and are no keys of the configuration.
const OTHER_VARIABLES: &[&str] =
    &["PORTOLAN_HOME", "PORTOLAN_URL", "PORTOLAN_TOKEN", "PORTOLAN_TOKEN_FILE", "PORTOLAN_CA_FILE"];

/// Reads portolan.toml, the environment and the command line's overrides.
pub(crate) fn load(file: &Path, overrides: &[Override]) -> Outcome<Loaded> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        // Where there is no home folder yet, making it tells what is wrong with its place.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
        Err(error) => return Err(Failure::usage(format!("{}: {error}", file.display()))),
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX));
    assemble(&text, variables, overrides).map_err(|problems| Failure::usage(problems.join("\n")))
}

/// The layers put together, or everything that is wrong with them.
pub(crate) fn assemble(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
    overrides: &[Override],
) -> Result<Loaded, Vec<String>> {
    let mut origins = BTreeMap::new();
    let mut problems = Vec::new();
    let mut merged = match read_file(text, &mut origins) {
        Ok(table) => table,
        Err(found) => {
            problems.extend(found);
            Table::new()
        }
    };
    let mut warnings = Vec::new();
    let variables: BTreeMap<String, String> = variables.into_iter().collect();
    for (name, value) in &variables {
        if let Some((_, to)) = keys::MOVED.iter().find(|(old, _)| keys::variable(old) == *name) {
            problems.push(format!("environment {name}: {}", moved(to)));
            continue;
        }
        match KEYS.iter().find(|key| key.variable().as_ref() == Some(name)) {
            Some(key) => {
                let origin = Origin::Environment(name.clone());
                problems.extend(put(&mut merged, key, &key.path, value, origin, &mut origins).err());
            }
            None if OTHER_VARIABLES.contains(&name.as_str()) => {}
            None => {
                let bare = |name: &str| name.trim_start_matches(PREFIX).to_owned();
                let known: Vec<String> =
                    KEYS.iter().filter_map(Key::variable).map(|name| bare(&name)).collect();
                if let Some(meant) = keys::similar(&bare(name), known.iter().map(String::as_str)) {
                    warnings.push(format!("unknown variable `{name}`; did you mean `{PREFIX}{meant}`?"));
                }
            }
        }
    }
    for given in overrides {
        let Some(key) = keys::find(&given.path) else {
            let meant = keys::similar(&given.path, KEYS.iter().map(|key| key.path.as_str()));
            problems.push(format!("{}: unknown key `{}`{}", given.flag, given.path, did_you_mean(meant)));
            continue;
        };
        let origin = Origin::Flag(given.flag.clone());
        problems.extend(put(&mut merged, key, &given.path, &given.value, origin, &mut origins).err());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let settings: Settings =
        merged.try_into().map_err(|error: toml::de::Error| vec![one_line(error.message())])?;
    problems.extend(contradictions(&settings, &origins));
    if problems.is_empty() { Ok(Loaded { settings, origins, warnings }) } else { Err(problems) }
}

/// Values that cannot hold together.
fn contradictions(settings: &Settings, origins: &BTreeMap<String, Origin>) -> Vec<String> {
    let listen = &settings.listen;
    let origin = |path: &str| origins.get(path).unwrap_or(&Origin::Default).to_string();
    let mut found = Vec::new();
    match (&listen.tls_cert, &listen.tls_key) {
        (Some(_), None) => {
            found.push(format!("{}: `listen.tls_cert` needs `listen.tls_key`", origin("listen.tls_cert")));
        }
        (None, Some(_)) => {
            found.push(format!("{}: `listen.tls_key` needs `listen.tls_cert`", origin("listen.tls_key")));
        }
        (Some(_), Some(_)) if listen.self_signed => found.push(format!(
            "{}: `listen.self_signed` and `listen.tls_cert` exclude each other",
            origin("listen.self_signed")
        )),
        _ => {}
    }
    // One with a command speaks ACP, whatever its name is.
    let is_known = |name: &str| portolan_agents::KINDS.contains(&name);
    let unknown =
        settings.agents.iter().filter(|(name, wanted)| !is_known(name) && wanted.command.is_empty());
    for (name, _) in unknown {
        let inside = format!("agents.{name}.");
        let first = origins.iter().filter(|(path, _)| path.starts_with(&inside)).map(|(_, origin)| origin);
        let place = first.min_by_key(|origin| line(origin)).unwrap_or(&Origin::Default);
        let meant = keys::similar(name, portolan_agents::KINDS.iter().copied());
        let meant = meant.map_or_else(
            || format!("there is {}.", portolan_agents::KINDS.join(", ")),
            |meant| format!("did you mean `{meant}`?"),
        );
        found.push(format!(
            "{place}: there is no agent `{name}`; {meant} One that speaks ACP needs its `command`"
        ));
    }
    let (limits, requests) = (&settings.limits, &settings.requests);
    for (path, value) in [
        ("limits.agent_ready_seconds", Some(limits.agent_ready_seconds)),
        ("limits.control_request_seconds", Some(limits.control_request_seconds)),
        ("limits.line_bytes", Some(limits.line_bytes)),
        ("requests.deadline_seconds", requests.deadline_seconds),
    ] {
        if value == Some(0) {
            found.push(format!("{}: `{path}` must be at least 1; nothing would work with 0", origin(path)));
        }
    }
    found
}

/// The line in portolan.toml; what comes from elsewhere has none.
fn line(origin: &Origin) -> usize {
    match origin {
        Origin::File(line) => *line,
        Origin::Default | Origin::Environment(_) | Origin::Flag(_) => usize::MAX,
    }
}

/// Sets one value from text.
fn put(
    table: &mut Table,
    key: &Key,
    path: &str,
    text: &str,
    origin: Origin,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), String> {
    let wrong = |why: &str| format!("{origin}: `{path}`: {why}");
    let wanted = |what: &str| wrong(&format!("{what} is wanted, not `{text}`"));
    let value = match key.kind {
        Kind::Text => Value::String(text.to_owned()),
        Kind::Number => Value::Integer(text.parse().map_err(|_| wanted("a whole number"))?),
        Kind::Switch => Value::Boolean(text.parse().map_err(|_| wanted("`true` or `false`"))?),
        Kind::List => Value::Array(
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(Value::from).collect(),
        ),
        Kind::Table | Kind::Prices => return Err(wrong("a table can only be set in portolan.toml")),
    };
    // On its own first, so that a wrong value is told with the name it was given by.
    alone(path, value.clone()).map_err(|why| wrong(&why))?;
    insert(table, path, value);
    origins.insert(path.to_owned(), origin);
    Ok(())
}

/// Whether this value by itself makes sense; why not.
fn alone(path: &str, value: Value) -> Result<(), String> {
    let mut table = Table::new();
    insert(&mut table, path, value);
    table.try_into::<Settings>().map(drop).map_err(|error| one_line(error.message()))
}

/// The value of that name.
fn get<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let mut names = path.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn insert(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Reads the file; else every unknown key and every value that makes no sense, with its line.
fn read_file(text: &str, origins: &mut BTreeMap<String, Origin>) -> Result<Table, Vec<String>> {
    let spanned =
        DeTable::parse(text).map_err(|error| vec![at(text, error.span(), &one_line(error.message()))])?;
    let mut walk = Walk { text, problems: Vec::new(), values: Vec::new() };
    walk.table(&mut Vec::new(), spanned.get_ref());
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| vec![at(text, error.span(), &one_line(error.message()))])?;
    for (path, span) in walk.values.clone() {
        if let Some(Err(why)) = get(&table, &path).map(|value| alone(&path, value.clone())) {
            walk.problem(span, &format!("`{path}`: {why}"));
        }
    }
    if !walk.problems.is_empty() {
        walk.problems.sort_by_key(|(line, _)| *line);
        return Err(walk.problems.into_iter().map(|(_, problem)| problem).collect());
    }
    if let Err(error) = toml::from_str::<Settings>(text) {
        let span = error.span();
        let path = walk
            .values
            .iter()
            .find(|(_, value)| {
                span.as_ref().is_some_and(|span| value.start <= span.start && span.end <= value.end)
            })
            .map(|(path, _)| format!("`{path}`: "))
            .unwrap_or_default();
        return Err(vec![at(text, span, &format!("{path}{}", one_line(error.message())))]);
    }
    for (path, span) in walk.values {
        origins.insert(path, Origin::File(line_of(text, span.start)));
    }
    Ok(table)
}

/// A walk over the file that compares its keys with those there are.
struct Walk<'t> {
    text: &'t str,
    /// Each with its line.
    problems: Vec<(usize, String)>,
    /// Full name and place of every value.
    values: Vec<(String, Range<usize>)>,
}

impl Walk<'_> {
    fn problem(&mut self, at_name: Range<usize>, text: &str) {
        let line = line_of(self.text, at_name.start);
        self.problems.push((line, at(self.text, Some(at_name), text)));
    }

    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (name, value) in table {
            path.push(name.get_ref().to_string());
            self.value(path, name.span(), value);
            path.pop();
        }
    }

    fn value(&mut self, path: &mut Vec<String>, at_name: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        if KEYS.iter().any(|key| key.matches(&names)) {
            self.values.push((path.join("."), value.span()));
        } else if KEYS.iter().any(|key| key.lies_under(&names)) {
            if let DeValue::Table(inner) = value.get_ref() {
                self.table(path, inner);
            } else {
                let text = format!("`{}` is a table, not a {}", path.join("."), value.get_ref().type_str());
                self.problem(at_name, &text);
            }
        } else if let Some((_, to)) = keys::MOVED.iter().find(|(old, _)| *old == path.join(".")) {
            let text = moved(to);
            self.problem(at_name, &text);
        } else {
            let last = names.last().copied().unwrap_or_default();
            let meant = keys::similar(last, keys::siblings(&names));
            let text = format!("unknown key `{}`{}", path.join("."), did_you_mean(meant));
            self.problem(at_name, &text);
        }
    }
}

/// A setting that holds for more than it did is not taken over in silence.
fn moved(to: &str) -> String {
    format!("this key is now `{to}`, and holds for every frontend; set that one instead")
}

fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(
        || "; `portolan config` shows what there is".to_owned(),
        |meant| format!("; did you mean `{meant}`?"),
    )
}

fn at(text: &str, span: Option<Range<usize>>, message: &str) -> String {
    match span {
        Some(span) => format!("portolan.toml:{}: {message}", line_of(text, span.start)),
        None => format!("portolan.toml: {message}"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Level;

    fn file(text: &str) -> Result<Loaded, Vec<String>> {
        assemble(text, [], &[])
    }

    fn flag(path: &str, value: &str) -> Override {
        Override { path: path.into(), value: value.into(), flag: "--set".into() }
    }

    #[test]
    fn nothing_said_gives_the_defaults() {
        assert_eq!(file("").unwrap().settings, Settings::default());
    }

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_what_was_meant() {
        assert_eq!(
            file("# comment\n[listen]\nadress = \"127.0.0.1:1\"\n\n[limit]\nx = 1\n").unwrap_err(),
            [
                "portolan.toml:3: unknown key `listen.adress`; did you mean `address`?",
                "portolan.toml:5: unknown key `limit`; did you mean `limits`?"
            ]
        );
        assert_eq!(
            file("[agents.claude]\nzzz = 1\n").unwrap_err(),
            ["portolan.toml:2: unknown key `agents.claude.zzz`; `portolan config` shows what there is"]
        );
    }

    #[test]
    fn the_table_of_a_frontend_is_checked_as_every_other() {
        assert_eq!(
            file("[agui]\norigin = []\n[handheld]\nfill = 3\n[insight]\nagent = \"demo\"\n").unwrap_err(),
            [
                "portolan.toml:2: unknown key `agui.origin`; did you mean `origins`?",
                "portolan.toml:4: `handheld.fill`: invalid type: integer `3`, expected a boolean",
                "portolan.toml:5: unknown key `insight`; did you mean `insights`?"
            ]
        );
        let variables = [("PORTOLAN_HANDHELD_FILL".to_owned(), "false".to_owned())];
        let loaded = assemble("[agui]\nagent = \"demo\"\n", variables, &[]).unwrap();
        let frontends = loaded.settings.frontends;
        assert_eq!((frontends.agui.agent.as_str(), frontends.handheld.fill), ("demo", false));
    }

    #[test]
    fn a_key_that_has_moved_says_where_it_is_now() {
        let why =
            "this key is now `sessions.allow_bypass`, and holds for every frontend; set that one instead";
        let old = "[insights]\nallow_bypass = true\n";
        assert_eq!(file(old).unwrap_err(), [format!("portolan.toml:2: {why}")]);
        let variable = "PORTOLAN_INSIGHTS_ALLOW_BYPASS";
        let told = assemble("", [(variable.to_owned(), "true".to_owned())], &[]).unwrap_err();
        assert_eq!(told, [format!("environment {variable}: {why}")]);
        assert!(file("[sessions]\nallow_bypass = true\n").unwrap().settings.sessions.allow_bypass);
    }

    #[test]
    fn a_value_of_the_wrong_sort_is_told_with_its_line() {
        assert_eq!(
            file("[limits]\n\nline_bytes = \"big\"\n").unwrap_err(),
            ["portolan.toml:3: `limits.line_bytes`: invalid type: string \"big\", expected u32"]
        );
        assert_eq!(
            file("[store]\ndurability = \"some\"\n").unwrap_err(),
            ["portolan.toml:2: `store.durability`: unknown variant `some`, expected `normal` or `full`"]
        );
        assert_eq!(
            file("listen = 3\n").unwrap_err(),
            ["portolan.toml:1: `listen` is a table, not a integer"]
        );
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let text = "[listen]\nself_signed = \"yes\"\nadress = \"x\"\n[agents.demo]\ncommand = \"demo\"\n";
        assert_eq!(
            file(text).unwrap_err(),
            [
                "portolan.toml:2: `listen.self_signed`: invalid type: string \"yes\", expected a boolean",
                "portolan.toml:3: unknown key `listen.adress`; did you mean `address`?",
                "portolan.toml:5: `agents.demo.command`: invalid type: string \"demo\", expected a sequence",
            ]
        );
    }

    #[test]
    fn text_that_is_no_toml_is_told_with_its_line() {
        let problems = file("[log]\nlevel = \n").unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("portolan.toml:2: "), "{problems:?}");
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let text = "[log]\nlevel = \"warn\"\nformat = \"json\"\n[limits]\nline_bytes = 5\n";
        let variables = [("PORTOLAN_LOG_LEVEL", "debug"), ("PORTOLAN_LIMITS_LINE_BYTES", "6")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let loaded = assemble(text, variables, &[flag("limits.line_bytes", "7")]).unwrap();
        assert_eq!(loaded.settings.log.level, Level::Debug);
        assert_eq!(loaded.settings.limits.line_bytes, 7);
        let origins: Vec<String> =
            loaded.origins.iter().map(|(path, origin)| format!("{path}: {origin}")).collect();
        assert_eq!(
            origins,
            [
                "limits.line_bytes: option --set",
                "log.format: portolan.toml:3",
                "log.level: environment PORTOLAN_LOG_LEVEL"
            ]
        );
    }

    #[test]
    fn lists_in_the_environment_are_separated_by_commas() {
        let variables = [("PORTOLAN_LISTEN_HOSTS".to_owned(), "a.example, b.example".to_owned())];
        assert_eq!(assemble("", variables, &[]).unwrap().settings.listen.hosts, ["a.example", "b.example"]);
    }

    #[test]
    fn a_wrong_value_in_the_environment_is_told_with_the_variable() {
        let variables = [("PORTOLAN_LISTEN_ADDRESS".to_owned(), "nowhere".to_owned())];
        let problems = assemble("", variables, &[]).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("environment PORTOLAN_LISTEN_ADDRESS: `listen.address`: "),
            "{problems:?}"
        );
    }

    #[test]
    fn a_variable_that_is_nearly_one_of_ours_is_a_warning() {
        let variables = [
            ("PORTOLAN_LISTEN_ADRESS".to_owned(), "x".to_owned()),
            ("PORTOLAN_HOME".to_owned(), "/tmp".to_owned()),
            ("PORTOLAN_ZZZ".to_owned(), "someone else's".to_owned()),
        ];
        assert_eq!(
            assemble("", variables, &[]).unwrap().warnings,
            ["unknown variable `PORTOLAN_LISTEN_ADRESS`; did you mean `PORTOLAN_LISTEN_ADDRESS`?"]
        );
    }

    #[test]
    fn an_unknown_key_on_the_command_line_is_told() {
        assert_eq!(
            assemble("", [], &[flag("log.levl", "info")]).unwrap_err(),
            ["--set: unknown key `log.levl`; did you mean `log.level`?"]
        );
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        assert_eq!(
            file("[listen]\ntls_cert = \"c.pem\"\n").unwrap_err(),
            ["portolan.toml:2: `listen.tls_cert` needs `listen.tls_key`"]
        );
    }

    #[test]
    fn prices_are_told_by_model_and_nonsense_is_refused_with_its_line() {
        let text =
            "[agents.claude.prices]\n\"claude-sonnet-4\" = { input = 3, output = 15.5, cache_read = 0.3 }\n";
        let loaded = file(text).unwrap();
        let price = crate::config::Price { input: 3.0, output: 15.5, cache_write: 0.0, cache_read: 0.3 };
        assert_eq!(loaded.settings.agents["claude"].prices["claude-sonnet-4"], price);
        let wrong = |text: &str| {
            let problems = file(&format!("[agents.claude.prices.m]\ninput = 3\n{text}\n")).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].clone()
        };
        assert!(wrong("output = -1").contains("`-1` is no price"), "{}", wrong("output = -1"));
        assert!(wrong("output = nan").contains("is no price"));
        assert!(wrong("").contains("missing field `output`"), "{}", wrong(""));
        assert!(wrong("output = 1\ncache = 2").contains("unknown field `cache`"));
        assert!(wrong("output = 1\ncache = 2").starts_with("portolan.toml:"));
    }

    #[test]
    fn an_agent_is_looked_for_at_least_every_now_and_then() {
        assert_eq!(file("").unwrap().settings.limits.liveness_seconds.get(), 30);
        assert_eq!(
            file("[limits]\nliveness_seconds = 5\n").unwrap().settings.limits.liveness_seconds.get(),
            5
        );
        let problems = file("[limits]\nliveness_seconds = 0\n").unwrap_err();
        assert!(problems[0].starts_with("portolan.toml:2: `limits.liveness_seconds`: "), "{problems:?}");
    }

    #[test]
    fn an_agent_that_does_not_exist_is_refused_with_what_was_meant() {
        assert_eq!(
            file("[agents.cluade]\nenabled = false\n").unwrap_err(),
            [
                "portolan.toml:2: there is no agent `cluade`; did you mean `claude`? One that speaks ACP needs its \
              `command`"
            ]
        );
        let all = portolan_agents::KINDS.join(", ");
        assert_eq!(
            file("[agents.zzzzzz]\nenabled = false\n").unwrap_err(),
            [format!(
                "portolan.toml:2: there is no agent `zzzzzz`; there is {all}. One that speaks ACP needs its `command`"
            )]
        );
    }

    // covers: 003-017
    #[test]
    fn an_agent_that_nobody_knows_needs_only_its_command() {
        let loaded = file("[agents.harbour]\ncommand = [\"harbour\", \"acp\"]\nfiles = false\n").unwrap();
        let harbour = &loaded.settings.agents["harbour"];
        assert_eq!(
            (harbour.command.as_slice(), harbour.files),
            (&["harbour".to_owned(), "acp".to_owned()][..], false)
        );
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        for key in ["limits.agent_ready_seconds", "limits.control_request_seconds", "limits.line_bytes"] {
            assert_eq!(
                assemble("", [], &[flag(key, "0")]).unwrap_err(),
                [format!("option --set: `{key}` must be at least 1; nothing would work with 0")]
            );
        }
        assert!(assemble("", [], &[flag("limits.shutdown_grace_seconds", "0")]).is_ok(), "no grace is fine");
        assert_eq!(
            file("[requests]\ndeadline_seconds = 0\n").unwrap_err(),
            ["portolan.toml:2: `requests.deadline_seconds` must be at least 1; nothing would work with 0"]
        );
    }

    #[test]
    fn the_command_of_an_agent_is_a_vector_and_never_a_shell_line() {
        let loaded = file("[agents.claude]\ncommand = [\"/opt/claude\", \"--x\"]\n").unwrap();
        assert_eq!(loaded.settings.agents["claude"].command, ["/opt/claude", "--x"]);
        assert!(file("[agents.claude]\ncommand = \"claude --x\"\n").is_err());
    }
}
