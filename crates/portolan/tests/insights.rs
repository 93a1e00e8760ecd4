//! The insights dashboard behind the real daemon: with the demo agent, together with the command line, on its own
//! listener, and with the real Claude Code and its subagents. Offline: the model is scripted. Every message is checked
//! against the schema in the repository.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, path::Path, sync::LazyLock};

use futures_util::{SinkExt as _, StreamExt as _};
use jsonschema::Validator;
use portolan_scripted::{Script, Server, contains, text, tool};
use portolan_testkit::{
    daemon::{Home, PATIENCE, wait_for},
    npm::claude,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};

fn schema_of(name: &str) -> Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/insights.schema.json");
    let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    schema.as_object_mut().unwrap().remove("anyOf");
    schema["$ref"] = format!("#/$defs/{name}").into();
    jsonschema::validator_for(&schema).unwrap()
}

static CLIENT: LazyLock<Validator> = LazyLock::new(|| schema_of("ClientMessage"));
static SERVER: LazyLock<Validator> = LazyLock::new(|| schema_of("ServerMessage"));

fn fits(schema: &Validator, message: &Value) {
    let problems: Vec<String> = schema.iter_errors(message).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{message} does not match the schema: {problems:?}");
}

/// A dashboard.
struct Dashboard {
    socket: WebSocketStream<TcpStream>,
    /// Every type of message that came.
    seen: BTreeSet<String>,
}

impl Dashboard {
    /// The dashboard on the main listener, as the owner.
    async fn of(home: &Home) -> Self {
        let url = home.record().unwrap()["url"].as_str().unwrap().replace("http://", "ws://");
        let token = std::fs::read_to_string(home.path().join("token")).unwrap();
        Self::at(&format!("{url}/ws/insights"), Some(token.trim())).await
    }

    async fn at(url: &str, token: Option<&str>) -> Self {
        let mut request = url.into_client_request().unwrap();
        if let Some(token) = token {
            let bearer = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
        }
        let address = request.uri().authority().unwrap().to_string();
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, _) = client_async(request, stream).await.unwrap();
        Self { socket, seen: BTreeSet::new() }
    }

    async fn send(&mut self, kind: &str, payload: Value) {
        let message = json!({"type": kind, "id": uuid::Uuid::new_v4().to_string(), "payload": payload});
        fits(&CLIENT, &message);
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await.unwrap() {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    fits(&SERVER, &message);
                    self.seen.insert(message["type"].as_str().unwrap().to_owned());
                    return message;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("no message but {other:?}"),
            }
        }
    }

    /// Messages up to and including the first message of this type.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await;
            let last = message["type"] == kind;
            messages.push(message);
            if last {
                return messages;
            }
        }
    }

    async fn one(&mut self, kind: &str) -> Value {
        self.until(kind).await.pop().unwrap()["payload"].clone()
    }

    async fn create(&mut self, cwd: &Path, prompt: &str) -> String {
        let payload = json!({"prompt": prompt, "cwd": cwd, "allowed_tools": [], "permission_mode": "default",
                             "model": null});
        self.send("session.create", payload).await;
        let created = self.next().await;
        assert_eq!(created["type"], "session.created", "{created}");
        created["payload"]["session_id"].as_str().unwrap().to_owned()
    }

    async fn input(&mut self, session: &str, text: &str) {
        self.send("user.input", json!({"session_id": session, "agent_id": null, "text": text})).await;
    }

    async fn respond(&mut self, session: &str, request: &Value, approved: bool) {
        let id = &request["permission_id"];
        let payload = json!({"session_id": session, "permission_id": id, "approved": approved});
        self.send("permission.response", payload).await;
    }
}

/// The index of the first message that matches.
fn place(messages: &[Value], kind: &str, fits: impl Fn(&Value) -> bool) -> usize {
    let found = messages.iter().position(|message| message["type"] == kind && fits(&message["payload"]));
    found.unwrap_or_else(|| panic!("no such {kind} in {messages:#?}"))
}

