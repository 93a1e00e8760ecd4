//! The protocol's own SDK as the oracle: its agent understands Portolan, and its types read what Portolan writes.

use agent_client_protocol::{
    Agent, ByteStreams, Client,
    v1::{ConnectionTo, schema},
};
use portolan_core::{
    Event,
    event::{Content, ToolOutcome, TurnOutcome},
    policy::Decision,
    ports::{Instruction, InstructionId, Order, Report},
    request::Answer,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    time::{Duration, timeout},
};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{Player, Serves, Setup, Translate, output_of, prompt, setup};
use crate::driver::{Output, Translator as _};

/// Generous: on an idle machine the awaited events come at once.
const LONG: Duration = Duration::from_mins(1);

/// What an agent of the SDK does with a prompt: it says something, asks, has Portolan run a command, and reports the
/// result.
async fn serve(
    prompt: schema::PromptRequest,
    client: ConnectionTo<Client>,
) -> agent_client_protocol::Result<schema::StopReason> {
    let session = prompt.session_id;
    let update = |update| client.send_notification(schema::SessionNotification::new(session.clone(), update));
    let words = |text: &str| schema::SessionUpdate::AgentMessageChunk(schema::ContentChunk::new(text.into()));
    update(words("May I"))?;
    update(words("?"))?;
    let fields = schema::ToolCallUpdateFields::new()
        .title("echo")
        .kind(schema::ToolKind::Execute)
        .raw_input(json!({ "command": "echo" }));
    let options = vec![
        schema::PermissionOption::new("always", "Always", schema::PermissionOptionKind::AllowAlways),
        schema::PermissionOption::new("once", "Once", schema::PermissionOptionKind::AllowOnce),
        schema::PermissionOption::new("no", "No", schema::PermissionOptionKind::RejectOnce),
    ];
    let call = schema::ToolCallUpdate::new("call", fields);
    let asked = schema::RequestPermissionRequest::new(session.clone(), call, options);
    let answer = client.send_request(asked).block_task().await?;
    let chosen = match answer.outcome {
        schema::RequestPermissionOutcome::Selected(selected) => selected.option_id.to_string(),
        _ => return Ok(schema::StopReason::Cancelled),
    };
    let wanted = schema::CreateTerminalRequest::new(session.clone(), "echo");
    let terminal = client.send_request(wanted).block_task().await?.terminal_id;
    let waited = schema::WaitForTerminalExitRequest::new(session.clone(), terminal.clone());
    let exit = client.send_request(waited).block_task().await?.exit_status;
    let said = client
        .send_request(schema::TerminalOutputRequest::new(session.clone(), terminal.clone()))
        .block_task()
        .await?;
    client.send_request(schema::ReleaseTerminalRequest::new(session.clone(), terminal)).block_task().await?;
    let missing = schema::ReadTextFileRequest::new(session.clone(), "/nowhere");
    let refused = client.send_request(missing).block_task().await.is_err();
    let fields = schema::ToolCallUpdateFields::new().status(schema::ToolCallStatus::Completed);
    update(schema::SessionUpdate::ToolCallUpdate(schema::ToolCallUpdate::new("call", fields)))?;
    update(words(&format!("{chosen} {:?} {} {refused}", exit.exit_code, said.output)))?;
    Ok(schema::StopReason::EndTurn)
}

