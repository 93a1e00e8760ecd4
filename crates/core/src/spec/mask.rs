//! What the log may show of an MCP server's configuration: everything that may be a secret is masked.

use serde_json::Value;

/// Replaces a possible secret in the log.
pub const MASK: &str = "•••";

/// The harmless settings of an MCP server, by their names in all agents' forms. Arguments are not harmless: they often
/// hold a key. Nor is the path of an address: some services put the key there.
enum Setting {
    /// The kind of server.
    Sort,
    /// The server's program.
    Program,
    /// The server's address.
    Address,
    /// A switch or a number.
    Plain,
    /// Names of environment variables that hold the secret.
    Variables,
    /// Names of servers and tools.
    Names,
    /// Anything else.
    Hidden,
}

impl Setting {
    fn of(name: &str) -> Self {
        match name {
            "type" | "transport" => Self::Sort,
            "command" => Self::Program,
            "url" | "httpUrl" | "serverUrl" => Self::Address,
            "timeout"
            | "startup_timeout_sec"
            | "startup_timeout_ms"
            | "tool_timeout_sec"
            | "enabled"
            | "disabled"
            | "required"
            | "trust" => Self::Plain,
            "bearer_token_env_var" | "env_http_headers" | "env_vars" => Self::Variables,
            "name" | "enabled_tools" | "disabled_tools" | "includeTools" | "excludeTools" => Self::Names,
            _ => Self::Hidden,
        }
    }
}

/// The kinds of servers that agents know.
const SORTS: &[&str] = &[
    "stdio",
    "local",
    "http",
    "remote",
    "sse",
    "streamable-http",
    "streamable_http",
    "ws",
    "websocket",
    "sdk",
];

/// Masks every value of an MCP server's configuration that is not known to be harmless. Names of settings, variables
/// and headers stay, and so do the program and the host of an address.
pub fn mask_server(config: &mut Value) {
    let Value::Object(settings) = config else { return mask_all(config) };
    for (name, value) in settings {
        match (Setting::of(name), &mut *value) {
            (Setting::Sort, Value::String(sort)) if SORTS.contains(&sort.as_str()) => {}
            // A group of settings: the same rules apply inside.
            (Setting::Sort, Value::Object(_)) => mask_server(value),
            (Setting::Program, Value::String(line)) => mask_arguments(line),
            (Setting::Program, Value::Array(words)) => {
                words.iter_mut().skip(1).for_each(mask_all);
                match words.first_mut() {
                    Some(Value::String(program)) => mask_arguments(program),
                    Some(other) => mask_all(other),
                    None => {}
                }
            }
            (Setting::Address, Value::String(address)) => mask_address(address),
            (Setting::Plain, Value::Bool(_) | Value::Number(_)) => {}
            // Elsewhere an object holds variables by name, and its values may be secrets.
            (Setting::Variables, Value::Object(_)) if name != "env_http_headers" => mask_all(value),
            (Setting::Variables, value) => mask_all_but_variables(value),
            (Setting::Names, Value::String(_)) => {}
            (Setting::Names, Value::Array(items)) => {
                items.iter_mut().filter(|item| !item.is_string()).for_each(mask_all);
            }
            (_, value) => mask_all(value),
        }
    }
}

/// Keeps the first word of a command line.
fn mask_arguments(line: &mut String) {
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    // A variable may come before the program.
    if line[..end].contains('=') {
        return MASK.clone_into(line);
    }
    if end < line.len() {
        line.truncate(end);
        line.push(' ');
        line.push_str(MASK);
    }
}

/// Keeps variable names, which are usually in capitals, and masks a value after `=`.
fn mask_all_but_variables(value: &mut Value) {
    let is_name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        !text.is_empty() && text.bytes().all(plain)
    };
    match value {
        Value::String(text) if is_name(text) => {}
        Value::String(text) => {
            let name = text.split_once('=').map(|(name, _)| name).filter(|name| is_name(name));
            *text = name.map_or_else(|| MASK.to_owned(), |name| format!("{name}={MASK}"));
        }
        Value::Array(values) => values.iter_mut().for_each(mask_all_but_variables),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| mask_all_but_variables(value)),
        other => mask_all(other),
    }
}

/// Masks every value, and keeps the structure and the names. Some agents use a list of variables or headers in which
/// the name is a value.
fn mask_all(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let named = fields.contains_key("value");
            fields
                .iter_mut()
                .filter(|(name, _)| !(named && *name == "name"))
                .for_each(|(_, it)| mask_all(it));
        }
        Value::Array(values) => values.iter_mut().for_each(mask_all),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => *value = Value::from(MASK),
    }
}