fn with_demo(more: &str) -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&format!(
        "[insights]\nagent = \"demo\"\n{more}\n[agents.demo.env]\nDEMO_PACE_MS = \"0\"\n"
    ));
    home.up();
    home
}

// covers: 001-001, 001-008, 001-010, 001-012, 001-013, 001-015, 001-019, 001-050, 001-051, 001-052, 001-053
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_goes_both_ways_with_the_demo_agent() {
    let home = with_demo("");
    let mut dashboard = Dashboard::of(&home).await;
    // A tree of subagents.
    // Not in Portolan's own folder, in which no mode allows an edit.
    let folder = tempfile::tempdir().unwrap();
    let session = dashboard.create(folder.path(), "think about subagents, fast").await;
    let spawned = dashboard.one("agent.spawned").await;
    assert_eq!((&spawned["label"], &spawned["parent_id"]), (&json!("Main"), &json!(null)));
    dashboard.until("session.completed").await;
    dashboard.input(&session, "team, fast").await;
    let told = dashboard.until("session.completed").await;
    let task = place(&told, "agent.tool_use", |it| it["tool_name"] == "Task" && it["agent_id"] == "main");
    let id = told[task]["payload"]["tool_use_id"].clone();
    let spawned = place(&told, "agent.spawned", |it| it["agent_id"] == id && it["label"] == "Sub1");
    let below = place(&told, "agent.spawned", |it| it["parent_id"] == id && it["label"] == "Sub1.1");
    let output = place(&told, "agent.output", |it| it["agent_id"] == id && it["content_type"] == "thinking");
    let result = place(&told, "agent.tool_result", |it| it["tool_use_id"] == id && it["agent_id"] == "main");
    let completed = place(&told, "agent.completed", |it| it["agent_id"] == id);
    let order = [task, spawned, output, below, result, completed];
    assert!(order.is_sorted(), "{order:?}");
    // Permissions, allowed and denied.
    for (prompt, approved) in [("tool, fast", true), ("edit, fast", false)] {
        dashboard.input(&session, prompt).await;
        let asked = dashboard.until("permission.request").await;
        let request = asked.last().unwrap()["payload"].clone();
        place(&asked, "agent.tool_use", |it| it["tool_use_id"] == request["tool_use_id"]);
        dashboard.respond(&session, &request, approved).await;
        let after = dashboard.until("session.completed").await;
        let result = place(&after, "agent.tool_result", |it| it["tool_use_id"] == request["tool_use_id"]);
        assert_eq!(after[result]["payload"]["is_error"], !approved);
    }
    // Questions, in their order.
    dashboard.input(&session, "question, fast").await;
    for answer in ["Majorca", "Charts, A cat", "La Bella"] {
        dashboard.one("agent.question").await;
        dashboard.input(&session, answer).await;
    }
    let after = dashboard.until("session.completed").await;
    let noted = place(&after, "agent.output", |it| it["content"].as_str().unwrap().contains("Noted"));
    let noted = after[noted]["payload"]["content"].as_str().unwrap();
    for answer in ["**Majorca**", "**Charts, A cat**", "**La Bella**"] {
        assert!(noted.contains(answer), "{noted}");
    }
    // The mode: edits need no permission any more.
    let mode = json!({"session_id": session, "permission_mode": "acceptEdits"});
    dashboard.send("permission_mode.change", mode.clone()).await;
    assert_eq!(dashboard.one("permission_mode.changed").await, mode);
    dashboard.input(&session, "edit, fast").await;
    let after = dashboard.until("session.completed").await;
    assert!(after.iter().all(|message| message["type"] != "permission.request"), "{after:#?}");
    // A turn that fails, one that is interrupted, and the end.
    dashboard.input(&session, "fail, fast").await;
    let failed = dashboard.until("session.completed").await;
    place(&failed, "error", |it| it["code"] == "HANDLER_ERROR" && it["session_id"] == session.as_str());
    place(&failed, "agent.status", |it| it["status"] == "error");
    dashboard.input(&session, "slow").await;
    dashboard.one("agent.status").await;
    wait_for("a turn", || (home.json(["show", &session])["state"]["turn"] != json!(null)).then_some(()));
    dashboard.send("session.interrupt", json!({"session_id": session})).await;
    dashboard.until("session.completed").await;
    // A client that reconnects.
    let mut back = Dashboard::of(&home).await;
    back.send("session.list", json!({})).await;
    assert_eq!(back.one("session.listed").await["sessions"][0]["session_id"], session.as_str());
    back.send("session.attach", json!({"session_id": session})).await;
    assert_eq!(back.one("session.attached").await["is_running"], false);
    back.until("agent.status").await;
    assert!(back.seen.contains("agent.completed"), "{:?}", back.seen);
    back.send("session.kill", json!({"session_id": session})).await;
    wait_for("the end of its processes", || home.agents(&session).is_empty().then_some(()));
    dashboard.input(&session, "hello").await;
    assert_eq!(dashboard.one("error").await["code"], "SESSION_NOT_FOUND");
    let protocol = [
        "agent.completed",
        "agent.output",
        "agent.question",
        "agent.spawned",
        "agent.status",
        "agent.tool_result",
        "agent.tool_use",
        "error",
        "permission.request",
        "permission_mode.changed",
        "session.completed",
        "session.created",
    ];
    for kind in protocol {
        assert!(dashboard.seen.contains(kind), "no {kind} came");
    }
    assert_eq!(home.run(["down"]).code, 0);
}

