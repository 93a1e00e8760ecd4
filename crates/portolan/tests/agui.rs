//! CopilotKit's protocol behind the real daemon: with every scene of the demo agent, together with the command line,
//! from a configured origin, on its own listener, across a restart. tests/agui tests the released clients themselves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use portolan_testkit::daemon::{Home, PATIENCE, wait_for};
use serde_json::{Value, json};

/// A client of the frontend at an address.
struct Client {
    address: String,
    token: String,
}

/// An answer that is still being read.
struct Answer {
    stream: TcpStream,
    text: String,
}

impl Client {
    fn of(home: &Home) -> Self {
        let address = home.record().unwrap()["url"].as_str().unwrap().replace("http://", "");
        let token = std::fs::read_to_string(home.path().join("token")).unwrap().trim().to_owned();
        Self { address, token }
    }

    fn begin(&self, request: &str, lines: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            self.address,
            self.token,
            body.len()
        );
        for line in lines {
            head.push_str(line);
            head.push_str("\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        Answer { stream, text: String::new() }
    }

    fn json(&self, request: &str, body: &Value) -> (u16, Value) {
        let mut answer = self.begin(request, &[], &body.to_string());
        answer.read_all();
        let (head, body) = answer.text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{}", answer.text)))
    }

    fn run(&self, thread: &str, message: &str, words: &str) -> Answer {
        let body = json!({"threadId": thread, "runId": format!("run-{message}"), "tools": [], "context": [], "state": {},
                          "forwardedProps": {}, "messages": [{"id": message, "role": "user", "content": words}]});
        self.begin("POST /agui/agent/default/run", &[], &body.to_string())
    }

    fn connect(&self, thread: &str) -> Vec<Value> {
        let body = json!({"threadId": thread, "runId": "connect", "messages": []});
        self.begin("POST /agui/agent/default/connect", &[], &body.to_string()).events()
    }
}

impl Answer {
    /// Reads more; `false` at the end.
    fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = self.stream.read(&mut bytes).unwrap();
        // The demo's text is ASCII or arrives whole; a cut character would only make a comparison fail.
        self.text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read > 0
    }

    fn read_all(&mut self) {
        while self.more() {}
    }

    fn so_far(&self) -> Vec<Value> {
        let whole = self.text.rfind("\n\n").map_or("", |end| &self.text[..end]);
        whole
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(found) = self.so_far().into_iter().find(&fits) {
                return found;
            }
            assert!(self.more(), "it ended: {}", self.text);
        }
    }

    fn events(mut self) -> Vec<Value> {
        self.read_all();
        self.so_far()
    }
}

fn demo(more: &str) -> Home {
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&format!("[agui]\nagent = \"demo\"\n{more}\n[agents.demo.env]\nDEMO_PACE_MS = \"0\"\n"));
    home.up();
    home
}

