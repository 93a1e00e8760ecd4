//! How entries look, line by line. Each golden is a short history and its lines, for a terminal of 60 columns and for a
//! pipe.

use portolan_core::{
    Actor, Event, Millis, RequestId, Seq, SessionId, SessionSpec, TokenId,
    command::Stage,
    entry::Decoded,
    event::{
        ChangeKind, Content, ErrorInfo, ErrorKind, FileChange, ItemKind, Level, PlanStep, ResetReason,
        ToolKind, ToolOutcome, TurnOutcome, TurnResult, WorkDone,
    },
    log::Folded as _,
    request::{Answer, Ask, Outcome, Request},
    session::state::{State, Status},
    usage::TokenUsage,
};
use serde_json::json;

use super::{
    status,
    style::Line,
    transcript::{Layout, Transcript},
};

fn ada() -> Actor {
    Actor::Person { token: "t1".parse::<TokenId>().unwrap(), name: "ada".into(), via: "page".into() }
}

/// A history: entries are numbered from 1, each by the agent or by ada.
fn history(events: Vec<Event>) -> Vec<Decoded<Event>> {
    events
        .into_iter()
        .zip(1..)
        .map(|(event, seq)| {
            let by = matches!(event, Event::Prompt { .. }).then(ada);
            Decoded { seq: Seq(seq), at: Millis(0), by, event }
        })
        .collect()
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.plain() + "\n").collect::<Vec<_>>().concat()
}

fn shown(layout: Layout, columns: usize, entries: &[Decoded<Event>]) -> String {
    let mut transcript = Transcript::new(layout, columns);
    let lines: Vec<Line> = entries.iter().flat_map(|entry| transcript.entry(entry)).collect();
    text(&lines)
}

fn prompt(words: &str) -> Event {
    Event::Prompt { command: Seq(1), content: vec![Content::text(words)] }
}

fn started(item: &str, kind: ItemKind, parent: Option<&str>) -> Event {
    Event::ItemStarted { item: item.into(), kind, message: None, parent: parent.map(Into::into) }
}

fn delta(item: &str, words: &str) -> Event {
    Event::Delta { item: item.into(), text: words.into() }
}

fn message(item: &str, parent: Option<&str>, content: Content) -> Event {
    Event::Message {
        item: item.into(),
        message: None,
        parent: parent.map(Into::into),
        model: None,
        content: vec![content],
        interrupted: false,
        stop_reason: None,
    }
}

fn call(tool: &str, parent: Option<&str>, name: &str, kind: ToolKind, input: serde_json::Value) -> Event {
    Event::ToolCall {
        tool: tool.into(),
        item: None,
        message: None,
        parent: parent.map(Into::into),
        name: name.into(),
        kind,
        title: None,
        input,
        changes: vec![],
    }
}

fn result(tool: &str, parent: Option<&str>, words: &str, changes: Vec<FileChange>) -> Event {
    Event::ToolResult {
        tool: tool.into(),
        parent: parent.map(Into::into),
        outcome: ToolOutcome::Done,
        content: vec![Content::text(words)],
        changes,
    }
}

fn diff() -> FileChange {
    FileChange::new("a.txt", ChangeKind::Modify, "@@ -1 +1 @@\n-old\n+new\n")
}

fn asked(number: u64, tool: &str, changes: Vec<FileChange>) -> Event {
    let input = json!({"command": "rm -rf \u{1b}[8m/\u{1b}[0m tmp\nls", "description": "Clean up"});
    let ask = Ask::permission("Bash", input).with_description("Clean up".to_owned()).with_changes(changes);
    let request = Request { tool: Some(tool.into()), ..portolan_testkit::sessions::request(number, ask) };
    Event::RequestOpened { request: Box::new(request) }
}

fn done() -> Event {
    let result = TurnResult {
        duration_ms: Some(3210),
        usage: Some(TokenUsage { input: 100, output: 20, ..TokenUsage::default() }),
        cost_usd: Some(0.0123),
        ..TurnResult::bare(TurnOutcome::Completed)
    };
    Event::TurnEnded { turn: 1, result: Box::new(result) }
}

