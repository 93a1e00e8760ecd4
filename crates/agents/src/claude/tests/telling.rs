//! What the CLI reports about itself and its work, field by field.

use portolan_core::{
    Event,
    capabilities::{CommandInfo, ModelInfo, NativeProtocol},
    event::{Account, AgentInfo, Content, ErrorKind, ItemKind, McpServer, ToolOutcome},
    ports::Report,
};
use serde_json::{Value, json};

use super::{Player, events, latest, output_of, ready, said, written};
use crate::{
    claude::{Way, translate::Translate},
    driver::{Output, Translator as _},
};

/// What the session knows about its agent after all this.
fn known(outs: &[Output]) -> AgentInfo {
    let mut known = AgentInfo::default();
    for event in outs.iter().flat_map(events) {
        if let Event::AgentInfo { info } = event {
            known.merge((**info).clone());
        }
    }
    known
}

fn init() -> Value {
    json!({
        "type": "system", "subtype": "init", "uuid": "u", "session_id": "5c6d", "claude_code_version": "2.1.325",
        "cwd": "/workspace", "model": "claude-opus-5-5", "permissionMode": "plan", "tools": ["Task", "Bash"],
        "mcp_servers": [{ "name": "demo", "status": "connected" }], "slash_commands": ["compact", "context"],
        "agents": ["Explore"], "skills": ["debug"], "plugins": [{ "name": "p" }], "output_style": "default",
        "apiKeySource": "ANTHROPIC_API_KEY", "fast_mode_state": "off", "capabilities": ["interrupts"],
    })
}

/// Starts the translator, and answers the first message with this.
fn begun(answer: Value) -> (Translate, Output) {
    let mut translate = latest();
    let out = output_of(|out| translate.start(out));
    let id = written(&out)[0]["request_id"].clone();
    let response = json!({ "subtype": "success", "request_id": id, "response": answer });
    let out = said(&mut translate, &json!({ "type": "control_response", "response": response }));
    (translate, out)
}

// covers: 000-014, 003-126, 004-010
#[test]
fn everything_in_init_is_kept() {
    let (mut translate, first) = begun(json!({}));
    let before = known(&[first]);
    let out = said(&mut translate, &init());
    let expected = AgentInfo {
        agent_session: Some("5c6d".into()),
        version: Some("2.1.325".into()),
        cwd: Some("/workspace".into()),
        model: Some("claude-opus-5-5".into()),
        mode: Some("plan".into()),
        tools: Some(vec!["Task".into(), "Bash".into()]),
        mcp_servers: Some(vec![McpServer {
            name: "demo".into(),
            status: "connected".into(),
            error: None,
            tools: vec![],
            scope: None,
        }]),
        commands: Some(
            ["compact", "context"]
                .map(|name| CommandInfo { name: name.into(), ..CommandInfo::default() })
                .to_vec(),
        ),
        subagents: Some(vec!["Explore".into()]),
        skills: Some(vec!["debug".into()]),
        plugins: Some(vec![json!({ "name": "p" })]),
        output_style: Some("default".into()),
        api_key_source: Some("ANTHROPIC_API_KEY".into()),
        fast_mode: Some("off".into()),
        features: Some(vec!["interrupts".into()]),
        ..AgentInfo::default()
    };
    assert_eq!(known(&[out]), expected);
    assert_eq!(before.agent_session, None, "the answer to the first message does not have it");
    // The report comes at every turn, and is shown if something is new.
    assert_eq!(events(&said(&mut translate, &init())), [] as [&Event; 0]);
    let mut other = init();
    other["model"] = json!("claude-haiku-4-5");
    assert_eq!(known(&[said(&mut translate, &other)]).model.as_deref(), Some("claude-haiku-4-5"));
}

fn initialized() -> Value {
    json!({
        "commands": [
            { "name": "compact", "description": "makes room", "argumentHint": "<what to keep>" },
            { "name": "context", "description": "what fills it", "argumentHint": "" },
        ],
        "models": [{ "value": "opus", "displayName": "Opus", "description": "the large one" }],
        "account": { "email": "a@example.com", "organization": "Example", "subscriptionType": "max",
            "tokenSource": "claude.ai", "apiKeySource": "none" },
        "agents": [{ "name": "Explore" }], "output_style": "default", "available_output_styles": ["default", "Concise"],
        "claude_code_version": "2.1.325", "current_permission_mode": "default", "fast_mode_state": "off",
        "capabilities": ["interrupts"],
    })
}

