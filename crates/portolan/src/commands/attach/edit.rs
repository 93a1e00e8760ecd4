//! Edits an answer in the user's editor.

use crossterm::event::EventStream;
use portolan_core::request::{Answer, Ask, Request, Scope};

use super::{
    joined::Joined,
    screen::{self, Raw, Screen},
};
use crate::terminal::{clean, style::Style};

impl Joined {
    /// Lets the user edit the answer in the user's editor.
    pub(super) async fn edit(&mut self, request: Request, keys: &mut EventStream, screen: &mut Screen) {
        let edits = self.state.as_ref().is_some_and(|state| state.capabilities.edited_input);
        let text = match &request.ask {
            Ask::Permission { .. } if !edits => {
                let why = "! this agent accepts no edited input; allow the request, or deny it with a reason";
                return self.remark(Style::Warning, why.into());
            }
            Ask::Permission { input, .. } => serde_json::to_string_pretty(input).unwrap_or_default(),
            Ask::Elicitation { .. } | Ask::Hook { .. } | Ask::Other { .. } => "{}".to_owned(),
            Ask::Question { .. } | Ask::Plan { .. } => return,
        };
        let _ = screen.clear();
        // Two readers of one keyboard would each get half of the keys.
        *keys = EventStream::new();
        screen::restore();
        let edited = edit_text(&text);
        // The guard in `interactive` leaves raw mode at the end; this guard must not.
        if let Err(error) = Raw::enter().map(std::mem::forget) {
            self.remark(Style::Bad, format!("! the terminal cannot be used: {error}"));
        }
        let edited = match edited.and_then(|edited| {
            serde_json::from_str(&edited).map_err(|error| format!("this is not valid JSON: {error}"))
        }) {
            Ok(edited) => edited,
            Err(why) => {
                self.remark(Style::Warning, format!("! nothing was answered: {}", clean::line(&why)));
                return;
            }
        };
        let answer = match &request.ask {
            Ask::Permission { .. } => {
                Answer::Allow { input: Some(edited), scope: Scope::Once, mode: None, option: None }
            }
            Ask::Elicitation { .. } => Answer::Content { content: edited },
            _ => Answer::Output { output: edited },
        };
        self.answer(request, answer).await;
    }
}

/// Opens the text in the user's editor and returns the result.
fn edit_text(text: &str) -> Result<String, String> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()))
        .unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let file = tempfile::Builder::new().suffix(".json").tempfile().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), text).map_err(|error| error.to_string())?;
    let ended = std::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .map_err(|error| format!("the editor `{program}` cannot be started: {error}; set EDITOR"))?;
    if !ended.success() {
        return Err(format!("the editor `{program}` failed; set EDITOR to another editor"));
    }
    std::fs::read_to_string(file.path()).map_err(|error| error.to_string())
}
