//! Past conversations of agents over ACP: a small agent in a shell script that lists and loads, and others that hang,
//! flood or have no end. Nothing of them is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use std::{fs, path::Path, sync::Arc, time::Duration};

use portolan_agents::{
    Supervision,
    acp::{Acp, Config},
    sweep,
};
use portolan_core::{
    Event,
    event::plain_text,
    ports::{Agent as _, Past, PastError, PastPiece, PastQuery, PastSession},
};

use self::support::supervision;

/// How an agent answers, and the rest of the script.
const HEAD: &str = r#"
say() { printf '%s\n' "$1"; }
told() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$1"'","update":{"sessionUpdate":"'"$2"'","content":{"type":"text","text":"'"$3"'"}}}}'; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
row() { printf '{"sessionId":"%s","cwd":"%s","title":"%s","updatedAt":"2026-01-0%sT00:00:00Z"}' "$1" "$PWD" "$2" "$3"; }
next() { IFS= read -r line || exit 0; id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9]*\),.*/\1/p'); }
echo started >> "$PWD/starts"
"#;

const LISTS: &str = r#"answer '{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{}}}}'"#;

struct Place {
    folder: tempfile::TempDir,
    supervision: Supervision,
    agent: Acp,
}

/// An agent that does this once it is started. Its home is the folder, so it works there.
fn place(script: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sh");
    fs::write(&path, format!("{HEAD}\n{script}\n")).unwrap();
    let mut supervision = supervision();
    supervision.environment.push(("HOME".into(), folder.path().into()));
    let command = vec!["sh".into(), path.into_os_string()];
    let config = Config { kind: "harbour".into(), command, ..Config::default() };
    Place { agent: Acp::new(config, &supervision), folder, supervision }
}

impl Place {
    fn past(&self) -> Arc<dyn Past> {
        self.agent.past().expect("it can be asked")
    }

    async fn list(&self, query: PastQuery) -> Result<Vec<PastSession>, PastError> {
        tokio::time::timeout(Duration::from_secs(30), self.past().list(query)).await.expect("it is bounded")
    }

    async fn read(&self, past: &str) -> (Vec<Event>, PastPiece) {
        let mut pieces = self.past().read(past.to_owned());
        let mut events = vec![];
        loop {
            let piece = tokio::time::timeout(Duration::from_secs(30), pieces.recv()).await;
            match piece.expect("it is bounded").expect("the last piece says so") {
                PastPiece::Entry(entry) => events.push(entry.event),
                last => return (events, last),
            }
        }
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.folder.path().join("starts")).unwrap_or_default().lines().count()
    }

    /// Checks that nothing of it runs any more.
    async fn is_gone(&self) {
        let key = self.supervision.home_key.clone();
        let left = tokio::task::spawn_blocking(move || sweep(&key)).await.unwrap();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

fn query() -> PastQuery {
    PastQuery { limit: 100, ..PastQuery::default() }
}

fn ids(listed: &[PastSession]) -> Vec<&str> {
    listed.iter().map(|row| row.past.as_str()).collect()
}

/// Lists two pages and loads the listed conversations; sends its own request meanwhile.
const HARBOUR: &str = r#"
while next; do
  case "$line" in
    *'"method":"initialize"'*)
      say 'a banner that nobody asked for'
      say '{"jsonrpc":"2.0","id":"mine","method":"fs/read_text_file","params":{}}'
      LISTS ;;
    *'"cursor":"more"'*) answer '{"sessions":['"$(row c-old 'the sail' 1)"',"no row",{"title":"without a name"}]}' ;;
    *'"method":"session/list"'*)
      answer '{"sessions":['"$(row c-mast 'the mast' 2),$(row c-new 'the keel' 3)"'],"nextCursor":"more"}' ;;
    *'"method":"session/load"'*'"sessionId":"c-mast"'*)
      told c-mast user_message_chunk 'how is the '; told c-mast user_message_chunk 'mast?'
      told elsewhere agent_message_chunk 'not here'
      told c-mast agent_message_chunk 'It leans.'
      answer '{}'
      told c-mast agent_message_chunk ' And that late.' ;;
    *'"method":"session/load"'*) say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32002,"message":"Session not found"}}' ;;
  esac
done
"#;

fn harbour() -> Place {
    place(&HARBOUR.replace("LISTS", LISTS))
}

#[tokio::test]
async fn conversations_are_listed_over_all_pages_and_read_with_their_messages() {
    let place = harbour();
    let listed = place.list(query()).await.unwrap();
    assert_eq!(ids(&listed), ["c-new", "c-mast", "c-old"]);
    let folder = place.folder.path().canonicalize().unwrap();
    assert_eq!((listed[1].title.as_str(), listed[1].cwd.as_deref()), ("the mast", Some(folder.as_path())));
    let newest = place.list(PastQuery { limit: 1, ..query() }).await.unwrap();
    assert_eq!(ids(&newest), ["c-new"]);
    let elsewhere = place.list(PastQuery { below: vec!["/nowhere".into()], ..query() }).await.unwrap();
    assert_eq!(elsewhere, []);

    let (events, last) = place.read("c-mast").await;
    assert_eq!(last, PastPiece::End);
    let words: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Prompt { content, .. } => format!("> {}", plain_text(content)),
            Event::Message { content, .. } => plain_text(content),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["> how is the mast?", "It leans. And that late."]);
    for (unknown, why) in [("c-none", "has no conversation"), ("c-old", "Session not found")] {
        let (_, last) = place.read(unknown).await;
        assert!(
            matches!(&last, PastPiece::Failed(PastError::NotFound(told)) if told.contains(why)),
            "{last:?}"
        );
    }
    place.is_gone().await;
}

