//! The one table of configuration keys: what `config` shows, what unknown keys are compared with, what
//! docs/configuration.md is made of. A test holds it and [`super::Settings`] together.

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Text, several; in the environment separated by commas.
    List,
    /// Text by name.
    Table,
    /// What models cost, by name.
    Prices,
}

impl Kind {
    /// For people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Switch => "true or false",
            Self::List => "list of texts",
            Self::Table => "table of texts",
            Self::Prices => "table of prices",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its full name; `*` stands for any name.
    pub(crate) path: &'static str,
    /// What its value looks like.
    pub(crate) kind: Kind,
    /// What holds when nothing is said, as it would be written in the file; empty is nothing.
    pub(crate) default: &'static str,
    /// What it is for.
    pub(crate) doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// Keys of an earlier version, and what they are called now.
pub(crate) const MOVED: &[(&str, &str)] = &[("insights.allow_bypass", "sessions.allow_bypass")];

/// Every key there is, in the order of the reference.
pub(crate) const KEYS: &[Key] = &[
    key(
        "listen.address",
        Kind::Text,
        "\"127.0.0.1:7420\"",
        "Where the daemon listens. Port 0 picks a free one; daemon.json tells which. An address that others can \
         reach needs TLS.",
    ),
    key("listen.tls_cert", Kind::Text, "", "Certificate chain, a PEM file. Needs `tls_key`."),
    key("listen.tls_key", Kind::Text, "", "The private key of `tls_cert`, a PEM file."),
    key(
        "listen.self_signed",
        Kind::Switch,
        "false",
        "Make a self-signed certificate in the home folder and use it.",
    ),
    key(
        "listen.hosts",
        Kind::List,
        "[]",
        "Names under which browsers reach the daemon, beside the address itself. Compared exactly. `localhost` only \
         where no other user of the machine can listen on its other address.",
    ),
    key(
        "listen.origins",
        Kind::List,
        "[]",
        "Other pages that may use the daemon, such as `https://board.example`. Compared exactly.",
    ),
    key(
        "listen.behind_proxy",
        Kind::Switch,
        "false",
        "A proxy that does TLS for the world stands before the daemon and connects from one of `proxies`. From \
         there alone are its `X-Forwarded-` headers believed.",
    ),
    key(
        "listen.proxies",
        Kind::List,
        "[]",
        "Addresses from which proxies connect, such as `127.0.0.1`; those on other machines by TLS. Every program that \
         connects from there is believed: where others use the machine, give the proxy an address of its own, such as \
         `127.0.0.2`.",
    ),
    key(
        "store.durability",
        Kind::Text,
        "\"normal\"",
        "`normal`: what was committed survives the death of the daemon at any moment. `full`: a power cut too, \
         at about fifteen times the cost of a commit.",
    ),
    key(
        "retention.age_days",
        Kind::Number,
        "",
        "Delete sessions that ended longer ago than this. Never when absent.",
    ),
    key(
        "retention.max_size_mb",
        Kind::Number,
        "",
        "Delete the oldest ended sessions while the database is larger than this. Never when absent.",
    ),
    key("limits.agent_ready_seconds", Kind::Number, "30", "An agent that is not ready by then is ended."),
    key(
        "limits.control_request_seconds",
        Kind::Number,
        "30",
        "How long an agent may take to answer a control request, such as a change of model.",
    ),
    key(
        "limits.term_to_kill_seconds",
        Kind::Number,
        "5",
        "How long an agent has between being asked to end and being killed.",
    ),
    key(
        "limits.liveness_seconds",
        Kind::Number,
        "30",
        "How often the process of an agent is looked for, should its end ever have been missed. At least 1.",
    ),
    key(
        "limits.line_bytes",
        Kind::Number,
        "16777216",
        "The longest line an agent may print. A longer one is cut, and the session says so.",
    ),
    key(
        "limits.shutdown_grace_seconds",
        Kind::Number,
        "10",
        "How long running turns may go on after the daemon was asked to stop.",
    ),
    key(
        "limits.agent_idle_minutes",
        Kind::Number,
        "30",
        "An agent that has had nothing to do for so long is ended; its session stays, and the next prompt starts the agent again \
         where it left off. Whoever only reads does not keep it awake. Agents that may lose their conversation by that are kept \
         (capability `reliable_resume`). 0 keeps all of them.",
    ),
    key(
        "limits.agents_at_once",
        Kind::Number,
        "32",
        "How many agents run at once. To start one more, the one that has had nothing to do for the longest time is ended; \
         where each has something to do, the new one is refused. An agent that waits takes some 300 MB. 0 is any number.",
    ),
    key(
        "sessions.roots",
        Kind::List,
        "[]",
        "Folders that sessions may work in, with all below them; links are followed first. Empty allows any folder.",
    ),
    key(
        "sessions.allow_bypass",
        Kind::Switch,
        "false",
        "Let owners use modes in which an agent asks nobody before it acts, such as `bypassPermissions`, `full-access` or \
         `yolo`. Nobody else may, by whichever frontend.",
    ),
    key(
        "requests.deadline_seconds",
        Kind::Number,
        "",
        "A request that nobody answers for so long is denied. Never when absent.",
    ),
    key(
        "log.level",
        Kind::Text,
        "\"info\"",
        "How much the daemon says: `error`, `warn`, `info`, `debug` or `trace`.",
    ),
    key("log.format", Kind::Text, "\"text\"", "`text` for people, `json` for programs."),
    key(
        "insights.listen",
        Kind::Text,
        "",
        "A listener for the insights dashboard alone, such as `127.0.0.1:8765`; none when absent. The dashboard is at \
         `/ws/insights` of the main listener in any case. An address that others can reach needs TLS.",
    ),
    key(
        "insights.allow_anonymous_loopback",
        Kind::Switch,
        "false",
        "Let clients of this machine into `insights.listen` that show no token, as operators. Every program on this \
         machine can then prompt and approve, agents included.",
    ),
    key(
        "insights.agent",
        Kind::Text,
        "\"claude\"",
        "The agent of sessions that a dashboard makes without naming one.",
    ),
    key(
        "handheld.listen",
        Kind::Text,
        "",
        "Where handheld devices connect, such as `0.0.0.0:3333`; nowhere when absent. Plain HTTP without a token: a \
         device is let in by its address, see `portolan devices`.",
    ),
    key(
        "handheld.allow",
        Kind::List,
        "[]",
        "Addresses and networks of devices that need no approval, such as `192.168.1.7` or `192.168.1.0/24`. A \
         program on this machine is not let in by a network, only by an address of its own.",
    ),
    key("handheld.agent", Kind::Text, "\"claude\"", "The agent that a device's `spawn` starts."),
    key(
        "handheld.folder",
        Kind::Text,
        "",
        "The folder it works in, within `sessions.roots`. The one that the daemon was started in when absent.",
    ),
    key("handheld.fill", Kind::Switch, "true", "Put the newest active sessions into free slots."),
    key("handheld.autospawn", Kind::Switch, "false", "Start an agent in slot 0 together with the daemon."),
    key(
        "agui.listen",
        Kind::Text,
        "",
        "A listener for CopilotKit and other AG-UI clients alone, such as `127.0.0.1:3000`; none when absent. They are at \
         `/agui` of the main listener in any case. An address that others can reach needs TLS.",
    ),
    key(
        "agui.origins",
        Kind::List,
        "[]",
        "Apps that may use it from the browser, such as `http://localhost:5173`. Compared exactly. They reach nothing else \
         of the daemon.",
    ),
    key("agui.agent", Kind::Text, "\"claude\"", "The agent that `default` is while no session is active."),
    key(
        "agui.folder",
        Kind::Text,
        "",
        "The folder that sessions of new threads work in, within `sessions.roots`. The one that the daemon was started in \
         when absent.",
    ),
    key(
        "agui.approvals",
        Kind::Text,
        "\"event\"",
        "How apps are asked that do not say how they want to be: `event` by the custom event `tool_approval_request`, \
         `interrupt` by the protocol's own interrupt.",
    ),
    key(
        "agui.unknown_threads",
        Kind::Text,
        "\"new\"",
        "What a thread that nobody knows begins: `new` a session of its own, `join_active` nothing where a session is \
         active: it joins that one.",
    ),
    key(
        "agui.on_close",
        Kind::Text,
        "\"auto\"",
        "What the end of a run's connection means: `continue` nothing, `stop` a stop, `auto` a stop only where no page has \
         connected to the thread, which is how plain clients stop.",
    ),
    key("agents.*.enabled", Kind::Switch, "true", "Whether this agent is offered."),
    key(
        "agents.*.command",
        Kind::List,
        "[]",
        "How it is started: the program and its first arguments. Never a shell line. Its usual name when empty. An agent \
         that Portolan does not know needs nothing else: it then speaks ACP.",
    ),
    key(
        "agents.*.transport",
        Kind::Text,
        "",
        "For Claude Code: `stdio`, or `websocket` for versions up to 2.1.120. By its version when absent.",
    ),
    key(
        "agents.*.login",
        Kind::Text,
        "",
        "For agents over ACP: the way to log in that is taken before a session begins, by the agent's own name for it, such \
         as `gemini-api-key`. None when absent: the agent then uses what it is logged in with.",
    ),
    key(
        "agents.*.files",
        Kind::Switch,
        "true",
        "For agents over ACP: read and write files for an agent that asks, inside the folders of its session.",
    ),
    key(
        "agents.*.terminals",
        Kind::Switch,
        "true",
        "For agents over ACP: run commands for an agent that asks. They begin in a folder of its session; nothing confines \
         them.",
    ),
    key(
        "agents.*.env",
        Kind::Table,
        "{}",
        "Environment variables for every session of this agent, and for looking at it.",
    ),
    key(
        "agents.*.prices",
        Kind::Prices,
        "{}",
        "What models cost where the agent does not tell; for Claude Code before the list prices. By the model's name or its \
         beginning: `{ input = 3, output = 15, cache_write = 3.75, cache_read = 0.3 }`, in US dollars for a million \
         tokens.",
    ),
];

/// The environment variable of a key.
pub(crate) fn variable(path: &str) -> String {
    format!("PORTOLAN_{}", path.replace('.', "_").to_uppercase())
}

impl Key {
    /// The environment variable that sets it. Keys of agents have none: their names are not ours.
    pub(crate) fn variable(&self) -> Option<String> {
        (!self.path.contains('*')).then(|| variable(self.path))
    }