/// Keeps the scheme and host of an address.
fn mask_address(address: &mut String) {
    let Some((scheme, rest)) = address.split_once("://") else { return MASK.clone_into(address) };
    let (authority, beyond) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(_, host)| (MASK, host));
    let user_end = if user.is_empty() { "" } else { "@" };
    let beyond = match beyond.chars().next() {
        Some(sign) if beyond.len() > 1 => format!("{sign}{MASK}"),
        _ => beyond.to_owned(),
    };
    *address = format!("{scheme}://{user}{user_end}{host}{beyond}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Secrets in a list, in other headers and in an address were once shown to viewers.
    #[test]
    fn every_setting_of_an_mcp_server_that_is_not_known_to_be_harmless_is_masked() {
        for (written, shown) in [
            (
                json!({"type": "http", "url": "https://u:hunter2@h.example:8/p/q?k=hunter2#hunter2"}),
                json!({"type": "http", "url": format!("https://{MASK}@h.example:8/{MASK}")}),
            ),
            (
                json!({"url": "https://a@hunter2@h.example/p", "http_headers": {"X-Key": "hunter2"},
                       "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-Org": "ORG"}, "tool_timeout_sec": 5}),
                json!({"url": format!("https://{MASK}@h.example/{MASK}"), "http_headers": {"X-Key": MASK},
                       "bearer_token_env_var": "TOKEN", "env_http_headers": {"X-Org": "ORG"}, "tool_timeout_sec": 5}),
            ),
            (
                json!({"command": "run", "args": ["--key", "hunter2"], "env": [{"name": "TOKEN", "value": "hunter2"}]}),
                json!({"command": "run", "args": [MASK, MASK], "env": [{"name": "TOKEN", "value": MASK}]}),
            ),
            (
                json!({"type": "local", "command": ["run", "hunter2"], "environment": {"PIN": 1234}}),
                json!({"type": "local", "command": ["run", MASK], "environment": {"PIN": MASK}}),
            ),
            (
                json!({"oauth": {"client": {"secret": "hunter2", "name": "hunter2"}}, "env": ["TOKEN=hunter2"]}),
                json!({"oauth": {"client": {"secret": MASK, "name": MASK}}, "env": [MASK]}),
            ),
            (
                json!({"transport": {"type": "sse", "headers": {"X-Key": "hunter2"}, "url": "https://u:hunter2@h.example/"}}),
                json!({"transport": {"type": "sse", "headers": {"X-Key": MASK}, "url": format!("https://{MASK}@h.example/")}}),
            ),
            (
                json!({"enabled_tools": ["look", {"key": "hunter2"}], "name": ["harbour"]}),
                json!({"enabled_tools": ["look", {"key": MASK}], "name": ["harbour"]}),
            ),
            (json!({"url": "hunter2"}), json!({"url": MASK})),
            (
                json!({"url": "https://h.example#hunter2"}),
                json!({"url": format!("https://h.example#{MASK}")}),
            ),
            (
                json!({"url": "https://h.example/api/hunter2/mcp", "command": "run --key hunter2", "cwd": "/hunter2",
                       "timeout": "hunter2", "type": "hunter2", "env_vars": ["A", "K=hunter2"]}),
                json!({"url": format!("https://h.example/{MASK}"), "command": format!("run {MASK}"), "cwd": MASK,
                       "timeout": MASK, "type": MASK, "env_vars": ["A", format!("K={MASK}")]}),
            ),
            (
                json!({"env_http_headers": {"X-Key": "hunter2"}, "enabled": true, "env_vars": {"A": "HUNTER2"},
                       "bearer_token_env_var": "ghp_hunter2", "command": "KEY=hunter2 run"}),
                json!({"env_http_headers": {"X-Key": MASK}, "enabled": true, "env_vars": {"A": MASK},
                       "bearer_token_env_var": MASK, "command": MASK}),
            ),
            (json!({"command": "run\u{a0}hunter2"}), json!({"command": format!("run {MASK}")})),
            (json!({"command": [{"a": "hunter2"}]}), json!({"command": [{"a": MASK}]})),
            (json!("hunter2"), json!(MASK)),
        ] {
            let mut masked = written;
            mask_server(&mut masked);
            assert_eq!(masked, shown);
        }
    }
}