// covers: 001-016, 001-039
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_on_the_command_line_closes_the_request_in_the_dashboard_and_shows_who_gave_it() {
    let home = with_demo("");
    let mut dashboard = Dashboard::of(&home).await;
    let session = dashboard.create(home.path(), "tool, fast").await;
    let request = dashboard.one("permission.request").await;
    let number = home.json(["show", &session])["state"]["requests"][0]["request"].to_string();
    assert_eq!(home.run(["approve", &session, &number]).code, 0);
    let resolved = dashboard.one("permission.resolved").await;
    assert_eq!(resolved["permission_id"], request["permission_id"]);
    assert_eq!(
        (&resolved["approved"], &resolved["reason"]),
        (&json!(true), &json!("answered by owner (cli)"))
    );
    dashboard.until("session.completed").await;
    dashboard.respond(&session, &request, false).await;
    let error = dashboard.one("error").await;
    assert_eq!(error["code"], "PERMISSION_RESPONSE_FAILED");
    assert!(error["message"].as_str().unwrap().contains("owner (cli)"), "{error}");
    // And the reverse: the command line sees who answered in the dashboard.
    dashboard.input(&session, "tool, fast").await;
    let request = dashboard.one("permission.request").await;
    dashboard.respond(&session, &request, true).await;
    dashboard.until("session.completed").await;
    // Killed while it asks: the reason why nobody has to answer any more.
    let killed = dashboard.create(home.path(), "tool, fast").await;
    let asked = dashboard.one("permission.request").await;
    dashboard.send("session.kill", json!({"session_id": killed})).await;
    let resolved = dashboard.one("permission.resolved").await;
    assert_eq!(resolved["permission_id"], asked["permission_id"]);
    assert_eq!(
        (&resolved["approved"], &resolved["reason"]),
        (&json!(null), &json!("the session was killed"))
    );
    let state = &home.json(["show", &session])["state"];
    let closed = state["closed_requests"].as_array().unwrap().last().unwrap();
    assert_eq!(closed["request"].to_string(), request["permission_id"].as_str().unwrap());
    assert_eq!(
        (&closed["outcome"]["by"]["name"], &closed["outcome"]["by"]["via"]),
        (&json!("owner"), &json!("insights"))
    );
}