// covers: 004-011, 003-108, 003-112
#[test]
fn everything_in_the_first_answer_is_kept_and_init_adds_the_rest() {
    let (mut translate, first) = begun(initialized());
    let told = known(std::slice::from_ref(&first));
    let command = |name: &str, description: &str, hint: Option<&str>| CommandInfo {
        name: name.into(),
        description: description.into(),
        argument_hint: hint.map(Into::into),
    };
    let commands = vec![
        command("compact", "makes room", Some("<what to keep>")),
        command("context", "what fills it", None),
    ];
    let account = Account {
        email: Some("a@example.com".into()),
        organization: Some("Example".into()),
        subscription: Some("max".into()),
        token_source: Some("claude.ai".into()),
    };
    let models = vec![ModelInfo {
        id: "opus".into(),
        display_name: "Opus".into(),
        description: Some("the large one".into()),
    }];
    let expected = AgentInfo {
        version: Some("2.1.325".into()),
        mode: Some("default".into()),
        commands: Some(commands),
        models: Some(models),
        modes: told.modes.clone(),
        account: Some(account),
        subagents: Some(vec!["Explore".into()]),
        output_style: Some("default".into()),
        output_styles: Some(vec!["default".into(), "Concise".into()]),
        api_key_source: Some("none".into()),
        fast_mode: Some("off".into()),
        features: Some(vec!["interrupts".into()]),
        ..AgentInfo::default()
    };
    assert_eq!(told, expected);
    assert!(told.modes.is_some_and(|modes| modes.contains(&"plan".into())));
    let mut as_set = init();
    as_set["permissionMode"] = json!("default");
    let all = known(&[first, said(&mut translate, &as_set), said(&mut translate, &init())]);
    assert_eq!(all.agent_session.as_deref(), Some("5c6d"));
    assert_eq!(all.cwd.as_deref(), Some("/workspace".as_ref()));
    assert_eq!(all.tools, Some(vec!["Task".into(), "Bash".into()]));
    assert_eq!(all.mode.as_deref(), Some("plan"), "the newer word counts");
    assert_eq!(
        all.commands.map(|all| all[0].description.clone()).as_deref(),
        Some("makes room"),
        "names alone"
    );
}

// covers: 003-112
#[test]
fn without_a_login_there_is_no_account() {
    let (_, out) =
        begun(json!({ "account": { "tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY" } }));
    let told = known(&[out]);
    assert_eq!(told.account, None);
    assert_eq!(told.api_key_source.as_deref(), Some("ANTHROPIC_API_KEY"));
}

fn message(content: Value, parent: Option<&str>) -> Value {
    let message = json!({ "role": "assistant", "id": "m1", "model": "claude-x", "content": content,
        "stop_reason": "end_turn" });
    json!({ "type": "assistant", "message": message, "parent_tool_use_id": parent })
}

// covers: 000-016
#[test]
fn every_block_is_shown_and_an_unknown_kind_is_kept_as_it_is() {
    let picture =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } });
    let newer = json!({ "type": "hologram", "depth": 3 });
    let content = json!([
        { "type": "text", "text": "Hello." },
        { "type": "thinking", "thinking": "Let me see.", "signature": "s" },
        { "type": "redacted_thinking", "data": "x" },
        picture,
        newer,
        { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls" } },
    ]);
    let mut translate = ready();
    let out = said(&mut translate, &message(content, None));
    let shown: Vec<_> = events(&out)
        .into_iter()
        .filter_map(|event| match event {
            Event::Message { content, .. } => Some(content.clone()),
            _ => None,
        })
        .collect();
    let image = Content::Image { media_type: "image/png".into(), data: "AA==".into() };
    let expected = [
        Content::text("Hello."),
        Content::Thinking { text: "Let me see.".into() },
        Content::RedactedThinking,
        image.clone(),
        Content::Other { body: newer.clone() },
    ];
    assert_eq!(shown, expected.map(|content| vec![content]));
    let [.., Event::ToolCall { tool, name, input, .. }] = &events(&out)[..] else { panic!("{out:?}") };
    assert_eq!((tool.as_str(), name.as_str(), input), ("t1", "Bash", &json!({ "command": "ls" })));
    // A result is text, or blocks.
    for (content, failed, expected, ended) in [
        (json!("plain"), false, vec![Content::text("plain")], ToolOutcome::Done),
        (
            json!([{ "type": "text", "text": "block" }, picture]),
            true,
            vec![Content::text("block"), image],
            ToolOutcome::Failed,
        ),
        (json!([newer]), false, vec![Content::Other { body: newer.clone() }], ToolOutcome::Done),
    ] {
        let block =
            json!({ "type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": failed });
        let user = json!({ "type": "user", "message": { "role": "user", "content": [block] } });
        let out = said(&mut translate, &user);
        let [Event::ToolResult { tool, outcome, content, .. }] = &events(&out)[..] else { panic!("{out:?}") };
        assert_eq!((tool.as_str(), *outcome, content), ("t1", ended, &expected));
    }
}