// covers: 003-009
#[test]
fn a_turn_with_text_thinking_a_tool_and_its_permission() {
    let entries = history(vec![
        prompt("clean up\nplease"),
        started("i1", ItemKind::Thinking, None),
        delta("i1", "I should look "),
        delta("i1", "first."),
        message("i1", None, Content::Thinking { text: "I should look first.".into() }),
        started("i2", ItemKind::Text, None),
        delta("i2", "# Plan\nThis is a long line that the terminal has to wrap "),
        delta("i2", "somewhere near its end."),
        message(
            "i2",
            None,
            Content::text(
                "# Plan\nThis is a long line that the terminal has to wrap somewhere near its end.",
            ),
        ),
        call("t1", None, "Bash", ToolKind::Execute, json!({"command": "ls"})),
        asked(11, "t1", vec![]),
        Event::RequestClosed {
            request: RequestId(11),
            outcome: Outcome::Answered { answer: Answer::allow(), by: ada() },
        },
        result("t1", None, "one\ntwo\n", vec![]),
        done(),
    ]);
    insta::assert_snapshot!(shown(Layout::Live, 60, &entries), @r"
    › clean up  ada (page)
      please

    I should look first.

    # Plan
    This is a long line that the terminal has to wrap somewhere
    near its end.

    ? May I use Bash?  (request 11)
      Clean up
      command: rm -rf ␛[8m/␛[0m tmp
        ls
    ✓ Bash: rm -rf / tmp ls · allowed by ada (page)
    ✓ Bash ls · 2 lines
    ── done · 3.2 s · 100 tokens in, 20 out · $0.01
    ");
    insta::assert_snapshot!(shown(Layout::Plain, usize::MAX, &entries), @r"
    › clean up  ada (page)
      please

    I should look first.

    # Plan
    This is a long line that the terminal has to wrap somewhere near its end.
    ▸ Bash ls

    ? May I use Bash?  (request 11)
      Clean up
      command: rm -rf ␛[8m/␛[0m tmp
        ls
    ✓ Bash: rm -rf / tmp ls · allowed by ada (page)
    ✓ Bash ls · 2 lines
    ── done · 3.2 s · 100 tokens in, 20 out · $0.01
    ");
}

#[test]
fn a_change_is_shown_once_with_or_without_a_request() {
    let edit = |tool: &str| call(tool, None, "Edit", ToolKind::Edit, json!({"file_path": "a.txt"}));
    let entries = history(vec![
        edit("t1"),
        result("t1", None, "ok", vec![diff()]),
        edit("t2"),
        asked(4, "t2", vec![diff()]),
        Event::RequestClosed {
            request: RequestId(4),
            outcome: Outcome::Answered { answer: Answer::allow(), by: ada() },
        },
        result("t2", None, "ok", vec![diff()]),
    ]);
    insta::assert_snapshot!(shown(Layout::Live, 60, &entries), @r"
    ✓ Edit a.txt · +1 -1, ok
      a.txt  changed +1 -1
        @@ -1 +1 @@
        -old
        +new

    ? May I use Bash?  (request 4)
      Clean up
      a.txt  changed +1 -1
        @@ -1 +1 @@
        -old
        +new
      command: rm -rf ␛[8m/␛[0m tmp
        ls
    ✓ Bash: rm -rf / tmp ls · allowed by ada (page)
    ✓ Edit a.txt · +1 -1, ok
    ");
}

#[test]
fn texts_of_parallel_subagents_do_not_mix() {
    let subagent = |name: &str, kind: &str| Event::SubagentStarted {
        subagent: name.into(),
        parent: None,
        subagent_type: Some(kind.into()),
        description: "look around".into(),
        prompt: None,
        model: None,
        background: false,
        team: None,
    };
    let ended = |name: &str| Event::SubagentEnded {
        subagent: name.into(),
        outcome: ToolOutcome::Done,
        summary: Some("saw it".into()),
        work: Some(WorkDone { tokens: 9, tool_uses: 1, duration_ms: 1 }),
    };
    let entries = history(vec![
        call("s1", None, "Agent", ToolKind::Subagent, json!({})),
        subagent("s1", "scout"),
        call("s2", None, "Agent", ToolKind::Subagent, json!({})),
        subagent("s2", "scribe"),
        started("a", ItemKind::Text, Some("s1")),
        started("b", ItemKind::Text, Some("s2")),
        delta("a", "Scout "),
        delta("b", "Scribe "),
        delta("a", "here.\nI go "),
        delta("b", "here.\nI write.\n"),
        delta("a", "ashore."),
        message("b", Some("s2"), Content::text("Scribe here.\nI write.\n")),
        message("a", Some("s1"), Content::text("Scout here.\nI go ashore.")),
        call("t1", Some("s1"), "Bash", ToolKind::Execute, json!({"command": "ls"})),
        result("t1", Some("s1"), "one line", vec![]),
        ended("s1"),
        result("s1", None, "saw it", vec![]),
    ]);
    insta::assert_snapshot!(shown(Layout::Live, 60, &entries), @r"
    ◇ scout look around
    ◇ scribe look around

      Scout here.

      Scribe here.
      I write.

      I go ashore.
      ✓ Bash ls · one line
    ◇ done · 1 call · 9 tokens · saw it
    ");
}

#[test]
fn every_other_event_is_a_line() {
    let error = ErrorInfo {
        kind: ErrorKind::RateLimit,
        message: "too many\nrequests".into(),
        way_out: Some("wait a minute".into()),
    };
    let failed = TurnResult { error: Some(error.clone()), ..TurnResult::bare(TurnOutcome::Failed) };
    let steps = |second: &str| Event::Plan {
        steps: ["completed", second]
            .map(|status| PlanStep { text: format!("do {status}"), status: status.into() })
            .to_vec(),
        parent: None,
    };
    let entries = history(vec![
        Event::Retry { attempt: 1, max: Some(3), delay_ms: Some(500), error: error.clone() },
        Event::Failure { error, recoverable: true },
        Event::Notice { level: Level::Info, text: "\u{1b}]52;c;evil\u{7}fine".into() },
        Event::LinkLost { reason: "socket".into() },
        Event::Compacted { trigger: None, tokens_before: Some(9), tokens_after: None },
        steps("pending"),
        steps("in_progress"),
        Event::RuleAdded { tool_name: "Bash".into(), rule: None },
        Event::Receipt {
            command: Seq(7),
            stage: Stage::Uncertain { reason: "the daemon was killed".into() },
        },
        Event::Unknown { source: "claude".into(), kind: "brand_new".into() },
        Event::TurnEnded { turn: 1, result: Box::new(failed) },
    ]);
    insta::assert_snapshot!(shown(Layout::Live, 60, &entries), @r"
    ! attempt 1 of 3 failed: too many requests, next attempt in 0.5 s
    ✗ too many requests · wait a minute
    · fine
    ! the connection to the agent was lost: socket
    · the context was made smaller: 9 to ? tokens
    ☑ do completed
    ☐ do pending
    ▶ do in_progress
    · Bash needs no permission from now on
    ! nobody knows whether entry 7 reached the agent (the daemon was killed); `portolan resend` sends it again
    · claude sent an unknown message: brand_new
    ✗ too many requests
      wait a minute
    ── failed
    ");
}

/// The frames for a reader that reconnects: the durable entries that it missed, then the state.
fn come_back(transcript: &mut Transcript, entries: &[Decoded<Event>], state: &State) -> Vec<Line> {
    let seen = transcript.seen();
    let durable = |entry: &&Decoded<Event>| {
        entry.seq > seen && State::durability(&entry.event) == portolan_core::event::Durability::Durable
    };
    let mut lines: Vec<Line> =
        entries.iter().filter(durable).flat_map(|entry| transcript.entry(entry)).collect();
    let upto = entries.last().map_or(Seq::ZERO, |entry| entry.seq);
    lines.extend(transcript.snapshot(upto, state));
    lines
}

// covers: 003-006
#[test]
fn a_lost_connection_neither_loses_nor_repeats_a_line() {
    let entries = history(vec![
        prompt("go"),
        started("i1", ItemKind::Text, None),
        delta("i1", "first line\nsec"),
        delta("i1", "ond line\nthi"),
        delta("i1", "rd"),
        message("i1", None, Content::text("first line\nsecond line\nthird")),
        call("t1", None, "Bash", ToolKind::Execute, json!({"command": "ls"})),
        asked(8, "t1", vec![]),
        started("i2", ItemKind::Text, None),
        delta("i2", "fourth\nfif"),
        delta("i2", "th\n"),
        message("i2", None, Content::text("fourth\nfifth\n")),
        done(),
    ]);
    let whole = shown(Layout::Plain, usize::MAX, &entries);
    for lost_at in 0..entries.len() {
        for back_at in lost_at..=entries.len() {
            let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
            let mut lines: Vec<Line> =
                entries[..lost_at].iter().flat_map(|entry| transcript.entry(entry)).collect();
            let mut state = State::new(SessionId::from_u128(1), SessionSpec::default(), Millis(0));
            for entry in &entries[..back_at] {
                state.apply(entry.seq, entry.at, entry.by.as_ref(), &entry.event);
            }
            lines.extend(come_back(&mut transcript, &entries[..back_at], &state));
            lines.extend(entries[back_at..].iter().flat_map(|entry| transcript.entry(entry)));
            assert_eq!(text(&lines), whole, "lost after {lost_at}, back after {back_at}");
        }
    }
}

#[test]
fn a_message_that_differs_from_its_stream_is_shown_in_full() {
    let entries = history(vec![
        started("i1", ItemKind::Text, None),
        delta("i1", "one thing\n"),
        message("i1", None, Content::text("another thing")),
    ]);
    insta::assert_snapshot!(shown(Layout::Plain, usize::MAX, &entries), @r"
    one thing
    (the agent replaced the text above)
    another thing
    ");
}

// People allow the input, and the diff does not show all of it.
#[test]
fn a_request_shows_the_fields_that_its_diff_does_not_show() {
    let Event::RequestOpened { mut request } = asked(5, "t1", vec![diff()]) else {
        unreachable!("just made")
    };
    let Ask::Permission { tool_name, input, .. } = &mut request.ask else { unreachable!("just made") };
    *tool_name = "Edit".into();
    *input = json!({"file_path": "a.txt", "old_string": "old", "new_string": "new", "replace_all": true});
    let entries = history(vec![Event::RequestOpened { request }]);
    let told = shown(Layout::Plain, usize::MAX, &entries);
    assert!(told.contains("+new") && told.contains("replace_all: true"), "{told}");
}

#[test]
fn the_status_line_shows_prompts_that_wait_for_a_stopped_agent() {
    let mut state = State::new(SessionId::from_u128(1), SessionSpec::default(), Millis(0));
    state.summary.status = Status::Terminated;
    state.summary.queued = 1;
    assert_eq!(status::line(&state, &[]).plain(), "ended · 1 prompt waits; resume the session to send it");
}

#[test]
fn a_reset_conversation_is_shown_with_its_reason() {
    let told = |reason| {
        let entries = history(vec![Event::ConversationReset { agent_session: None, reason }]);
        shown(Layout::Plain, usize::MAX, &entries)
    };
    for reason in [ResetReason::CannotResume, ResetReason::Lost] {
        let told = told(Some(reason));
        assert!(told.contains(reason.words()), "{told}");
    }
    assert!(told(None).contains("the agent forgot the conversation"), "a user asked for the reset");
}

#[test]
fn the_status_line_shows_model_mode_context_and_cost() {
    let mut state = State::new(SessionId::from_u128(1), SessionSpec::default(), Millis(0));
    assert_eq!(status::line(&state, &[]).plain(), "starting");
    state.summary.model = Some("opus".into());
    state.summary.mode = Some("plan".into());
    state.summary.cost_usd = Some(1.5);
    state.summary.queued = 2;
    state.context_used = Some(50_000);
    assert_eq!(
        status::line(&state, &[]).plain(),
        "starting · opus · mode plan · context 25% · $1.50 · 2 prompts queued"
    );
}

#[test]
fn the_last_call_can_be_shown_in_full() {
    let entries = history(vec![
        call("t1", None, "Bash", ToolKind::Execute, json!({"command": "ls\nls"})),
        result("t1", None, "one\ntwo", vec![]),
    ]);
    let mut transcript = Transcript::new(Layout::Live, 60);
    for entry in &entries {
        transcript.entry(entry);
    }
    insta::assert_snapshot!(text(&transcript.unfold()), @r"
    ▸ Bash ls ls
        command: ls
          ls
        one
        two
    ");
}