// covers: 001-001, 001-002
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_gets_its_own_listener_if_the_configuration_sets_one() {
    let home = with_demo("listen = \"localhost:0\"\nallow_anonymous_loopback = true");
    let log = home.path().join("logs/daemon.log");
    let url = wait_for("its address in the log", || {
        let text = std::fs::read_to_string(&log).ok()?;
        let line = text
            .lines()
            .find(|line| line.contains("listener of its own") && line.contains("insights"))?
            .to_owned();
        let rest = line.split("127.0.0.1:").nth(1)?;
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("ws://127.0.0.1:{port}/"))
    });
    // As an old client connects: no token, no path.
    let mut dashboard = Dashboard::at(&url, None).await;
    dashboard.create(home.path(), "hello, fast").await;
    dashboard.until("session.completed").await;
    assert_eq!(home.run(["down"]).code, 0, "it closes with the daemon");
    // A listener that other machines can reach without TLS is refused, and nothing starts.
    home.configure("[insights]\nlisten = \"0.0.0.0:0\"\n");
    let refused = home.run(["up", "--no-open"]);
    assert!(refused.code != 0 && refused.stderr.contains("[insights]"), "{refused:?}");
    assert!(refused.stderr.contains("so it needs TLS"), "{refused:?}");
}

/// The newest version, which uses stdio; and the last version that dials in.
const VERSIONS: [&str; 2] = ["2.1.325", "2.1.120"];

