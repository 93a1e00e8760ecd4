//! The only place that writes to stdout and stderr.
//!
//! stdout is data, stderr is for people. A closed pipe (`portolan ls | head`) ends the program quietly.
//! Colour is for terminals only, and NO_COLOR switches it off.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
};

use serde::Serialize;

use crate::{
    failure::{Failure, Outcome},
    terminal::clean,
};

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Plain,
    /// For programs.
    Json,
}

/// Writes a line of data.
pub(crate) fn line(text: impl AsRef<str>) -> Outcome {
    raw(&[text.as_ref().as_bytes(), b"\n"].concat())
}

/// Writes a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    json_text(&serde_json::to_string(value)?)
}

/// Writes a line of ready-made JSON. For a terminal, characters that could move the cursor or reverse text are escaped:
/// the JSON means the same, but the terminal cannot act on it.
pub(crate) fn json_text(text: &str) -> Outcome {
    if is_terminal() { line(tamed(text)) } else { line(text) }
}

/// JSON itself escapes the control characters below space, but not these.
fn tamed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\u{7f}' || clean::is_hidden(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing into a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Writes bytes of data and flushes them.
pub(crate) fn raw(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader closed the pipe because it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::new(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes data that perhaps nobody reads: a daemon continues when its terminal is gone.
pub(crate) fn offer(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line for people. An error is ignored: if stderr is closed, nobody can read one.
pub(crate) fn note(text: impl AsRef<str>) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(&[text.as_ref().as_bytes(), b"\n"].concat()).and_then(|()| err.flush());
}

/// Is stdout a terminal?
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// May stdout be coloured?
pub(crate) fn colours() -> bool {
    is_terminal() && no_colour_is_unset()
}

/// May stderr be coloured?
pub(crate) fn colours_on_stderr() -> bool {
    io::stderr().is_terminal() && no_colour_is_unset()
}

fn no_colour_is_unset() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Arranges rows in columns, two spaces apart. The last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    use unicode_width::UnicodeWidthStr as _;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if column + 1 < row.len() {
                out.extend(std::iter::repeat_n(' ', widths[column] - cell.width() + 2));
            }
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_means_the_same_and_cannot_control_the_terminal() {
        let value = serde_json::json!({"text": "a\u{9b}2Jb\u{202e}c\u{7f}\u{e0001} é 漢 🙂\n\u{1b}"});
        let text = tamed(&value.to_string());
        assert_eq!(text, r#"{"text":"a\u009b2Jb\u202ec\u007f\udb40\udc01 é 漢 🙂\n\u001b"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["ID", "NAME"], ["01a", "x"], ["1", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "ID   NAME\n01a  x\n1\n");
    }
}
