//! ls, show, delete.

use portolan_client::{Client, Listed, frames};
use portolan_core::{
    Millis, Seq, SessionId,
    session::state::{State, Summary},
};
use portolan_protocol::AgentsRunning;
use serde_json::json;

use super::{Context, inputs};
use crate::{
    failure::{Failure, Outcome},
    home::rfc3339,
    output::{self, Format},
    terminal::{
        clean, requests, status,
        style::{Colours, Line},
        transcript::{Layout, Transcript},
    },
};

/// At least this many characters of an id are shown: fewer are rarely unique.
const SHORTEST_ID: usize = 8;

/// Names longer than this are cut in tables.
const NAME_COLUMNS: usize = 48;

pub(super) async fn ls(context: &Context, archived: Option<bool>, limit: u32) -> Outcome {
    let mut client = context.client().await?;
    let Listed { sessions, agents } = client.list(archived, limit.max(1)).await?;
    let now = client.now();
    client.close().await;
    match context.format() {
        Format::Json => output::json(&sessions),
        Format::Plain if sessions.is_empty() => {
            output::note(match archived {
                Some(true) => "no archived sessions",
                Some(false) => {
                    "no sessions; `portolan new demo \"show me everything\"` starts one, `portolan ls --all` also \
                     lists archived sessions"
                }
                None => "no sessions; `portolan new demo \"show me everything\"` starts one",
            });
            Ok(())
        }
        Format::Plain => {
            output::raw(list(&sessions, now).as_bytes())?;
            if let Some(agents) = agents {
                output::note(running(agents));
            }
            Ok(())
        }
    }
}

fn running(agents: AgentsRunning) -> String {
    match agents {
        AgentsRunning { running, limit: Some(limit) } => {
            format!("agents running: {running} of at most {limit} (`limits.agents_at_once`)")
        }
        AgentsRunning { running, limit: None } => format!("agents running: {running}"),
    }
}

fn list(sessions: &[Summary], now: Millis) -> String {
    let ids = shortened(&sessions.iter().map(|summary| summary.session.to_string()).collect::<Vec<_>>());
    let mut rows =
        vec![["ID", "AGENT", "STATUS", "WAITING", "AGE", "COST", "NAME"].map(str::to_owned).to_vec()];
    for (summary, id) in sessions.iter().zip(ids) {
        let mut status = status::word(summary).to_owned();
        if summary.archived {
            status.push_str(", archived");
        }
        if let Some(parked) = summary.parked() {
            status = format!("{status}, {parked}");
        }
        rows.push(vec![
            id,
            clean::line(&summary.agent),
            status,
            if summary.waiting == 0 { "-".into() } else { summary.waiting.to_string() },
            age(now.0 - summary.active_at.0),
            summary.cost_usd.map_or_else(|| "-".into(), status::cost),
            Line::new(crate::terminal::style::Style::Plain, clean::line(&summary.name))
                .cut(NAME_COLUMNS)
                .plain(),
        ]);
    }
    output::table(&rows)
}

/// The ends of these ids, as short as possible but unique: ids of sessions, and of many agents, begin with the time and
/// so have the same first characters for days. Ids of agents may have any form, so this counts characters, not bytes.
pub(super) fn shortened(ids: &[String]) -> Vec<String> {
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    let ends = |length: usize| {
        let end = |id: &String| id.chars().skip(id.chars().count().saturating_sub(length)).collect();
        ids.iter().map(end).collect::<Vec<String>>()
    };
    let unique = |ends: &[String]| {
        let mut sorted: Vec<&String> = ends.iter().collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1]) && !ends.iter().any(|end| end.starts_with('-'))
    };
    (SHORTEST_ID..longest).map(ends).find(|ends| unique(ends)).unwrap_or_else(|| ids.to_vec())
}

