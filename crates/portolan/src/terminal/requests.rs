//! An open request as a block that hides nothing, and its outcome as a line.

use portolan_core::{
    Capabilities,
    policy::{Judgement, risk::Level},
    request::{Answer, Ask, Outcome, Question, Request, Scope},
};
use serde_json::Value;

use super::{
    beyond::beyond,
    clean, diff,
    style::{Line, Style},
};
use crate::home::rfc3339;

/// How many lines of each diff a block shows; the block also shows how many more there are.
const DIFF_LINES: usize = 60;

/// How much of a long text a block shows: its beginning and its end, because an agent could hide something at the end.
const TEXT_HEAD: usize = 4_000;
const TEXT_TAIL: usize = 1_000;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Block,
    Full,
}

/// Everything that a person needs to answer a request. A part of long texts and diffs is left out, and the block says
/// so; `whole` says how to see everything.
pub(crate) fn block(request: &Request, whole: &str) -> Vec<Line> {
    let mut lines = shown(request, Extent::Block);
    if lines != shown(request, Extent::Full) {
        lines.push(Line::new(Style::Warning, format!("this request is shown in part; {whole}")).indented(2));
    }
    lines
}

/// The request in full.
pub(crate) fn in_full(request: &Request) -> Vec<Line> {
    shown(request, Extent::Full)
}

fn shown(request: &Request, extent: Extent) -> Vec<Line> {
    let mut lines = vec![
        Line::new(Style::Warning, "? ")
            .and(Style::Bold, heading(&request.ask))
            .and(Style::Dim, format!("  (request {})", request.request)),
    ];
    let mut body = Vec::new();
    match &request.ask {
        Ask::Permission { input, description, changes, reason, blocked_path, folder, options, .. } => {
            text(&mut body, Style::Plain, description.as_deref());
            text(&mut body, Style::Dim, reason.as_deref());
            if let Some(path) = blocked_path {
                body.push(Line::new(Style::Dim, format!("because of {}", clean::visible(path))));
            }
            if let Some(folder) = folder {
                body.push(Line::new(Style::Dim, format!("in the folder {}", clean::visible(folder))));
            }
            let most = if extent == Extent::Block { DIFF_LINES } else { usize::MAX };
            body.extend(diff::lines(changes, most));
            fields(&mut body, &beyond(input, changes, &[description.as_deref()]), extent);
            for option in options {
                body.push(Line::new(
                    Style::Dim,
                    format!("{}: {}", clean::visible(&option.id), clean::line(&option.label)),
                ));
            }
        }
        Ask::Question { questions } => {
            for (number, question) in questions.iter().enumerate() {
                if questions.len() > 1 {
                    let heading = format!("{}. {}", number + 1, clean::line(&question.question));
                    body.push(Line::new(Style::Bold, heading));
                }
                choices(&mut body, question);
            }
        }
        Ask::Plan { plan, input } => {
            text(&mut body, Style::Plain, plan.as_deref());
            // What else the plan allows, or the plan itself if the agent sends it in another form.
            fields(&mut body, &beyond(input, &[], &[plan.as_deref()]), extent);
        }
        Ask::Elicitation { message, schema, url, .. } => {
            text(&mut body, Style::Plain, Some(message));
            if let Some(url) = url {
                body.push(Line::new(Style::Accent, clean::visible(url)));
            }
            if let Some(schema) = schema {
                pretty(&mut body, schema);
            }
        }
        Ask::Hook { input, .. } => pretty(&mut body, input),
        Ask::Other { body: asked, .. } => pretty(&mut body, asked),
    }
    if let Some(judgement) = &request.policy {
        body.push(risk(judgement));
    }
    if let Some(deadline) = request.deadline {
        body.push(Line::new(Style::Warning, format!("denied at {} if nobody answers", rfc3339(deadline))));
    }
    lines.extend(body.into_iter().map(|line| line.indented(2)));
    lines
}

/// How dangerous the call is, why, and why a person is asked.
fn risk(judgement: &Judgement) -> Line {
    let (level, reasons) = (judgement.risk.level, &judgement.risk.reasons);
    let style = if level == Level::High { Style::Warning } else { Style::Dim };
    let why =
        if reasons.is_empty() { String::new() } else { format!(": {}", clean::line(&reasons.join("; "))) };
    let asked = clean::line(&judgement.why);
    Line::new(style, format!("risk {}{why}", level.word()))
        .and(Style::Dim, format!(" · asked because {asked}"))
}

fn heading(ask: &Ask) -> String {
    match ask {
        Ask::Permission { tool_name, .. } => format!("May I use {}?", clean::line(tool_name)),
        Ask::Question { questions } => match questions.as_slice() {
            [only] => clean::line(&only.question),
            several => format!("{} questions", several.len()),
        },
        Ask::Plan { .. } => "May I carry out this plan?".into(),
        Ask::Elicitation { server, .. } => format!("{} asks for data", clean::line(server)),
        Ask::Hook { event, .. } => format!("The hook {} waits for its output", clean::line(event)),
        Ask::Other { name, .. } => format!("The agent asks: {}", clean::line(name)),
    }
}

fn text(lines: &mut Vec<Line>, style: Style, text: Option<&str>) {
    if let Some(text) = text {
        lines.extend(clean::visible(text).lines().map(|line| Line::new(style, line)));
    }
}

