//! Commands that Portolan runs for agents over ACP: the holder runs them, so they outlive the daemon too.

use super::*;

/// An agent over ACP that lets Portolan run `work.sh` as soon as the file `go` exists. It writes down what it learns of
/// the command.
const CALLER: &str = r#"
say() { printf '%s\n' "$1"; }
ask() { say '{"jsonrpc":"2.0","id":'"$1"',"method":"terminal/'"$2"'","params":{"sessionId":"S",'"$3"'}}'; }
answer() { say '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
    *'"method":"session/new"'*) answer "$id" '{"sessionId":"S"}' ;;
    *'"method":"session/prompt"'*)
      prompt=$id
      while [ ! -e go ]; do sleep 0.05; done
      ask 900 create '"command":"sh","args":["work.sh"]'
      : >asked ;;
    '{"id":900,'*)
      terminal=$(printf '%s' "$line" | sed -n 's/.*"terminalId":"\([^"]*\)".*/\1/p')
      ask 901 wait_for_exit '"terminalId":"'"$terminal"'"' ;;
    '{"id":901,'*)
      say "$line" >learnt
      ask 902 output '"terminalId":"'"$terminal"'"' ;;
    '{"id":902,'*)
      say "$line" >>learnt
      answer "$prompt" '{"stopReason":"end_turn"}' ;;
  esac
done
"#;

/// Works until the file `end` exists.
const WORK: &str = "echo begun; : >begun; while [ ! -e end ]; do sleep 0.05; done; echo done; exit 7";

/// A session of the agent, in a folder of its own.
struct Called {
    home: Home,
    work: tempfile::TempDir,
    session: String,
}

impl Called {
    fn new() -> Self {
        let (home, work) = (home(), tempfile::tempdir().unwrap());
        let script = home.path().join("agent.sh");
        fs::write(&script, CALLER).unwrap();
        fs::write(work.path().join("work.sh"), WORK).unwrap();
        home.configure(&format!(
            "[limits]\nshutdown_grace_seconds = 1\n[agents]\noutlive = true\n[agents.caller]\ncommand = [\"sh\", \"{}\"]",
            script.display()
        ));
        home.up();
        let cwd = work.path().canonicalize().unwrap();
        let session = home.run(["new", "caller", "work", "--cwd", cwd.to_str().unwrap()]);
        let session = session.ok().trim().to_owned();
        wait_for("the turn", || state(&home, &session)["turn"].is_object().then_some(()));
        Self { home, work, session }
    }

    fn make(&self, file: &str) {
        fs::write(self.work.path().join(file), "").unwrap();
    }

    fn has(&self, file: &str) -> bool {
        self.work.path().join(file).exists()
    }

    fn until(&self, file: &str) {
        wait_for(file, || self.has(file).then_some(()));
    }

    fn approve(&self) {
        let request = asked(&self.home, &self.session);
        self.home.run(["approve", &self.session, &request.to_string()]).ok();
    }

    /// What the agent has learnt of its command at the end of its turn.
    fn learnt(&self) -> (Value, Value) {
        self.home.until_status(&self.session, "idle");
        let learnt = fs::read_to_string(self.work.path().join("learnt")).unwrap();
        let results: Vec<Value> = learnt
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].clone())
            .collect();
        (results[0]["exitCode"].clone(), results[1]["output"].clone())
    }
}

#[test]
fn a_command_that_an_agent_wants_run_while_no_daemon_runs_waits_for_the_next_daemons_policy() {
    let called = Called::new();
    called.make("end");
    called.home.kill();
    called.make("go");
    called.until("asked");
    wait_for("the wish in the spool", || (called.home.json(["ps"])[0]["unrecorded"] != 0).then_some(()));
    assert!(!called.has("begun"), "nobody has decided");
    called.home.up();
    asked(&called.home, &called.session);
    assert!(!called.has("begun"), "a person decides");
    called.approve();
    assert_eq!(called.learnt(), (json!(7), json!("begun\ndone\n")));
    called.home.run(["down"]).ok();
}

#[test]
fn the_output_and_the_exit_of_a_command_arrive_that_ran_while_the_daemon_was_killed() {
    let called = Called::new();
    called.make("go");
    called.approve();
    called.until("begun");
    called.home.kill();
    called.make("end");
    called.until("learnt");
    called.home.up();
    assert_eq!(called.learnt(), (json!(7), json!("begun\ndone\n")));
    assert!(told(&called.home, &called.session).contains(&"turn \"completed\"".to_owned()));
    called.home.run(["down"]).ok();
}
