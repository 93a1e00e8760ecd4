//! Agents over ACP behind the real daemon, from the command line: an agent that only the configuration knows, and an
//! ACP adapter that replaces a missing agent. The agent is a script; real agents run the contract suite.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;

use portolan_testkit::daemon::{Home, wait_for};
use serde_json::{Value, json};

/// Answers the requests of every client; asks for a login if the prompt says so, and keeps one conversation.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
told() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$1"'","update":{"sessionUpdate":"'"$2"'","content":{"type":"text","text":"'"$3"'"}}}}'; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":1,"authMethods":[{"id":"key","name":"A key"}],"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{}}}}' ;;
    *'"method":"session/new"'*) answer '{"sessionId":"S"}' ;;
    *'"method":"session/list"'*) answer '{"sessions":[{"sessionId":"kept-1","cwd":"FOLDER","title":"the mast","updatedAt":"2026-01-02T00:00:00Z"}]}' ;;
    *'"method":"session/load"'*) told kept-1 user_message_chunk 'how is the mast?'; told kept-1 agent_message_chunk 'It leans.'; answer '{}' ;;
    *'"method":"session/prompt"'*'log in'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32000,"message":"Authentication required"}}' ;;
    *'"method":"session/prompt"'*'"sessionId":"kept-1"'*) told kept-1 agent_message_chunk 'It still leans.'; answer '{"stopReason":"end_turn"}' ;;
    *'"method":"session/prompt"'*) told S agent_message_chunk 'Here.'; answer '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

struct Place {
    home: Home,
    folder: tempfile::TempDir,
}

/// A home with this configuration, in which `SCRIPT` is the agent.
fn place(configuration: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let script = path.join("agent.sh");
    fs::write(&script, AGENT.replace("FOLDER", path.to_str().unwrap())).unwrap();
    let home = Home::new(env!("CARGO_BIN_EXE_portolan"));
    home.configure(&configuration.replace("SCRIPT", script.to_str().unwrap()));
    home.up();
    Place { home, folder }
}

impl Place {
    fn events(&self, session: &str) -> Vec<Value> {
        let text = self.home.run(["--json", "show", session, "--entries"]).ok();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
    }

    /// The first event of a session that matches.
    fn event(&self, session: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, || self.events(session).into_iter().find(&fits))
    }

    fn new_session(&self, agent: &str, prompt: &str) -> String {
        let cwd = self.folder.path().to_str().unwrap();
        self.home.run(["new", agent, prompt, "--cwd", cwd]).ok().trim().to_owned()
    }
}

// covers: 003-017
#[test]
fn an_agent_needs_only_a_command_in_the_configuration() {
    let place = place("[agents.harbour]\ncommand = [\"sh\", \"SCRIPT\"]\n");
    let looked = place.home.json(["doctor", "harbour"]);
    assert_eq!(looked[0]["probe"]["transport"]["name"], "acp", "{looked}");
    let session = place.new_session("harbour", "hello");
    let said = place.event(&session, "its words", |event| event["type"] == "message");
    assert_eq!(said["content"][0]["text"], "Here.");
    // Every client sees the ways to log in.
    assert_eq!(place.home.run(["send", &session, "log in"]).code, 0);
    let login = place.event(&session, "the ways to log in", |event| event["type"] == "auth_status");
    assert_eq!(login["output"], json!(["A key (`key`)"]));
    let failed = place.event(&session, "the end of the turn", |event| {
        event["type"] == "turn_ended" && event["result"]["outcome"] == "failed"
    });
    assert_eq!(failed["result"]["error"]["kind"], "auth");

    let cwd = place.folder.path().canonicalize().unwrap();
    let kept = json!({ "agent": "harbour", "past": "kept-1", "title": "the mast", "cwd": cwd,
        "updated_at": 1_767_312_000_000_u64 });
    // Other installed agents may have past conversations in other folders.
    assert_eq!(place.home.json(["past", "--cwd", cwd.to_str().unwrap()]), json!([kept]));
    assert_eq!(place.home.json(["past", "harbour"]), json!([kept]));
    let taken = place.home.run(["past", "resume", "kept-1"]).ok().trim().to_owned();
    let again = place.home.run(["send", &taken, "--wait", "and now?"]);
    assert!(again.code == 0 && again.stdout.contains("It still leans."), "{again:?}");
    let words: Vec<Value> = place
        .events(&taken)
        .iter()
        .filter(|event| event["type"] == "prompt" || event["type"] == "message")
        .map(|event| event["content"][0]["text"].clone())
        .collect();
    assert_eq!(words, ["how is the mast?", "It leans.", "and now?", "It still leans."]);
    assert_eq!(place.home.run(["down"]).code, 0);
}

#[test]
fn a_missing_agent_is_replaced_by_its_acp_adapter_and_doctor_and_the_session_say_so() {
    let place = place(
        "[agents.claude]\ncommand = [\"no-such-claude\"]\n[agents.claude-agent-acp]\ncommand = [\"sh\", \"SCRIPT\"]\n",
    );
    let looked = place.home.json(["doctor", "claude"]);
    let transport = &looked[0]["probe"]["transport"];
    assert_eq!(transport["name"], "acp, by claude-agent-acp", "{looked}");
    assert!(transport["why"].as_str().unwrap().contains("no-such-claude"), "{looked}");
    let session = place.new_session("claude", "hello");
    let notice = place.event(&session, "why this transport", |event| event["type"] == "notice");
    let text = notice["text"].as_str().unwrap();
    assert!(text.contains("no-such-claude") && text.contains("uses ACP instead"), "{text}");
    let said = place.event(&session, "its words", |event| event["type"] == "message");
    assert_eq!(said["content"][0]["text"], "Here.");
    assert_eq!(place.home.run(["down"]).code, 0);
}