#[tokio::test]
async fn an_agent_that_offers_no_list_is_asked_once() {
    let place =
        place(r#"next; answer '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'; next"#);
    let told = place.list(query()).await;
    assert!(matches!(&told, Err(PastError::NotOffered(why)) if why.contains("harbour")), "{told:?}");
    assert!(place.agent.past().is_none(), "it is known now");
    assert_eq!(place.starts(), 1);
    place.is_gone().await;
}

#[tokio::test]
async fn a_missing_agent_has_no_past() {
    let config =
        Config { kind: "harbour".into(), command: vec!["no-such-harbour".into()], ..Config::default() };
    assert!(Acp::new(config, &supervision()).past().is_none());
}

#[tokio::test]
async fn an_endless_list_is_cut_and_a_repeated_one_is_shown_once() {
    let again = place(&format!(
        r#"next; {LISTS}; while next; do answer '{{"sessions":['"$(row c-one 'one' 1)"'],"nextCursor":"again"}}'; done"#
    ));
    assert_eq!(ids(&again.list(query()).await.unwrap()), ["c-one"]);
    again.is_gone().await;
    let endless = place(&format!(
        r#"next; {LISTS}; n=0; while next; do n=$((n + 1)); answer '{{"sessions":['"$(row c-$n 'one' 1)"'],"nextCursor":"'$n'"}}'; done"#
    ));
    assert_eq!(
        endless.list(PastQuery { limit: 1000, ..query() }).await.unwrap().len(),
        100,
        "as many as pages"
    );
    endless.is_gone().await;
}

#[tokio::test]
async fn a_list_that_nobody_waits_for_leaves_nothing_behind() {
    // It has a child, and neither ends by itself.
    let place = place("sleep 600 & wait");
    let asks = tokio::spawn(place.past().list(query()));
    let folder = place.folder.path().canonicalize().unwrap();
    let running = || {
        let here = |pid: &Path| fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == folder);
        fs::read_dir("/proc").unwrap().flatten().filter(|entry| here(&entry.path())).count()
    };
    support::eventually("the agent and what it started run", || running() == 2).await;
    asks.abort();
    support::eventually("both are gone", || running() == 0).await;
}

#[tokio::test]
async fn an_agent_that_dies_floods_or_refuses_gives_an_error_that_says_so() {
    let dies = place("next; exit 3").list(query()).await;
    assert!(matches!(&dies, Err(PastError::Unreadable(why)) if why.contains("ended before")), "{dies:?}");
    let garbage = place(&format!(
        r#"next; i=0; while [ $i -lt 1000 ]; do echo garbage; i=$((i + 1)); done; {LISTS}; next; answer '{{"sessions":7}}'; next"#
    ));
    assert_eq!(garbage.list(query()).await, Ok(vec![]), "what is no answer is passed over");
    let logged_out = place(&format!(
        r#"next; {LISTS}; next; say '{{"id":'"$id"',"error":{{"code":-32000,"message":"Authentication required"}}}}'; next"#
    ));
    let told = logged_out.list(query()).await;
    assert!(matches!(&told, Err(PastError::Unreadable(why)) if why.contains("not logged in")), "{told:?}");
    let other_version = place(r#"next; answer '{"protocolVersion":2}'; next"#).list(query()).await;
    assert!(matches!(other_version, Err(PastError::NotOffered(_))), "{other_version:?}");
}

#[tokio::test]
async fn an_agent_that_lists_and_cannot_load_shows_a_notice() {
    let script = format!(
        r#"next; {}; next; answer '{{"sessions":['"$(row c-one 'one' 1)"']}}'; next"#,
        LISTS.replace("true", "false")
    );
    let (events, last) = place(&script).read("c-one").await;
    assert_eq!(last, PastPiece::End);
    assert!(
        matches!(&events[..], [Event::Notice { text, .. }] if text.contains("does not show the messages")),
        "{events:?}"
    );
}

/// As Qwen does: it lists the folder in the request.
#[tokio::test]
async fn an_agent_that_lists_one_folder_is_asked_about_all_known_folders() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("agent.sh");
    let body = format!(
        r#"{HEAD} next; {LISTS}; while next; do
            asked=$(printf '%s' "$line" | sed -n 's/.*"cwd":"\([^"]*\)".*/\1/p')
            answer '{{"sessions":[{{"sessionId":"c-one","cwd":"'"$asked"'","title":"one"}}]}}'; done"#
    );
    fs::write(&script, body).unwrap();
    let mut supervision = supervision();
    supervision.environment.push(("HOME".into(), folder.path().into()));
    let command = vec!["sh".into(), script.into_os_string()];
    let agent = Acp::new(Config { kind: "qwen".into(), command, ..Config::default() }, &supervision);
    let past = agent.past().unwrap();
    let told = past.list(query()).await;
    let title = agent.title();
    assert_eq!(told, Err(PastError::NeedsFolder { agent: "qwen".into(), title }));
    let asked = PastQuery { below: vec!["/harbour".into()], ..query() };
    let listed = past.list(asked).await.unwrap();
    assert_eq!(listed[0].cwd.as_deref(), Some(Path::new("/harbour")));
    assert_eq!(past.list(query()).await.unwrap(), listed, "it is known now");
}