// covers: 003-082, 003-122
#[test]
fn the_blocks_of_a_message_carry_its_id_its_model_and_whose_it_is() {
    let mut translate = ready();
    let text = || json!([{ "type": "text", "text": "One." }]);
    let call = json!([{ "type": "tool_use", "id": "t1", "name": "Agent", "input": { "prompt": "p" } }]);
    let out = [said(&mut translate, &message(text(), None)), said(&mut translate, &message(call, None))];
    let told: Vec<_> = out.iter().flat_map(events).collect();
    let [
        Event::Message { message: first, model, parent: None, stop_reason, .. },
        Event::ToolCall { message: second, .. },
        ..,
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((first.as_deref(), second.as_deref()), (Some("m1"), Some("m1")));
    assert_eq!((model.as_deref(), stop_reason.as_deref()), (Some("claude-x"), Some("end_turn")));
    let out = said(&mut translate, &message(text(), Some("t1")));
    let [Event::Message { parent, .. }] = &events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(parent.as_deref(), Some("t1"));
}

// covers: 003-082, 003-123
#[test]
fn the_stream_of_a_subagent_is_its_own() {
    let mut translate = ready();
    let stream = |event: Value| json!({ "type": "stream_event", "event": event, "parent_tool_use_id": "t1" });
    said(&mut translate, &stream(json!({ "type": "message_start", "message": { "id": "m1" } })));
    let out = said(
        &mut translate,
        &stream(
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        ),
    );
    let [Event::ItemStarted { item, kind: ItemKind::Text, parent, .. }] = &events(&out)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(parent.as_deref(), Some("t1"));
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "half" } });
    let out = said(&mut translate, &stream(delta));
    assert_eq!(events(&out), [&Event::Delta { item: item.clone(), text: "half".into() }]);
    // The finished message replaces it.
    let out =
        said(&mut translate, &message(json!([{ "type": "text", "text": "half and half" }]), Some("t1")));
    let [Event::Message { item: ends, .. }] = &events(&out)[..] else { panic!("{out:?}") };
    assert_eq!(ends, item);
}

// covers: 003-135
#[test]
fn a_failure_says_what_is_wrong_and_whether_the_session_goes_on() {
    let failures = |reports: &[Report]| -> Vec<(ErrorKind, String, bool)> {
        let failure = |report: &Report| match report {
            Report::Event { event: Event::Failure { error, recoverable }, .. } => {
                Some((error.kind, error.message.clone(), *recoverable))
            }
            _ => None,
        };
        reports.iter().filter_map(failure).collect()
    };
    // A missing conversation: the agent cannot begin.
    let player = Player::play("2.1.325-stdio", "j5-resume-unknown");
    let [(ErrorKind::Agent, message, false)] = &failures(&player.reports)[..] else {
        panic!("{:?}", player.reports)
    };
    assert!(message.starts_with("No conversation found"), "{message}");
    // A subagent whose request failed: the rest continues.
    let mut failed = message_of_failure();
    failed["parent_tool_use_id"] = json!("t1");
    let out = said(&mut ready(), &failed);
    assert_eq!(failures(&out.reports), [(ErrorKind::RateLimit, "too many requests".into(), true)]);
}

fn message_of_failure() -> Value {
    let mut failed = message(json!([{ "type": "text", "text": "too many requests" }]), None);
    failed["error"] = json!("rate_limit");
    failed
}

#[test]
fn transports_have_the_names_that_clients_know() {
    let name = |protocol: NativeProtocol| serde_json::to_value(protocol).unwrap();
    let all = [
        Way::Websocket.protocol(),
        Way::Stdio.protocol(),
        NativeProtocol::RestSse,
        NativeProtocol::JsonRpcStdio,
        NativeProtocol::Acp,
        NativeProtocol::A2a,
        NativeProtocol::Pty,
    ];
    let expected = ["ndjson-ws", "agent-sdk", "rest-sse", "json-rpc-stdio", "acp", "a2a", "pty"];
    assert_eq!(all.map(name), expected.map(Value::from));
}
