//! An agent that does what a prompt says, one word after the other.

use std::sync::Arc;

use indexmap::IndexMap;
use portolan_core::{
    Capabilities,
    capabilities::{Asks, NativeProtocol},
    event::{
        AgentInfo, Content, Event, Exit, ExitReason, ToolKind, ToolOutcome, TurnOutcome, TurnResult,
        plain_text,
    },
    ports::{Boxed, Order},
    request::{Answer, Ask, Choice, Question},
    spec::SpecOption,
    usage::{ModelUsage, TokenUsage},
};
use portolan_testkit::agents::{Cut, Played, Puppet, Settled, Strings, exit, message, permission};
use serde_json::{Value, json};

const MODES: [&str; 4] = ["default", "acceptEdits", "bypassPermissions", "plan"];

/// The words: `say:WORDS`, `think:WORDS`, `stream:WORDS`, `tool`, `ask`, `questions`, `subagent`, `subask`, `subwait`,
/// `plan`, `form`, `hook`, `other`, `fail`, `wait`, `crash`.
pub(super) fn puppet() -> Arc<Puppet> {
    use SpecOption as O;
    let capabilities = Capabilities {
        streaming: true,
        interrupt: true,
        permission_modes: true,
        permission_mode_switching_mid_session: true,
        native_protocol: NativeProtocol::Demo,
        options: vec![O::Cwd, O::Prompt, O::Name, O::Model, O::Mode, O::AllowedTools],
        supported_permission_modes: Some(MODES.map(Into::into).to_vec()),
        mode_asks: [Asks::Everything, Asks::Some, Asks::Nothing, Asks::Everything]
            .into_iter()
            .zip(MODES)
            .map(|(asks, mode)| (mode.into(), asks))
            .collect(),
        ..Capabilities::default()
    };
    Arc::new(Puppet::new("puppet").with_capabilities(capabilities).playing(play))
}

fn play(strings: &mut Strings) -> Boxed<'_, Exit> {
    Box::pin(async move {
        let spec = &strings.launch.spec;
        if spec.model.as_deref() == Some("none") {
            return exit(ExitReason::NotStarted, "it ended");
        }
        let info = AgentInfo {
            model: Some(spec.model.clone().unwrap_or_else(|| "wood".into())),
            mode: Some(spec.mode.clone().unwrap_or_else(|| "default".into())),
            ..AgentInfo::default()
        };
        strings.ready_as(info).await;
        strings.aside = |order| match order {
            Order::SetMode(mode) if mode == "plan" => Settled::Refused("a puppet has no plan".into()),
            _ => Settled::Done(None),
        };
        strings.act(|strings, content| Box::pin(scene(strings, content))).await
    })
}

async fn scene(strings: &mut Strings, content: Vec<Content>) -> Played {
    for word in plain_text(&content).split_whitespace() {
        match word.split_once(':') {
            Some(("say", text)) => say(strings, None, Content::text(text)).await,
            Some(("think", text)) => say(strings, None, Content::Thinking { text: text.into() }).await,
            Some(("stream", text)) => strings.stream(text.split_inclusive(|_| true)).await,
            _ => act(strings, word).await?,
        }
    }
    Ok(finished())
}

async fn say(strings: &mut Strings, parent: Option<&str>, content: Content) {
    let mut said = message(strings.name(), content);
    if let Event::Message { parent: of, .. } = &mut said {
        *of = parent.map(Into::into);
    }
    strings.event(said).await;
}

/// Asks, and says the answer.
async fn consult(strings: &mut Strings, parent: Option<&str>, ask: Ask) -> Result<(), Cut> {
    let answer = strings.answer_to(ask, parent, None).await?;
    say(strings, parent, Content::text(format!("{answer:?}"))).await;
    Ok(())
}