/// The age, in one unit.
pub(super) fn age(ms: i64) -> String {
    let seconds = (ms / 1000).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The part of a session to show.
pub(super) enum What {
    State,
    Environment,
    Entries(u64),
    Raw(u64),
}

pub(super) async fn show(context: &Context, id: &str, what: What) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    match what {
        What::State => {
            let (seq, state) = client.state(session).await?;
            client.close().await;
            match context.format() {
                Format::Json => output::json(&json!({"seq": seq, "state": state})),
                Format::Plain => output::raw(describe(seq, &state).as_bytes()),
            }
        }
        What::Environment => {
            let variables = client.environment(session).await?;
            client.close().await;
            match context.format() {
                Format::Json => output::json(&variables),
                Format::Plain => {
                    for (name, value) in variables {
                        output::line(format!("{}={}", clean::visible(&name), clean::visible(&value)))?;
                    }
                    Ok(())
                }
            }
        }
        What::Raw(seq) => {
            let text = client.raw(session, Seq(seq)).await?;
            client.close().await;
            match (context.format(), text) {
                (Format::Json, text) => output::json(&json!({"seq": seq, "raw": text})),
                (Format::Plain, Some(text)) => output::line(clean::visible(&text)),
                (Format::Plain, None) => Err(Failure::not_found(format!(
                    "there is no original message of the agent for entry {seq}"
                ))),
            }
        }
        What::Entries(after) => entries(context, &mut client, session, Seq(after)).await,
    }
}

/// The history, page by page, so that a long history needs no more memory.
async fn entries(context: &Context, client: &mut Client, session: SessionId, mut after: Seq) -> Outcome {
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    loop {
        let page = client.history(session, after).await?;
        let Some(last) = page.last() else { return Ok(()) };
        let Some(entry) = frames::entry(last.get()) else {
            return Err(Failure::new("the daemon sent an entry without a number"));
        };
        after = entry.seq;
        for frame in &page {
            match context.format() {
                Format::Json => output::json_text(frame.get())?,
                Format::Plain => {
                    let Some(entry) = frames::entry(frame.get()) else { continue };
                    for line in transcript.entry(&entry) {
                        output::line(format!("{:>6}  {}", entry.seq, line.paint(colours)))?;
                    }
                }
            }
        }
    }
}

fn describe(seq: Seq, state: &State) -> String {
    let summary = &state.summary;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("id", summary.session.to_string());
    row("name", clean::line(&summary.name));
    row("agent", clean::line(&summary.agent));
    row("folder", clean::line(&summary.cwd.display().to_string()));
    let error = summary.error.as_deref().map(|error| format!(": {}", clean::line(error))).unwrap_or_default();
    row("status", format!("{}{error}", status::word(summary)));
    if let Some(parked) = summary.parked() {
        row("prompts", format!("{parked} (`portolan resume {}`)", summary.session));
    }
    if summary.archived {
        row("archived", "yes".into());
    }
    row("created", rfc3339(summary.created_at));
    row("last active", rfc3339(summary.active_at));
    if let Some(fork) = &summary.forked_from {
        let at = fork.at.map(|at| format!(" at entry {at}")).unwrap_or_default();
        row("forked from", format!("{}{at}", fork.session));
    }
    if let Some(model) = &summary.model {
        row("model", clean::line(model));
    }
    if let Some(mode) = &summary.mode {
        row("mode", clean::line(mode));
    }
    if let Some(own) = &state.agent.own_mode {
        row("agent's mode", format!("{} (Portolan still decides by the session's mode)", clean::line(own)));
    }
    if let Some(agent_session) = &summary.agent_session {
        row("agent session", clean::line(agent_session));
    }
    if let Some(pid) = state.pid {
        row("process", format!("{pid} (start number {} of the agent)", state.generation));
    }
    if let Some(holder) = &state.holder {
        let window = holder.tmux.as_deref().map(|window| format!(", tmux {}", clean::line(window)));
        let window = window.unwrap_or_default();
        row("holder", format!("{}{window} (the agent goes on without the daemon)", holder.pid));
    }
    row("turns", summary.turns.to_string());
    row("tokens", format!("{} in, {} out", state.usage.context(), state.usage.output));
    if let Some(used) = state.context_used {
        row("context", format!("{used} of {}", state.context_window));
    }
    row("cost", summary.cost_usd.map_or_else(|| "unknown".into(), status::cost));
    if !state.rules.is_empty() {
        row("always allowed", clean::line(&state.rules.join(", ")));
    }
    for server in &state.mcp_servers {
        row("MCP server", format!("{} {}", clean::line(&server.name), clean::line(&server.status)));
    }
    for task in &state.tasks {
        let what = task.description.as_deref().unwrap_or_default();
        row("task", format!("{} {}", clean::line(&task.task), clean::line(what)));
    }
    for command in &state.commands {
        let stage = serde_json::to_value(&command.stage).unwrap_or_default();
        let stage = stage.get("stage").and_then(|stage| stage.as_str()).unwrap_or("?").to_owned();
        row("command", format!("entry {} {} {stage}", command.seq, command.name));
    }
    row("last entry", seq.to_string());
    let mut out = output::table(&rows);
    for request in &state.requests {
        out.push('\n');
        // The user asked for the details, so show requests in full.
        for line in requests::in_full(request) {
            out.push_str(&line.plain());
            out.push('\n');
        }
    }
    out
}

