//! The translator of an agent without its driver, as another program uses it: the public interface alone.

use std::sync::Arc;

use portolan_agents::{
    Supervision,
    claude::{Claude, Config, Version},
    dial_in::DialIn,
    driver::{Output, Translator as _},
};
use portolan_core::{
    Event, Generation, SessionId, SessionSpec,
    event::Content,
    ports::{Launch, Report},
};

// covers: 004-079
#[test]
fn lines_become_events_without_a_process_a_server_or_a_clock() {
    let supervision = Arc::new(Supervision::new("test", vec![]));
    let claude = Claude::new(Config::default(), supervision, DialIn::new());
    let (session, generation) = (SessionId::new(), Generation(1));
    let spec = Arc::new(SessionSpec { agent: "claude".into(), ..SessionSpec::default() });
    let launch = Launch { session, generation, spec, resume: None };
    let mut translator = claude.translator(&launch, Some(Version(2, 1, 325)));
    let mut out = Output::default();
    translator.start(&mut out);
    let first: serde_json::Value = serde_json::from_slice(out.writes[0].outbound.bytes()).unwrap();
    assert_eq!(
        (&first["type"], &first["request"]["subtype"]),
        (&"control_request".into(), &"initialize".into())
    );

    let mut out = Output::default();
    let said = r#"{"type":"assistant","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"text","text":"hello"}]},"parent_tool_use_id":null,"session_id":"s"}"#;
    translator.line(said, &mut out);
    let texts: Vec<_> = out
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::Event { event: Event::Message { content, .. }, .. } => Some(content.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [[Content::text("hello")]]);
}