    /// Is this the key with that full name?
    pub(crate) fn matches(&self, path: &[&str]) -> bool {
        let own: Vec<&str> = self.path.split('.').collect();
        own.len() == path.len() && own.iter().zip(path).all(|(own, given)| *own == "*" || own == given)
    }

    /// Does this key lie somewhere under that path?
    pub(crate) fn lies_under(&self, path: &[&str]) -> bool {
        let own: Vec<&str> = self.path.split('.').collect();
        own.len() > path.len() && own.iter().zip(path).all(|(own, given)| *own == "*" || own == given)
    }
}

/// The key with that full name.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    let path: Vec<&str> = path.split('.').collect();
    KEYS.iter().find(|key| key.matches(&path))
}

/// The names that may stand at the last place of `path`.
pub(crate) fn siblings(path: &[&str]) -> Vec<&'static str> {
    let Some((_, parents)) = path.split_last() else { return Vec::new() };
    let mut names: Vec<&'static str> = KEYS
        .iter()
        .filter(|key| key.lies_under(parents))
        .filter_map(|key| key.path.split('.').nth(parents.len()))
        .filter(|name| *name != "*")
        .collect();
    names.dedup();
    names
}

/// The candidate that looks most like `given`, where one does.
pub(crate) fn similar<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this, two words only share letters.
    const ALIKE: f64 = 0.6;
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(given, candidate), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{Agent, Settings};

    fn leaves(prefix: &str, value: &serde_json::Value, out: &mut BTreeSet<String>) {
        match value.as_object() {
            Some(map)
                if prefix.split('.').count() < 3
                    && prefix.rsplit('.').next() != Some("env")
                    && !map.is_empty() =>
            {
                for (name, value) in map {
                    let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    leaves(&path, value, out);
                }
            }
            _ => {
                out.insert(prefix.to_owned());
            }
        }
    }

    #[test]
    fn the_table_names_every_setting_and_no_other() {
        let mut settings = Settings::default();
        settings.agents.insert("*".into(), Agent::default());
        let mut found = BTreeSet::new();
        leaves("", &serde_json::to_value(&settings).unwrap(), &mut found);
        assert_eq!(found, KEYS.iter().map(|key| key.path.to_owned()).collect());
    }

    #[test]
    fn the_defaults_in_the_table_are_the_defaults_in_the_code() {
        let mut text = String::from("[agents.x]\n");
        let mut others = String::new();
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            match key.path.strip_prefix("agents.*.") {
                Some(name) => text = format!("{text}{name} = {}\n", key.default),
                None => others = format!("{others}{} = {}\n", key.path, key.default),
            }
        }
        let read: Settings = toml::from_str(&(others + &text)).unwrap();
        let mut settings = Settings::default();
        settings.agents.insert("x".into(), Agent::default());
        assert_eq!(read, settings);
    }
}
