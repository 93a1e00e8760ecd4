//! The first input of a program that runs as Claude Code: `initialize`, automatically, and then the first prompt as a
//! message.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{path::Path, sync::Arc, time::Duration};

use portolan_agents::{
    Supervision,
    claude::{Claude, Config},
    dial_in::DialIn,
};
use portolan_core::{Event, event::Content};
use portolan_embed::{Portolan, Seq, SessionSpec, Settings, Start};
use serde_json::{Value, json};

/// Records every input line, answers the first line like `initialize`, and ends after the second.
const SCRIPT: &str = r#"case " $* " in *" --version "*) echo '2.1.325 (Claude Code)'; exit 0 ;; esac
case " $* " in *" --input-format "*) ;; *) exit 1 ;; esac
printf '%s\n' "$*" > "$0.arguments"
IFS= read -r first
printf '%s\n' "$first" > "$0.heard"
id=$(printf '%s' "$first" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
models='[{"value":"opus","displayName":"Opus","description":"the large one"}]'
printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"models":%s,"current_permission_mode":"default"}}}\n' \
    "$id" "$models"
IFS= read -r second
printf '%s\n' "$second" >> "$0.heard"
"#;

fn claude(script: &Path) -> Claude {
    let environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap())];
    let supervision = Supervision::new(format!("first-words-{}", std::process::id()), environment);
    let command = vec!["/bin/sh".into(), script.into()];
    Claude::new(Config { command, ..Config::default() }, Arc::new(supervision), DialIn::new())
}

// covers: 004-087, 004-090
#[tokio::test]
async fn every_session_is_initialized_automatically_and_the_first_prompt_is_the_first_message() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("claude.sh");
    std::fs::write(&script, SCRIPT).unwrap();
    let portolan = Portolan::open(Settings::in_memory(vec![Arc::new(claude(&script))])).await.unwrap();
    let prompt = vec![Content::text("good morning")];
    let spec =
        SessionSpec { agent: "claude".into(), cwd: folder.path().into(), prompt, ..SessionSpec::default() };
    let session = portolan.client("test").create(spec).await.unwrap();
    let mut entries = session.entries(Start::After(Seq::ZERO)).await.unwrap();
    let mut models = None;
    loop {
        match entries.next().await.unwrap().unwrap().event {
            Event::AgentInfo { info } => models = info.models.or(models),
            Event::AgentExited { .. } => break,
            _ => {}
        }
    }
    assert_eq!(
        models.unwrap()[0].display_name,
        "Opus",
        "the models, which only that answer contains, are known"
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let heard: Vec<Value> =
        read("claude.sh.heard").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [first, second] = &heard[..] else { panic!("{heard:#?}") };
    assert_eq!(
        (&first["type"], &first["request"]["subtype"]),
        (&json!("control_request"), &json!("initialize"))
    );
    assert_eq!((&second["type"], &second["message"]["role"]), (&json!("user"), &json!("user")));
    assert!(second["message"]["content"].to_string().contains("good morning"), "{second}");
    assert!(!read("claude.sh.arguments").contains("good morning"), "the prompt is not on the command line");
    portolan.shutdown(Duration::from_secs(5)).await;
}