async fn act(strings: &mut Strings, word: &str) -> Result<(), Cut> {
    match word {
        "tool" => {
            let tool = call(strings, None, "Read", ToolKind::Read, json!({"file_path": "/a"})).await;
            result(strings, &tool, None, ToolOutcome::Done, "contents").await;
        }
        "ask" => {
            let input = json!({"command": "ls"});
            let tool = call(strings, None, "Bash", ToolKind::Execute, input.clone()).await;
            let answer = strings.answer_to(permission("Bash", input), None, Some(&tool)).await?;
            let denied = matches!(answer, Answer::Deny { .. });
            let outcome = if denied { ToolOutcome::Denied } else { ToolOutcome::Done };
            result(strings, &tool, None, outcome, "done with it").await;
        }
        "questions" => consult(strings, None, Ask::Question { questions: questions() }).await?,
        "plan" => {
            let input = json!({"plan": "1. sail"});
            let tool = call(strings, None, "ExitPlanMode", ToolKind::Think, input).await;
            let ask = Ask::Plan { plan: Some("1. sail".into()), input: json!({}) };
            let answer = strings.answer_to(ask, None, Some(&tool)).await?;
            result(strings, &tool, None, ToolOutcome::Done, &format!("{answer:?}")).await;
        }
        "form" => {
            let schema = json!({"type": "object", "properties": {"berth": {"type": "integer"}}});
            let (server, message) = ("harbour".into(), "Which berth?".into());
            let ask = Ask::Elicitation { server, message, schema: Some(schema), url: None };
            consult(strings, None, ask).await?;
        }
        "hook" => {
            let ask = Ask::Hook { event: "PreToolUse".into(), input: json!({"tool": "Bash"}) };
            consult(strings, None, ask).await?;
        }
        "other" => consult(strings, None, Ask::Other { name: "newer".into(), body: json!([1]) }).await?,
        "subagent" => {
            let me = begin_subagent(strings, "dig").await;
            say(strings, Some(&me), Content::text("digging")).await;
            let input = json!({"command": "dig"});
            let tool = call(strings, Some(&me), "Bash", ToolKind::Execute, input).await;
            result(strings, &tool, Some(&me), ToolOutcome::Done, "a hole").await;
            end_subagent(strings, &me).await;
        }
        "subask" => {
            let me = begin_subagent(strings, "ask around").await;
            let ask = Ask::Question { questions: questions()[..1].to_vec() };
            consult(strings, Some(&me), ask).await?;
            end_subagent(strings, &me).await;
        }
        "subwait" => {
            begin_subagent(strings, "wait").await;
            return Err(strings.interrupted().await);
        }
        "fail" => return Err(Cut::Failed("the model has too much to do".into())),
        "crash" => return Err(Cut::Ends(exit(ExitReason::Failed, "it broke"))),
        "wait" => return Err(strings.interrupted().await),
        other => panic!("a puppet does not know `{other}`"),
    }
    Ok(())
}

async fn call(
    strings: &mut Strings,
    parent: Option<&str>,
    name: &str,
    kind: ToolKind,
    input: Value,
) -> String {
    let tool = format!("tool-{}", strings.name());
    let called = Event::ToolCall {
        tool: tool.clone(),
        item: None,
        message: None,
        parent: parent.map(Into::into),
        name: name.into(),
        kind,
        title: None,
        input,
        changes: vec![],
    };
    strings.event(called).await;
    tool
}

async fn result(strings: &Strings, tool: &str, parent: Option<&str>, outcome: ToolOutcome, text: &str) {
    let (tool, parent) = (tool.into(), parent.map(Into::into));
    let content = vec![Content::text(text)];
    strings.event(Event::ToolResult { tool, parent, outcome, content, changes: vec![] }).await;
}

async fn begin_subagent(strings: &mut Strings, prompt: &str) -> String {
    let input = json!({"description": "a task", "prompt": prompt});
    let tool = call(strings, None, "Agent", ToolKind::Subagent, input).await;
    let started = Event::SubagentStarted {
        subagent: tool.clone(),
        parent: None,
        subagent_type: None,
        description: "a task".into(),
        prompt: Some(prompt.into()),
        model: None,
        background: false,
        team: None,
    };
    strings.event(started).await;
    tool
}

async fn end_subagent(strings: &Strings, me: &str) {
    let usage = TokenUsage { input: 1000, output: 100, cache_creation: 10, cache_read: 1 };
    strings
        .event(Event::Usage {
            usage,
            model: None,
            parent: Some(me.into()),
            context_window: None,
            context_only: false,
        })
        .await;
    let (outcome, summary) = (ToolOutcome::Done, Some("dug".into()));
    strings.event(Event::SubagentEnded { subagent: me.into(), outcome, summary, work: None }).await;
    result(strings, me, None, ToolOutcome::Done, "dug").await;
}

/// The cost of every successful turn.
fn finished() -> TurnResult {
    let usage = TokenUsage { input: 2000, output: 200, cache_creation: 20, cache_read: 2 };
    let share = ModelUsage { usage, ..ModelUsage::default() };
    TurnResult {
        by_model: IndexMap::from_iter([("wood".to_owned(), share)]),
        cost_usd: Some(0.5),
        ..TurnResult::bare(TurnOutcome::Completed)
    }
}

fn questions() -> Vec<Question> {
    let choice = |label: &str| Choice { label: label.into(), description: None };
    let question = |text: &str, choices| Question {
        question: text.into(),
        header: None,
        choices,
        multiple: false,
        free_text: true,
        secret: false,
    };
    let described = Choice { label: "North".into(), description: Some("where it is cold".into()) };
    vec![question("Where to?", vec![described, choice("South")]), question("How?", vec![])]
}