fn pretty(lines: &mut Vec<Line>, value: &Value) {
    text(lines, Style::Dim, Some(&serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// Fields of an input; texts are shown unquoted.
fn fields(lines: &mut Vec<Line>, fields: &[(&str, &Value)], extent: Extent) {
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = clean::visible(&value);
        let (head, tail) = match extent {
            Extent::Block => parted(&value),
            Extent::Full => (value.as_str(), None),
        };
        let mut parts = head.lines();
        let first = parts.next().unwrap_or_default().to_owned();
        lines.push(Line::new(Style::Dim, format!("{}: ", clean::visible(name))).and(Style::Accent, first));
        lines.extend(parts.map(|line| Line::new(Style::Accent, line).indented(2)));
        if let Some((left_out, tail)) = tail {
            let (rows, size) = (left_out.lines().count(), diff::size(left_out.len() as u64));
            let told = format!("… {rows} more lines, {size} …");
            lines.push(Line::new(Style::Warning, told).indented(2));
            lines.extend(tail.lines().map(|line| Line::new(Style::Accent, line).indented(2)));
        }
    }
}

/// The beginning of a long text, then the size of the omitted part, then the end.
fn parted(text: &str) -> (&str, Option<(&str, &str)>) {
    if text.len() <= 2 * (TEXT_HEAD + TEXT_TAIL) {
        return (text, None);
    }
    let (head, rest) = text.split_at(text.floor_char_boundary(TEXT_HEAD));
    let (left_out, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - TEXT_TAIL));
    (head, Some((left_out, tail)))
}

fn choices(lines: &mut Vec<Line>, question: &Question) {
    for (number, choice) in question.choices.iter().enumerate() {
        let mut line =
            Line::new(Style::Bold, format!("{} ", number + 1)).and(Style::Plain, clean::line(&choice.label));
        if let Some(description) = &choice.description {
            line = line.and(Style::Dim, format!("  {}", clean::line(description)));
        }
        lines.push(line);
    }
    if question.multiple {
        lines.push(Line::new(Style::Dim, "(several may be chosen)"));
    }
}

/// The keys that answer a request, for an agent with these capabilities.
pub(crate) fn keys(ask: &Ask, can: &Capabilities) -> &'static str {
    match ask {
        Ask::Permission { .. } if !can.edited_input => "y allow · a always · n deny · d deny with a reason",
        Ask::Permission { .. } => "y allow · a always · n deny · d deny with a reason · e edit the input",
        Ask::Plan { .. } => "y approve · n deny · d deny with a reason",
        Ask::Question { questions } => match questions.as_slice() {
            [only] if only.choices.is_empty() => "t type an answer · n do not answer",
            [only] if only.multiple => "1-9 choose · Enter send · t type an answer · n do not answer",
            [_] => "1-9 choose · t type an answer · n do not answer",
            _ => "one by one: 1-9 choose · Enter next · t type an answer · n do not answer",
        },
        Ask::Elicitation { .. } => "e fill in · n deny",
        Ask::Hook { .. } | Ask::Other { .. } => "e write the output · n deny",
    }
}

/// How a request ended, in one line.
pub(crate) fn outcome(ask: Option<&Ask>, outcome: &Outcome) -> Line {
    let about = ask.map(|ask| format!("{} · ", clean::line(&ask.title()))).unwrap_or_default();
    let line = |style, mark: &str, words: String| {
        Line::new(style, format!("{mark} ")).and(Style::Dim, about.clone()).and(style, words)
    };
    let words = ask.and_then(|ask| outcome.cancellation(ask));
    let cancelled = words.map(|words| format!("{}: ", clean::line(&words))).unwrap_or_default();
    match outcome {
        Outcome::Answered { answer, by } => {
            let by = clean::line(&by.to_string());
            match answer {
                Answer::Allow { scope, input, .. } => {
                    let always = if *scope == Scope::Session { ", always" } else { "" };
                    let edited = if input.is_some() { ", with edited input" } else { "" };
                    line(Style::Good, "✓", format!("allowed by {by}{always}{edited}"))
                }
                Answer::Deny { message, interrupt, .. } => {
                    let stopped = if *interrupt { ", turn stopped" } else { "" };
                    let why =
                        message.as_ref().map(|why| format!(": {}", clean::line(why))).unwrap_or_default();
                    line(Style::Bad, "✗", format!("denied by {by}{stopped}{why}"))
                }
                Answer::Choices { answers } => {
                    let chosen: Vec<String> =
                        answers.values().flatten().map(|chosen| clean::line(chosen)).collect();
                    line(Style::Good, "✓", format!("answered by {by}: {}", chosen.join(", ")))
                }
                Answer::Content { .. } | Answer::Output { .. } => {
                    line(Style::Good, "✓", format!("answered by {by}"))
                }
            }
        }
        Outcome::Expired => {
            line(Style::Warning, "✗", "denied, because nobody answered before the deadline".into())
        }
        Outcome::Interrupted { by } => {
            let by = clean::line(&by.to_string());
            line(Style::Warning, "■", format!("{cancelled}closed by an interrupt from {by}"))
        }
        Outcome::Withdrawn => line(Style::Dim, "·", format!("{cancelled}the agent withdrew the request")),
        Outcome::AgentGone { reason } => {
            let reason = clean::line(reason);
            line(Style::Warning, "■", format!("{cancelled}the agent that asked has ended: {reason}"))
        }
    }
}
