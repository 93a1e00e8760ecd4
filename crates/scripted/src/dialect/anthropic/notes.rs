//! Texts that Claude Code writes into user messages by itself. None of them is a prompt: a script continues with the
//! current exchange.

/// How such texts begin. Seen on the wire with 2.1.120 and 2.1.325.
const NOTES: [&str; 13] = [
    "<system-reminder>",
    "<task-notification>",
    "<local-command-caveat>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<command-name>",
    "<command-message>",
    "[Image: source: ",
    "[Request interrupted by user",
    "[Your previous response had no visible output",
    "Output token limit hit.",
    "This session is being continued from a previous conversation",
    "Your response above was stopped by a safety classifier",
];

pub(super) fn is_note(text: &str) -> bool {
    let text = text.trim_start();
    NOTES.iter().any(|note| text.starts_with(note))
}

/// A tool's result, and the note that older versions put at its end.
pub(super) fn split_note(result: &str) -> (&str, Option<&str>) {
    match result.find("\n\n<system-reminder>") {
        Some(at) => (&result[..at], Some(result[at..].trim())),
        None => (result, None),
    }
}