fn texts(events: &[Value]) -> String {
    let told = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    told.map(|event| event["delta"].as_str().unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

// covers: 004-016, 004-019, 004-031, 004-069
#[test]
fn the_tool_of_the_demo_agent_is_shown_approved_and_run() {
    let home = demo("");
    let client = Client::of(&home);
    let mut run = client.run("t1", "u1", "tool, fast");
    let asked = run.until(|event| event["name"] == "tool_approval_request")["value"].clone();
    assert_eq!((&asked["toolName"], &asked["kind"]), (&json!("Bash"), &json!("permission")));
    let arguments = run.so_far().iter().filter(|event| event["type"] == "TOOL_CALL_ARGS").count();
    assert!(arguments > 1, "they stream: {}", run.text);
    // The command line sees the same request and answers first.
    let session = asked["sessionId"].as_str().unwrap();
    let number = asked["requestId"].as_str().unwrap();
    assert_eq!(home.run(["approve", session, number]).code, 0);
    let events = run.events();
    let resolved = events.iter().find(|event| event["name"] == "tool_approval_resolved").unwrap();
    assert_eq!(resolved["value"]["by"], "owner (cli)");
    assert!(kinds(&events).contains(&"TOOL_CALL_RESULT".to_owned()));
    assert_eq!(kinds(&events).last().map(String::as_str), Some("RUN_FINISHED"));
    let late = json!({"requestId": asked["requestId"], "behavior": "deny"});
    let (status, told) = client.json(&format!("POST /agui/api/sessions/{session}/tool-approval"), &late);
    assert_eq!((status, &told["error"]), (409, &json!("already_closed")));
}

// covers: 004-015, 004-017, 004-025
#[test]
fn a_thread_survives_a_restart_and_a_slow_turn_is_stopped() {
    let home = demo("");
    let client = Client::of(&home);
    assert_eq!(texts(&client.run("t1", "u1", "say fair winds").events()), "fair winds");
    let before = client.connect("t1");
    home.run(["down"]);
    home.ended();
    home.up();
    let client = Client::of(&home);
    let messages = |events: &[Value]| {
        let snapshot = events.iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").unwrap();
        snapshot["messages"].clone()
    };
    assert_eq!(messages(&client.connect("t1")), messages(&before));
    assert_eq!(messages(&before)[0], json!({"role": "user", "id": "u1", "content": "say fair winds"}));
    let mut slow = client.run("t1", "u2", "slow");
    slow.until(|event| event["type"] == "TEXT_MESSAGE_START");
    let (_, stopped) = client.json("POST /agui/agent/default/stop/t1", &json!({"runId": "run-u2"}));
    assert_eq!(stopped["stopped"], true);
    assert_eq!(kinds(&slow.events()).last().map(String::as_str), Some("RUN_FINISHED"));
}

#[test]
fn the_next_run_of_a_thread_wakes_its_sleeping_agent() {
    let home = demo("[limits]\nagents_at_once = 1\n");
    let client = Client::of(&home);
    assert_eq!(texts(&client.run("t1", "u1", "say one").events()), "one");
    assert_eq!(texts(&client.run("t2", "u2", "say two").events()), "two");
    let asleep = || {
        let list = home.json(["ls"]);
        let one = |summary: &Value| (summary["turns"].clone(), summary["asleep"] == true);
        list.as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    // The newest session is first.
    assert_eq!(asleep(), [(json!(1), false), (json!(1), true)]);
    assert_eq!(texts(&client.run("t1", "u3", "say three").events()), "three");
    assert_eq!(asleep(), [(json!(1), true), (json!(2), false)], "in the session that it had");
}

// A chat without its own thread continues in the active session.
#[test]
fn a_session_stays_active_while_its_agent_is_asleep() {
    let home = demo("[limits]\nagents_at_once = 1\n");
    let client = Client::of(&home);
    assert_eq!(texts(&client.run("active", "u1", "say one").events()), "one");
    let other = home.run(["new", "demo", "say two"]).ok().trim().to_owned();
    home.until_status(&other, "idle");
    home.run(["archive", &other]).ok();
    let list = || home.json(["ls"]).as_array().unwrap().clone();
    let [first] = &list()[..] else { panic!("{:?}", list()) };
    assert_eq!(first["asleep"], true, "{first}");
    assert_eq!(texts(&client.run("active", "u2", "say three").events()), "three");
    let [again] = &list()[..] else { panic!("another session was made: {:?}", list()) };
    assert_eq!((&again["session"], &again["turns"]), (&first["session"], &json!(2)));
}

// covers: 004-001, 004-085
#[test]
fn agui_gets_its_own_listener_if_the_configuration_sets_one() {
    let home = demo("listen = \"localhost:0\"\norigins = [\"http://localhost:5173\"]");
    let log = home.path().join("logs/daemon.log");
    let address = wait_for("its address in the log", || {
        let text = std::fs::read_to_string(&log).ok()?;
        let line = text
            .lines()
            .find(|line| line.contains("listener of its own") && line.contains("agui"))?
            .to_owned();
        let port: String =
            line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("127.0.0.1:{port}"))
    });
    let main = Client::of(&home);
    let own = Client { address, token: main.token.clone() };
    for (client, base) in [(&own, ""), (&own, "/api/copilotkit"), (&own, "/agui"), (&main, "/agui")] {
        let (status, info) = client.json(&format!("GET {base}/info"), &json!({}));
        assert_eq!(
            (status, info["agents"]["default"].is_object(), info["agents"]["demo"].is_object()),
            (200, true, true)
        );
        let body = json!({"method": "info"}).to_string();
        let mut answer = client.begin(&format!("POST {base}/"), &["Origin: http://localhost:5173"], &body);
        answer.read_all();
        assert!(
            answer.text.contains("access-control-allow-origin: http://localhost:5173"),
            "{}",
            answer.text
        );
        let mut answer = client.begin(&format!("POST {base}/"), &["Origin: http://localhost:5174"], &body);
        answer.read_all();
        assert!(answer.text.starts_with("HTTP/1.1 403"), "{}", answer.text);
    }
    let mut elsewhere = main.begin("GET /api/v1/sessions", &["Origin: http://localhost:5173"], "");
    elsewhere.read_all();
    assert!(
        elsewhere.text.starts_with("HTTP/1.1 403"),
        "the app's origin opens nothing else: {}",
        elsewhere.text
    );
    let said = json!({"method": "agent/run", "params": {"agentId": "default"},
                      "body": {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "say hi"}]}});
    assert_eq!(texts(&own.begin("POST /", &[], &said.to_string()).events()), "hi");
    let session = own.json("GET /active", &json!({})).1["activeSessionId"].clone();
    let state = main.connect("t").into_iter().find(|event| event["type"] == "STATE_SNAPSHOT").unwrap();
    assert_eq!(state["snapshot"]["sessionId"], session, "both listeners show the same threads");
    assert_eq!(home.run(["down"]).code, 0, "it closes with the daemon");
    home.configure("[agui]\nlisten = \"0.0.0.0:0\"\n");
    let refused = home.run(["up", "--no-open"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("[agui]") && refused.stderr.contains("so it needs TLS"),
        "{refused:?}"
    );
    home.configure("[agui]\norigins = [\"localhost\"]\n");
    let refused = home.run(["up", "--no-open"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not an origin"), "{refused:?}");
}