/// An agent of the SDK, and the two ends of its pipes.
fn agent() -> (DuplexStream, Lines<BufReader<DuplexStream>>) {
    let (to_agent, input) = tokio::io::duplex(64 * 1024);
    let (output, from_agent) = tokio::io::duplex(64 * 1024);
    let agent = Agent
        .v1()
        .name("harbour")
        .on_receive_request(
            async move |asked: schema::InitializeRequest, responder, _client| {
                responder.respond(schema::InitializeResponse::new(asked.protocol_version))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: schema::NewSessionRequest, responder, _client| {
                responder.respond(schema::NewSessionResponse::new("S"))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: schema::PromptRequest, responder, client: ConnectionTo<Client>| {
                let speaks = client.clone();
                client.spawn(async move {
                    let reason = serve(asked, speaks).await?;
                    responder.respond(schema::PromptResponse::new(reason))
                })
            },
            agent_client_protocol::on_receive_request!(),
        );
    tokio::spawn(agent.connect_to(ByteStreams::new(output.compat_write(), input.compat())));
    (to_agent, BufReader::new(from_agent).lines())
}

/// A small driver.
struct Host {
    translate: Translate,
    to_agent: DuplexStream,
    from_agent: Lines<BufReader<DuplexStream>>,
    reports: Vec<Report>,
}

impl Host {
    fn start() -> Self {
        let (to_agent, from_agent) = agent();
        let serves = Serves { files: true, terminals: true };
        Self { translate: Translate::new(Setup { serves, ..setup() }), to_agent, from_agent, reports: vec![] }
    }

    async fn take(&mut self, out: Output) {
        let mut outs = vec![out];
        while let Some(out) = outs.pop() {
            assert_eq!(out.fault, None, "{:?}", self.reports);
            for write in out.writes {
                self.to_agent.write_all(write.outbound.bytes()).await.unwrap();
            }
            for task in out.tasks {
                let done = match task.method.as_str() {
                    "terminal/create" => Ok(json!({ "terminalId": "terminal-1" })),
                    "terminal/wait_for_exit" => Ok(json!({ "exitCode": 0, "signal": null })),
                    "terminal/output" => Ok(json!({ "output": "hello", "truncated": false })),
                    "terminal/release" => Ok(json!({ "output": "hello", "truncated": false })),
                    _ => {
                        let message = "No such file".to_owned();
                        Err(portolan_wire::jsonrpc::Error { code: -32002, message, data: None })
                    }
                };
                outs.push(output_of(|out| self.translate.task_done(&task.key, done, out)));
            }
            for key in out.reports.iter().filter_map(super::unasked) {
                let order = Order::Checked { key, decision: Decision::Allow };
                let instruction = Instruction { id: InstructionId::UNRECORDED, order };
                outs.push(output_of(|out| self.translate.instruct(instruction, out)));
            }
            self.reports.extend(out.reports);
        }
    }

    async fn order(&mut self, order: Order) {
        let instruction = Instruction { id: InstructionId(1), order };
        let out = output_of(|out| self.translate.instruct(instruction, out));
        self.take(out).await;
    }

    async fn until(&mut self, fits: impl Fn(&Report) -> bool) {
        while !self.reports.iter().any(&fits) {
            let line = timeout(LONG, self.from_agent.next_line()).await;
            let line =
                line.unwrap_or_else(|_| panic!("nothing more is said: {:?}", self.reports)).unwrap().unwrap();
            let out = output_of(|out| self.translate.line(&line, out));
            self.take(out).await;
        }
    }
}

// covers: 003-054, 003-055, 003-056, 003-060
#[tokio::test]
async fn an_agent_of_the_sdk_and_portolan_understand_each_other() {
    let mut host = Host::start();
    let out = output_of(|out| host.translate.start(out));
    host.take(out).await;
    host.until(|report| *report == Report::Ready).await;
    host.order(prompt("do it")).await;
    host.until(|report| matches!(report, Report::RequestOpened { .. })).await;
    let request = host.reports.iter().find_map(|report| match report {
        Report::RequestOpened { key, ask, .. } => Some((key.clone(), ask.clone())),
        _ => None,
    });
    let (key, ask) = request.unwrap();
    host.order(Order::Answer { key, ask, answer: Answer::allow() }).await;
    host.until(|report| matches!(report, Report::TurnEnded { .. })).await;
    let Some(Report::TurnEnded { result, .. }) = host.reports.last() else { panic!("{:?}", host.reports) };
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert_eq!(result.text.as_deref(), Some("once Some(0) hello true"), "the agent got all answers");
    let events = super::events_of(&host.reports);
    let said = |event: &&&Event| matches!(event, Event::Message { content, .. } if *content == [Content::text("May I?")]);
    assert!(events.iter().any(|event| said(&event)), "{events:?}");
    let done =
        events.iter().any(|event| matches!(event, Event::ToolResult { outcome: ToolOutcome::Done, .. }));
    assert!(done, "{events:?}");
}

/// Portolan's message, read by the SDK's type and written again: nothing may be missing.
fn survives<T: DeserializeOwned + Serialize>(written: &Value) {
    let read: T =
        serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{written}: {error}"));
    let again = serde_json::to_value(read).unwrap();
    assert_holds(&again, written, written);
}

fn assert_holds(again: &Value, written: &Value, whole: &Value) {
    match written {
        Value::Object(map) => {
            for (key, value) in map {
                // Empty values may be left out.
                let says = !value.is_null() && *value != json!([]) && *value != json!(false);
                if says {
                    assert!(again.get(key).is_some(), "`{key}` is lost: {whole} became {again}");
                    assert_holds(&again[key], value, whole);
                }
            }
        }
        Value::Array(list) => {
            for (place, value) in list.iter().enumerate() {
                assert_holds(&again[place], value, whole);
            }
        }
        plain => assert_eq!(again, plain, "{whole}"),
    }
}

#[test]
fn the_sdk_reads_what_portolan_writes() {
    let mut seen = std::collections::BTreeSet::new();
    for name in [
        "claude-agent-acp/permission",
        "codex-acp/permission",
        "gemini/load",
        "goose/cancel-permission",
        "qwen/resume",
    ] {
        for line in Player::play(name).writes {
            let (params, result) = (&line["params"], &line["result"]);
            match line["method"].as_str() {
                Some("initialize") => survives::<schema::InitializeRequest>(params),
                Some("session/new") => survives::<schema::NewSessionRequest>(params),
                Some("session/load") => survives::<schema::LoadSessionRequest>(params),
                Some("session/resume") => survives::<schema::ResumeSessionRequest>(params),
                Some("session/prompt") => survives::<schema::PromptRequest>(params),
                Some("session/cancel") => survives::<schema::CancelNotification>(params),
                Some("session/set_mode") => survives::<schema::SetSessionModeRequest>(params),
                Some(_) => continue,
                None if result["outcome"].is_object() => {
                    survives::<schema::RequestPermissionResponse>(result);
                }
                None => continue,
            }
            seen.insert(line["method"].as_str().unwrap_or("permission").to_owned());
        }
    }
    let expected = [
        "initialize",
        "permission",
        "session/cancel",
        "session/load",
        "session/new",
        "session/prompt",
        "session/resume",
        "session/set_mode",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    survives::<schema::SetSessionConfigOptionRequest>(
        &json!({ "sessionId": "S", "configId": "model", "value": "m" }),
    );
    survives::<schema::CreateElicitationResponse>(&json!({ "action": "accept", "content": { "name": "x" } }));
    survives::<schema::CreateElicitationResponse>(&json!({ "action": "decline" }));
    survives::<schema::TerminalOutputResponse>(
        &json!({ "output": "x", "truncated": true, "exitStatus": { "exitCode": 1, "signal": null } }),
    );
}
