//! Values that are valid alone but not together, or not for this program.

use std::collections::BTreeMap;

use super::{Origin, Settings, keys};

/// All contradictions, each with the origin of its value.
pub(super) fn contradictions(settings: &Settings, origins: &BTreeMap<String, Origin>) -> Vec<String> {
    let mut found = certificate(settings, origins);
    found.extend(unknown_agents(settings, origins));
    found.extend(limits_of_nothing(settings, origins));
    found
}

/// The origin of the value of a key.
fn origin<'a>(origins: &'a BTreeMap<String, Origin>, path: &str) -> &'a Origin {
    origins.get(path).unwrap_or(&Origin::Default)
}

fn certificate(settings: &Settings, origins: &BTreeMap<String, Origin>) -> Vec<String> {
    let listen = &settings.listen;
    let found = match (&listen.tls_cert, &listen.tls_key) {
        (Some(_), None) => ("listen.tls_cert", "`listen.tls_cert` needs `listen.tls_key`"),
        (None, Some(_)) => ("listen.tls_key", "`listen.tls_key` needs `listen.tls_cert`"),
        (Some(_), Some(_)) if listen.self_signed => (
            "listen.self_signed",
            "`listen.self_signed` and `listen.tls_cert` exclude each other; set only one",
        ),
        _ => return Vec::new(),
    };
    let (path, why) = found;
    vec![format!("{}: {why}", origin(origins, path))]
}

/// Agents that the catalogue does not know and that have no command. An agent with a command speaks ACP, whatever its
/// name is.
fn unknown_agents(settings: &Settings, origins: &BTreeMap<String, Origin>) -> Vec<String> {
    let is_known = |name: &str| portolan_agents::KINDS.contains(&name);
    let unknown =
        settings.agents.iter().filter(|(name, wanted)| !is_known(name) && wanted.command.is_empty());
    let told = unknown.map(|(name, _)| {
        let inside = format!("agents.{name}.");
        let first = origins.iter().filter(|(path, _)| path.starts_with(&inside)).map(|(_, origin)| origin);
        let place = first.min_by_key(|origin| line(origin)).unwrap_or(&Origin::Default);
        let meant = keys::similar(name, portolan_agents::KINDS.iter().copied());
        let meant = meant.map_or_else(
            || format!("the agents are {}.", portolan_agents::KINDS.join(", ")),
            |meant| format!("did you mean `{meant}`?"),
        );
        format!("{place}: there is no agent `{name}`; {meant} An agent that speaks ACP needs its `command`")
    });
    told.collect()
}

fn limits_of_nothing(settings: &Settings, origins: &BTreeMap<String, Origin>) -> Vec<String> {
    let (limits, policy) = (&settings.limits, &settings.policy);
    let values = [
        ("limits.agent_ready_seconds", Some(limits.agent_ready_seconds)),
        ("limits.control_request_seconds", Some(limits.control_request_seconds)),
        ("limits.line_bytes", Some(limits.line_bytes)),
        ("policy.deadline_seconds", policy.deadline_seconds),
    ];
    let nothing = values.into_iter().filter(|(_, value)| *value == Some(0));
    let told = nothing.map(|(path, _)| {
        format!("{}: `{path}` must be at least 1; nothing works with 0", origin(origins, path))
    });
    told.collect()
}

/// The line in portolan.toml; a value with another origin has none.
fn line(origin: &Origin) -> usize {
    match origin {
        Origin::File(line) => *line,
        Origin::Default | Origin::Environment(_) | Origin::Flag(_) => usize::MAX,
    }
}
