//! What a run is to say to the agent, out of the thread that its client sends. Pure.

use portolan_core::{CommandId, event::Content};
use sha2::{Digest as _, Sha256};

use super::{
    context::user_words,
    wire::{RunInput, SentContent, SentMessage},
};

/// The user's message that a run brings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// The command's id: the message's own, so that the history shows it under the name that the page knows.
    pub id: CommandId,
    /// What it says.
    pub words: Vec<Content>,
}

/// The message that a run may be about: the last of the user's, where no tool has answered since. Whether it is new is for
/// the log to say.
pub(super) fn said(input: &RunInput) -> Result<Option<Said>, String> {
    let is_turn = |message: &&SentMessage| matches!(message.role.as_str(), "user" | "tool");
    let Some(last) = input.messages.iter().rev().find(is_turn).filter(|last| last.role == "user") else {
        return Ok(None);
    };
    let words = user_words(last)?;
    Ok(Some(Said { id: command_id(&last.id), words }))
}

/// The results that a page brings, in their order.
pub(super) fn results(input: &RunInput) -> Vec<(String, String)> {
    let result = |message: &SentMessage| {
        let call = message.tool_call_id.clone().filter(|_| message.role == "tool")?;
        let text = match &message.content {
            Some(SentContent::Text(text)) => text.clone(),
            Some(SentContent::Parts(parts)) => serde_json::Value::from(parts.clone()).to_string(),
            Some(SentContent::Other(other)) => other.to_string(),
            None => message.error.as_ref().map(|error| format!("Error: {error}")).unwrap_or_default(),
        };
        Some((call, text))
    };
    input.messages.iter().filter_map(result).collect()
}

/// The id under which a message is done once. Clients use UUIDs, which fit; anything else is named by its hash.
pub(super) fn command_id(message: &str) -> CommandId {
    if message.is_empty() {
        return CommandId::random();
    }
    message.parse().unwrap_or_else(|_| hashed("m:", message))
}

/// The id of a message that is said once more, in another run.
pub(super) fn again(id: &CommandId, run: &str) -> CommandId {
    hashed("again:", &format!("{id}\n{run}"))
}

fn hashed(prefix: &str, text: &str) -> CommandId {
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().take(20).fold(prefix.to_owned(), |mut hex, byte| {
        use std::fmt::Write as _;
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    hex.parse().unwrap_or_else(|_| CommandId::random())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(messages: serde_json::Value) -> RunInput {
        serde_json::from_value(json!({ "messages": messages })).unwrap()
    }

    // covers: 004-028
    #[test]
    fn the_prompt_of_a_run_is_its_last_user_message_under_its_own_id() {
        let messages = json!([
            {"id": "u1", "role": "user", "content": "first"},
            {"id": "a1", "role": "assistant", "content": "yes?"},
            {"id": "u2", "role": "user", "content": "second"},
            {"id": "d1", "role": "developer", "content": "be brief"},
        ]);
        let said = said(&input(messages)).unwrap().unwrap();
        assert_eq!(said, Said { id: "u2".parse().unwrap(), words: vec![Content::text("second")] });
    }

    #[test]
    fn a_run_that_brings_a_result_says_nothing_new() {
        let messages = json!([
            {"id": "u1", "role": "user", "content": "go"},
            {"id": "c1", "role": "assistant", "toolCalls": []},
            {"id": "t1", "role": "tool", "toolCallId": "call", "content": "done"},
            {"id": "a1", "role": "assistant", "content": "more text that followed the call"},
        ]);
        let input = input(messages);
        assert_eq!(said(&input), Ok(None));
        assert_eq!(results(&input), [("call".to_owned(), "done".to_owned())]);
        assert_eq!(said(&RunInput::default()), Ok(None));
    }

    #[test]
    fn an_id_that_is_none_of_ours_still_names_its_message() {
        assert_eq!(command_id("3f2c-77").as_str(), "3f2c-77");
        let odd = command_id("ключ with spaces");
        assert_eq!(odd, command_id("ключ with spaces"));
        assert_ne!(odd, command_id("ключ"));
        assert_ne!(command_id(""), command_id(""), "no id names nothing");
        let id = command_id("u1");
        assert_ne!(again(&id, "r1"), again(&id, "r2"));
    }
}
