//! export: a session's history as JSON lines, or as Markdown for people.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use portolan_client::frames;
use portolan_core::{Event, Seq, entry::Decoded, event::Content, event::plain_text};
use serde_json::json;

use super::Context;
use crate::{
    arguments::ExportFormat,
    failure::{Failure, Outcome},
    home::rfc3339,
    output::{self, Format},
    terminal::{clean, requests},
};

pub(super) async fn export(
    context: &Context,
    id: &str,
    format: ExportFormat,
    file: Option<PathBuf>,
    existing: Existing,
) -> Outcome {
    keeps_existing(file.as_deref(), existing)?;
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    let mut sink = Sink::open(file.as_deref(), existing)?;
    if let ExportFormat::Markdown = format {
        let (_, state) = client.state(session).await?;
        sink.write(&heading(&state.summary.name))?;
    }
    let mut after = Seq::ZERO;
    let mut written = 0u64;
    loop {
        let page = client.history(session, after).await?;
        let Some(last) = page.last() else { break };
        after = frames::entry(last.get())
            .ok_or_else(|| Failure::new("the daemon sent an entry without a number"))?
            .seq;
        for frame in &page {
            written += 1;
            match format {
                ExportFormat::Jsonl => sink.json(frame.get())?,
                ExportFormat::Markdown => {
                    if let Some(text) = frames::entry(frame.get()).and_then(|entry| markdown(&entry)) {
                        sink.write(&text)?;
                    }
                }
            }
        }
    }
    client.close().await;
    sink.finish()?;
    if let Some(file) = file {
        match context.format() {
            Format::Json => output::json(&json!({"session": session, "file": file, "entries": written}))?,
            Format::Plain => output::note(format!("{written} entries written to `{}`", file.display())),
        }
    }
    Ok(())
}

/// What to do with a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    Keep,
    Replace,
}

/// Refuses a file that exists, before anything is read.
pub(super) fn keeps_existing(file: Option<&Path>, existing: Existing) -> Outcome {
    match file {
        Some(file) if existing == Existing::Keep && file.symlink_metadata().is_ok() => {
            Err(already_there(file))
        }
        _ => Ok(()),
    }
}

fn already_there(file: &Path) -> Failure {
    Failure::usage(format!(
        "`{}` exists; name another file, or replace the file with --force",
        file.display()
    ))
}

/// The output of the export: a file that appears only when it is complete, or stdout.
pub(super) enum Sink {
    Stdout,
    File(tempfile::NamedTempFile, PathBuf, Existing),
}