// covers: 001-011, 001-022, 001-023, 001-025, 001-026, 001-035, 001-053, 001-060
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_claude_and_its_subagents_are_a_tree_in_the_dashboard() {
    for version in VERSIONS {
        let questions = json!({"questions": [
            {"question": "Where to?", "header": "Course", "multiSelect": false,
             "options": [{"label": "North", "description": "cold"}, {"label": "South", "description": "warm"}]},
            {"question": "What with?", "header": "Cargo", "multiSelect": true,
             "options": [{"label": "Charts", "description": "paper"}, {"label": "Biscuits", "description": "dry"}]},
        ]});
        let errand = json!({"description": "Small errand", "prompt": "run the errand",
                            "subagent_type": "general-purpose", "run_in_background": false});
        let quietly = json!({"description": "Quiet errand", "prompt": "do it quietly",
                             "subagent_type": "general-purpose", "run_in_background": true});
        let script = Script::new()
            .on(contains("run the errand"))
            .reply(tool("Bash", json!({"command": "touch from-sub.txt", "description": "a file"})))
            .then(text("The errand is done."))
            .on(contains("send someone"))
            .reply(tool("Agent", errand))
            .then(text("Someone was sent."))
            .on(contains("do it quietly"))
            .reply(text("It was done quietly."))
            .on(contains("somebody else does it"))
            .reply(tool("Agent", quietly))
            .then(text("Somebody does it."))
            .on(contains("ask me"))
            .reply(tool("AskUserQuestion", questions))
            .then(text("You said: {last_tool_result}"));
        let model = Server::start(script.otherwise(text("Noted.")).asides(text("scripted"))).await.unwrap();
        let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
        let (agent_home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let work = work.path().canonicalize().unwrap();
        let program = claude(version).program().unwrap();
        home.configure(&format!(
            "[agents.claude]\ncommand = [{}]\n[agents.claude.env]\nHOME = {}\nANTHROPIC_BASE_URL = {}\n\
             ANTHROPIC_API_KEY = \"fake\"\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\"\n\
             DISABLE_AUTOUPDATER = \"1\"\nDISABLE_TELEMETRY = \"1\"\n",
            json!(program),
            json!(agent_home.path()),
            json!(model.base_url())
        ));
        home.up();
        let mut dashboard = Dashboard::of(&home).await;
        let session = dashboard.create(&work, "send someone").await;
        let mut told = dashboard.until("permission.request").await;
        let request = told.last().unwrap()["payload"].clone();
        dashboard.respond(&session, &request, true).await;
        told.extend(dashboard.until("session.completed").await);
        let task = place(&told, "agent.tool_use", |it| it["tool_name"] == "Task" && it["agent_id"] == "main");
        let id = told[task]["payload"]["tool_use_id"].clone();
        assert_eq!(request["agent_id"], id, "{version}: the subagent asks for itself");
        let spawned = place(&told, "agent.spawned", |it| {
            it["agent_id"] == id && it["label"] == "Sub1" && it["task_description"] == "run the errand"
        });
        let tool_use = place(&told, "agent.tool_use", |it| it["agent_id"] == id && it["tool_name"] == "Bash");
        let tool_result = place(&told, "agent.tool_result", |it| it["tool_use_id"] == request["tool_use_id"]);
        let result =
            place(&told, "agent.tool_result", |it| it["tool_use_id"] == id && it["agent_id"] == "main");
        let completed = place(&told, "agent.completed", |it| it["agent_id"] == id);
        let order = [task, spawned, tool_use, tool_result, result, completed];
        assert!(order.is_sorted(), "{version}: {order:?}");
        assert!(work.join("from-sub.txt").exists());
        assert!(told[completed]["payload"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
        let total = &told.last().unwrap()["payload"]["total_usage"];
        let own = &told[completed]["payload"]["usage"];
        let tokens = |usage: &Value| usage["output_tokens"].as_u64().unwrap();
        assert!(
            tokens(total) > tokens(own) && total["cost_usd"].as_f64().unwrap() > 0.0,
            "{version}: {total}"
        );
        // The conversation continues, with two questions answered one by one.
        dashboard.input(&session, "ask me").await;
        let first = dashboard.one("agent.question").await;
        let second = dashboard.one("agent.question").await;
        assert_eq!((&first["question"], &second["question"]), (&json!("Where to?"), &json!("What with?")));
        dashboard.input(&session, "south").await;
        dashboard.input(&session, "Charts, Biscuits").await;
        let after = dashboard.until("session.completed").await;
        let said =
            place(&after, "agent.output", |it| it["content"].as_str().unwrap().starts_with("You said"));
        let said = after[said]["payload"]["content"].as_str().unwrap();
        assert!(
            said.contains("South") && said.contains("Charts") && said.contains("Biscuits"),
            "{version}: {said}"
        );
        // Its process is gone: the next input starts another process, which continues the same conversation.
        assert_eq!(home.run(["stop", &session]).code, 0);
        wait_for("the end of its processes", || home.agents(&session).is_empty().then_some(()));
        dashboard.input(&session, "still there?").await;
        let after = dashboard.until("session.completed").await;
        place(&after, "agent.output", |it| it["content"] == "Noted.");
        let asked = model.requests();
        let last = asked.iter().rfind(|asked| asked.prompt().contains("still there?")).unwrap();
        assert!(last.body.to_string().contains("send someone"), "{version}: it remembers what was said");
        // A subagent in the background: its usage is reported as far as the log has it.
        dashboard.input(&session, "somebody else does it").await;
        let quiet = dashboard.one("agent.completed").await;
        let told: u64 = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"]
            .iter()
            .map(|name| quiet["usage"][*name].as_u64().unwrap())
            .sum();
        let events = home.run(["--json", "show", &session, "--entries"]).ok();
        let mut ends =
            events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
        let end = ends.rfind(|event| event["type"] == "subagent_ended").unwrap();
        let known = end["work"]["tokens"].as_u64().unwrap();
        assert!(known > 0 && told >= known, "{version}: {told} of {known}");
        // A kill withdraws open requests, and is reported as a kill.
        dashboard.input(&session, "send someone").await;
        dashboard.one("permission.request").await;
        dashboard.send("session.kill", json!({"session_id": session})).await;
        assert_eq!(
            dashboard.one("permission.resolved").await["reason"],
            "the session was killed",
            "{version}"
        );
        wait_for("the end of its processes", || home.agents(&session).is_empty().then_some(()));
        assert_eq!(home.run(["down"]).code, 0);
        model.shutdown().await;
    }
}
