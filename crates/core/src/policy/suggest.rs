//! Suggestions: the rule that would answer a request, for a person to look at and change before it is saved.

use super::{
    address::Address,
    commands,
    reading::Reading,
    rule::is_plain_name,
    tool::{Call, Kind},
};
use crate::request::Ask;

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &str = "git npm pnpm yarn cargo docker podman kubectl gh go pip pip3 make just";

/// `TOOL` or `TOOL(PATTERN)` for this request; `None` if no rule can answer it.
pub fn from_ask(ask: &Ask) -> Option<String> {
    let call = Call::of(ask)?;
    let tool = call.tool.to_owned();
    if !is_plain_name(&tool) {
        return None;
    }
    let pattern = match call.kind() {
        Kind::Run => command_pattern(call),
        Kind::Edit | Kind::Read => {
            call.files().filter(|files| files.len() == 1).and_then(|mut files| files.pop())
        }
        Kind::Network => call.addresses().first().and_then(|address| {
            let mut read = Address::read(address).filter(|read| !read.has_user)?;
            Some(read.hosts.swap_remove(0))
        }),
        Kind::Unknown => None,
    };
    Some(match pattern {
        Some(pattern) => format!("{tool}({pattern})"),
        None => tool,
    })
}

fn command_pattern(call: Call<'_>) -> Option<String> {
    let reading = Reading::of(call);
    let script = reading.script()?.as_ref().ok()?;
    let mut runs = script.parts.iter().filter_map(|part| match part {
        portolan_shell::Part::Run(command) => Some(command),
        portolan_shell::Part::Read(_) | portolan_shell::Part::Write(_) => None,
    });
    let (Some(command), None) = (runs.next(), runs.next()) else { return None };
    if !command.hidden.is_empty() || !command.wrappers.is_empty() {
        return None;
    }
    let words: Option<Vec<String>> =
        command.words.iter().map(|word| word.literal().map(|text| quoted(&text))).collect();
    let program = commands::program(command)?;
    let has_sub = WITH_SUBCOMMANDS.split(' ').any(|known| known == program);
    match words {
        Some(words) if words.len() <= 2 => Some(words.join(" ")),
        Some(words) if has_sub && !words[1].starts_with('-') => Some(format!("{} {} *", words[0], words[1])),
        _ => Some(format!("{} *", quoted(&command.words.first()?.literal()?))),
    }
}

/// One word of a pattern that means exactly `text`.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