impl Sink {
    pub(super) fn open(file: Option<&Path>, existing: Existing) -> Outcome<Self> {
        let Some(path) = file else { return Ok(Self::Stdout) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = tempfile::NamedTempFile::new_in(folder)
            // The error itself names a temporary file that the user does not know.
            .map_err(|error| {
                Failure::new(format!("cannot write in `{}`: {}", folder.display(), error.kind()))
            })?;
        Ok(Self::File(beside, path.to_path_buf(), existing))
    }

    pub(super) fn json(&mut self, text: &str) -> Outcome {
        match self {
            Self::Stdout => output::json_text(text),
            Self::File(..) => self.write(&[text, "\n"].concat()),
        }
    }

    pub(super) fn write(&mut self, text: &str) -> Outcome {
        match self {
            // A file keeps the text unchanged; a terminal would act on escape sequences.
            Self::Stdout if output::is_terminal() => output::raw(clean::text(text).as_bytes()),
            Self::Stdout => output::raw(text.as_bytes()),
            Self::File(file, path, _) => file
                .write_all(text.as_bytes())
                .map_err(|error| Failure::new(format!("`{}`: {error}", path.display()))),
        }
    }

    pub(super) fn finish(self) -> Outcome {
        match self {
            Self::Stdout => Ok(()),
            Self::File(file, path, existing) => {
                let placed = match existing {
                    Existing::Keep => file.persist_noclobber(&path),
                    Existing::Replace => file.persist(&path),
                };
                placed.map(|_| ()).map_err(|error| match error.error.kind() {
                    // The file appeared while the export was written.
                    std::io::ErrorKind::AlreadyExists => already_there(&path),
                    _ => Failure::new(format!("`{}`: {}", path.display(), error.error)),
                })
            }
        }
    }
}

/// The heading: the current name of the session.
fn heading(name: &str) -> String {
    let name = clean::line(name);
    format!("# {}\n\n", if name.trim().is_empty() { "Session" } else { &name })
}

/// One entry of the conversation; `None` for an entry that is not part of it.
fn markdown(entry: &Decoded<Event>) -> Option<String> {
    let by = entry.by.as_ref().map(|by| clean::line(&by.to_string()));
    Some(match &entry.event {
        Event::SessionCreated { spec } => {
            format!(
                "{} in `{}`, {}\n\n",
                clean::line(&spec.agent),
                clean::visible(&spec.cwd.display().to_string()),
                rfc3339(entry.at)
            )
        }
        Event::Prompt { content, .. } => {
            let who = by.unwrap_or_else(|| "User".into());
            format!("## {who}\n\n{}\n\n", pieces(content))
        }
        Event::Message { content, interrupted, .. } => {
            let cut = if *interrupted { "\n\n*cut off here*" } else { "" };
            format!("{}{cut}\n\n", pieces(content))
        }
        Event::ToolCall { name, input, .. } => {
            let input = serde_json::to_string_pretty(input).unwrap_or_default();
            format!("**{}**\n\n{}\n\n", clean::line(name), fenced("json", &clean::visible(&input)))
        }
        Event::ToolResult { outcome, content, changes, .. } => {
            let mut out = format!("*{outcome:?}*\n\n");
            let text = plain_text(content);
            if !text.is_empty() {
                out = format!("{out}{}\n\n", fenced("", &clean::text(&text)));
            }
            for diff in changes.iter().filter_map(|change| change.diff.as_deref()) {
                out = format!("{out}{}\n\n", fenced("diff", &clean::visible(diff)));
            }
            out
        }
        Event::RequestOpened { request } => format!("> **Asked:** {}\n\n", clean::line(&request.ask.title())),
        Event::RequestClosed { outcome, .. } => format!("> {}\n\n", requests::outcome(None, outcome).plain()),
        Event::RequestDecided { request, outcome } => {
            format!("> {}\n\n", requests::outcome(Some(&request.ask), outcome).plain())
        }
        Event::TurnEnded { result, .. } => {
            let error = result
                .error
                .as_ref()
                .map(|error| format!(": {}", clean::line(&error.message)))
                .unwrap_or_default();
            format!("---\n\n*{:?}{error}*\n\n", result.outcome)
        }
        Event::Failure { error, .. } => format!("> **Error:** {}\n\n", clean::line(&error.message)),
        _ => return None,
    })
}

fn pieces(content: &[Content]) -> String {
    let all: Vec<String> = content
        .iter()
        .map(|piece| match piece {
            Content::Text { text } => clean::text(text),
            Content::Thinking { text } => {
                let quoted: Vec<String> = clean::text(text).lines().map(|line| format!("> {line}")).collect();
                quoted.join("\n")
            }
            Content::RedactedThinking => "> (thinking that is not shown)".into(),
            Content::Image { media_type, .. } => format!("*(image, {})*", clean::line(media_type)),
            Content::Resource { uri, .. } => format!("<{}>", clean::visible(uri)),
            Content::Data { data: body } | Content::Other { body } => {
                fenced("json", &clean::visible(&serde_json::to_string_pretty(body).unwrap_or_default()))
            }
        })
        .collect();
    all.join("\n\n")
}

/// A block of code whose fence is longer than any fence in the text.
fn fenced(language: &str, text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use portolan_core::Millis;

    use super::*;

    fn entry(event: Event) -> Decoded<Event> {
        Decoded { seq: Seq(1), at: Millis(0), by: None, event }
    }

    #[test]
    fn code_within_a_result_cannot_end_its_block() {
        assert_eq!(fenced("", "a\n```\nb\n"), "````\na\n```\nb\n````");
    }

    #[test]
    fn the_markdown_contains_no_escape_sequences() {
        let evil = "\u{1b}[31m\u{9b}2J\u{202e}x";
        let spec = portolan_core::SessionSpec {
            agent: evil.into(),
            cwd: evil.into(),
            name: Some(evil.into()),
            ..Default::default()
        };
        let data = Content::Data { data: json!({ evil: evil }) };
        let texts = [
            markdown(&entry(Event::SessionCreated { spec: Box::new(spec) })).unwrap(),
            pieces(&[data, Content::text(evil), Content::Thinking { text: evil.into() }]),
        ];
        for text in texts {
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
        }
    }

    #[test]
    fn a_session_without_a_name_also_has_a_heading() {
        assert_eq!([heading("Tour\u{1b}[1m"), heading(" ")], ["# Tour\n\n", "# Session\n\n"]);
    }

    #[test]
    fn a_conversation_reads_as_markdown() {
        let message = Event::Message {
            item: "i".into(),
            message: None,
            parent: None,
            model: None,
            content: vec![
                Content::Thinking { text: "hm\nso".into() },
                Content::text("Hello \u{1b}[31mworld"),
            ],
            interrupted: true,
            stop_reason: None,
        };
        assert_eq!(markdown(&entry(message)).unwrap(), "> hm\n> so\n\nHello world\n\n*cut off here*\n\n");
        assert_eq!(markdown(&entry(Event::LinkRestored)), None);
    }
}