pub(super) async fn delete(context: &Context, id: &str, sure: bool) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(id).await?;
    if !sure {
        let (_, state) = client.state(session).await?;
        let question =
            format!("delete `{}` ({session}) and its history for good?", clean::line(&state.summary.name));
        if !inputs::confirm(&question) {
            return Err(Failure::new("nothing was deleted; `--yes` deletes without asking"));
        }
    }
    client.delete(session).await?;
    client.close().await;
    match context.format() {
        Format::Json => output::json(&json!({"deleted": session})),
        Format::Plain => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{SessionSpec, session::state::Status};

    use super::*;

    fn summary(id: u128, name: &str) -> Summary {
        let spec = SessionSpec { agent: "demo".into(), name: Some(name.into()), ..SessionSpec::default() };
        State::new(SessionId::from_u128(id), spec, Millis(0)).summary
    }

    #[test]
    fn ids_are_shown_by_their_shortest_unique_ends() {
        let ids = |all: &[&str]| shortened(&all.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        // Ids of sessions of one day.
        let near = ["019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10", "019a82b4-7d1e-7c3a-8a51-1f6f2f1c9d11"];
        assert_eq!(ids(&near), ["2f1c9d10", "2f1c9d11"]);
        let alike = ["019a82b4-7d1e-7c3a-9a51-0f6f2f1c9d10", "019a82b4-7d1e-7c3a-9a52-0f6f2f1c9d10"];
        assert_eq!(ids(&alike), ["1-0f6f2f1c9d10", "2-0f6f2f1c9d10"]);
        assert_eq!(ids(&["short", "é"]), ["short", "é"]);
        assert_eq!(ids(&[]), Vec::<String>::new());
    }

    #[test]
    fn the_list_has_a_line_per_session() {
        let mut waiting = summary(0x10, "fix the \u{1b}[31mbug");
        waiting.waiting = 2;
        waiting.status = Status::Active;
        waiting.cost_usd = Some(0.25);
        assert_eq!(
            list(&[waiting, summary(0x20, "")], Millis(65_000)),
            "ID        AGENT  STATUS    WAITING  AGE  COST   NAME\n\
             00000010  demo   working   2        1m   $0.25  fix the bug\n\
             00000020  demo   starting  -        1m   -\n"
        );
    }

    #[test]
    fn prompts_that_wait_for_a_stopped_agent_are_shown_with_the_command_that_starts_it() {
        let mut ended = summary(1 << 100, "a");
        ended.status = Status::Terminated;
        let mut asleep = Summary { asleep: true, ..ended.clone() };
        asleep.session = SessionId::from_u128(2 << 100);
        let mut parked = Summary { queued: 1, ..ended.clone() };
        let running = Summary { queued: 3, status: Status::Active, ..ended.clone() };
        assert_eq!((ended.parked(), asleep.parked(), running.parked()), (None, None, None));
        let told = list(&[ended.clone(), asleep, parked.clone()], Millis(0));
        let lines: Vec<_> =
            told.lines().skip(1).map(|line| line.split("  ").nth(2).unwrap().trim()).collect();
        assert_eq!(lines, ["ended", "asleep", "ended, 1 prompt waits; resume the session to send it"]);
        parked.queued = 2;
        assert_eq!(parked.parked().as_deref(), Some("2 prompts wait; resume the session to send them"));
        let mut state = State::new(parked.session, SessionSpec::default(), Millis(0));
        state.summary = parked.clone();
        let shown = describe(Seq(1), &state);
        let way =
            format!("2 prompts wait; resume the session to send them (`portolan resume {}`)", parked.session);
        assert!(shown.contains(&way), "{shown}");
    }
}
