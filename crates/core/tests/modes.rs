//! Modes in which an agent asks nobody: who may use them, on every path that leads there.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::sync::Arc;

use common::{World, spec};
use portolan_core::{
    Action, Capabilities, CommandId, Event, Principal, RefusalCode, Role, Seq, SessionSpec,
    access::Bypass,
    capabilities::Asks,
    event::{AgentInfo, Level, Setting},
    log::delivery::Start,
    policy::{Effect, Mode, rule::ScopeDraft},
    ports::{Order, Report},
    request::{Answer, Ask, AskOption, Scope, Verdict},
    session::machine::Policy,
};
use portolan_store::MemoryStore;
use portolan_testkit::sessions::{owner, principal};
use serde_json::json;

fn allowing() -> Policy {
    Policy { bypass: Bypass::ForOwners, ..Policy::default() }
}

fn operator() -> Principal {
    principal("operator", Role::Operator)
}

fn with_mode(mode: &str) -> SessionSpec {
    SessionSpec { mode: Some(mode.into()), ..spec() }
}

async fn create(world: &World, who: &Principal, spec: SessionSpec) -> Result<(), RefusalCode> {
    let made = world.registry.create(who, CommandId::random(), spec).await;
    if made.is_ok() {
        world.puppet().await.ready().await;
    }
    made.map(drop).map_err(|refusal| refusal.code)
}

// covers: 002-067
#[tokio::test]
async fn only_an_owner_may_begin_a_session_in_a_mode_that_asks_nobody_and_only_if_allowed() {
    let forbidden = Err(RefusalCode::Forbidden);
    let strict = World::new().await;
    let open = World::over(Arc::new(MemoryStore::new()), allowing()).await;
    for (mode, who, when_off, when_allowed) in [
        ("ask", operator(), Ok(()), Ok(())),
        ("edit", operator(), Ok(()), Ok(())),
        ("off", operator(), forbidden, forbidden),
        ("off", owner(), forbidden, Ok(())),
        ("never heard of", operator(), forbidden, forbidden),
        ("never heard of", owner(), Ok(()), Ok(())),
    ] {
        assert_eq!(create(&strict, &who, with_mode(mode)).await, when_off, "{mode} {}", who.name);
        assert_eq!(create(&open, &who, with_mode(mode)).await, when_allowed, "{mode} {}", who.name);
    }
    let variables = SessionSpec { env: [("OFF".to_owned(), "1".to_owned())].into(), ..spec() };
    assert_eq!(create(&strict, &owner(), variables.clone()).await, forbidden);
    assert_eq!(create(&open, &owner(), variables).await, Ok(()));
}

// covers: 004-042
#[tokio::test]
async fn no_command_and_no_answer_leads_to_a_mode_that_asks_nobody_past_the_guard() {
    let plan = Ask::Plan { plan: None, input: json!({}) };
    let option = |id: &str| AskOption::new(id, "Yes, and so on", Verdict::Allow);
    let leading = |id: &str, mode: &str| AskOption { mode: Some(mode.to_owned()), ..option(id) };
    let options =
        vec![option("off"), option("ask-no-more"), leading("leave", "off"), leading("go on", "edit")];
    let permission = Ask::permission("ExitPlanMode", json!({})).with_options(options);
    let forbidden = Some(RefusalCode::Forbidden);
    for (policy, for_owner) in [(Policy::default(), forbidden), (allowing(), None)] {
        let world = World::over(Arc::new(MemoryStore::new()), policy).await;
        let (session, puppet) = world.session().await;
        let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
        let submit = async |who: &Principal, action| {
            let done = world.registry.submit(who, session, CommandId::random(), action).await;
            done.err().map(|refusal| refusal.code)
        };
        let set = |mode: &str| Action::SetMode { mode: mode.into() };
        assert_eq!(submit(&operator(), set("edit")).await, None);
        assert_eq!(submit(&operator(), set("never heard of")).await, forbidden);
        for action in [
            set("off"),
            Action::Native { body: json!({ "off": "its own word" }) },
            Action::SetEnvironment { variables: [("OFF".to_owned(), "1".to_owned())].into() },
        ] {
            assert_eq!(submit(&operator(), action.clone()).await, forbidden, "{action:?}");
            assert_eq!(submit(&owner(), action.clone()).await, for_owner, "{action:?}");
        }
        assert_eq!(submit(&owner(), Action::Native { body: json!({}) }).await, None);
        let (off, harmless) = (Some("off".to_owned()), Some("go on".to_owned()));
        for (number, (ask, mode, option)) in [
            (plan.clone(), off.clone(), None),
            (permission.clone(), None, off.clone()),
            (permission.clone(), None, Some("ask-no-more".to_owned())),
            (permission.clone(), None, Some("leave".to_owned())),
        ]
        .into_iter()
        .enumerate()
        {
            let key = number.to_string();
            let report =
                Report::RequestOpened { key, ask: Box::new(ask), parent: None, tool: None, raw: None };
            puppet.say(report).await;
            let opened = reader.until(|event| matches!(event, Event::RequestOpened { .. })).await;
            let Event::RequestOpened { request } = opened else { unreachable!("just found") };
            let answer = Answer::Allow { input: None, scope: Scope::Once, mode, option };
            let answer = Action::Answer { request: request.request, digest: None, answer, persist: None };
            assert_eq!(submit(&operator(), answer.clone()).await, forbidden);
            assert_eq!(submit(&owner(), answer).await, for_owner);
        }
        let ask = Box::new(permission.clone());
        puppet
            .say(Report::RequestOpened { key: "last".into(), ask, parent: None, tool: None, raw: None })
            .await;
        let opened = reader.until(|event| matches!(event, Event::RequestOpened { .. })).await;
        let Event::RequestOpened { request } = opened else { unreachable!("just found") };
        let answer = Answer::Allow { input: None, scope: Scope::Once, mode: None, option: harmless };
        let answer = Action::Answer { request: request.request, digest: None, answer, persist: None };
        assert_eq!(submit(&operator(), answer).await, None);
    }
}

#[tokio::test]
async fn a_copy_of_a_session_that_asks_nobody_asks_again_unless_its_maker_may_switch_that_off() {
    let world = World::over(Arc::new(MemoryStore::new()), allowing()).await;
    let made = world.registry.create(&owner(), CommandId::random(), with_mode("off")).await.unwrap();
    world.puppet().await.ready().await;
    let like = async |who: &Principal| {
        world.registry.create_like(who, CommandId::random(), made.session).await.unwrap().mode
    };
    assert_eq!(like(&operator()).await, None);
    world.puppet().await.ready().await;
    assert_eq!(like(&owner()).await.as_deref(), Some("off"));
    let fork = portolan_core::spec::ForkPoint { session: made.session, at: None };
    let fork = |mode: Option<&str>| SessionSpec {
        fork: Some(fork.clone()),
        mode: mode.map(Into::into),
        ..SessionSpec::default()
    };
    let forked = world.registry.create(&operator(), CommandId::random(), fork(None)).await;
    assert_eq!(forked.unwrap_err().code, RefusalCode::Forbidden);
    assert!(world.registry.create(&operator(), CommandId::random(), fork(Some("ask"))).await.is_ok());
}

#[tokio::test]
async fn a_session_that_asked_nobody_asks_again_once_that_is_switched_off() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(Arc::clone(&store), allowing()).await;
    let made = world.registry.create(&owner(), CommandId::random(), with_mode("off")).await.unwrap();
    let puppet = world.puppet().await;
    assert_eq!(puppet.launch.spec.mode.as_deref(), Some("off"));
    puppet.ready().await;
    world.registry.shutdown(std::time::Duration::ZERO).await;
    let later = World::over(store, Policy::default()).await;
    let mut reader = later.attach(made.session, Start::After(Seq::ZERO)).await;
    later.prompt(made.session, "go on").await;
    let mut puppet = later.puppet().await;
    assert_eq!(puppet.launch.spec.mode.as_deref(), Some("ask"));
    puppet.ready().await;
    assert!(matches!(puppet.told().await.order, Order::Prompt { .. }));
    reader.until(|event| matches!(event, Event::Prompt { .. })).await;
    let told = reader.seen.iter().find_map(|(_, event)| match event {
        Event::Notice { level: Level::Warning, text } => Some(text.as_str()),
        _ => None,
    });
    let told = told.unwrap();
    assert!(told.contains("`off`") && told.contains("switched off here"), "{told}");
    let set = Event::SettingChanged { setting: Setting::Mode { mode: "ask".into() } };
    assert!(reader.seen.iter().any(|(_, event)| *event == set));
}

fn in_mode(mode: &str) -> Event {
    Event::AgentInfo { info: Box::new(AgentInfo { mode: Some(mode.into()), ..AgentInfo::default() }) }
}

/// The agent says what its modes mean.
fn meaning(means: &[(&str, Mode)]) -> Event {
    let mode_means = means.iter().map(|(mode, means)| ((*mode).to_owned(), *means)).collect();
    let mut told = Capabilities { mode_means, ..common::capabilities() };
    told.mode_asks.insert("plan".into(), Asks::Everything);
    let info = AgentInfo { capabilities: Some(Box::new(told)), ..AgentInfo::default() };
    Event::AgentInfo { info: Box::new(info) }
}

fn command() -> Ask {
    portolan_testkit::agents::permission("Bash", json!({ "command": "make" }))
}

// covers: 002-067, 004-042
#[tokio::test]
async fn a_mode_that_the_agent_reports_never_widens_what_policy_allows() {
    let change = |mode: &str| Event::SettingChanged { setting: Setting::Mode { mode: mode.into() } };
    for report in [in_mode("off"), change("off")] {
        let world = World::over(Arc::new(MemoryStore::new()), allowing()).await;
        let (session, mut puppet) = world.session().await;
        let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
        puppet.event(meaning(&[("off", Mode::BypassPermissions)])).await;
        puppet.event(in_mode("ask")).await;
        puppet.event(report).await;
        puppet.open_request("1", command(), None, None).await;
        let opened =
            |event: &Event| matches!(event, Event::RequestOpened { .. } | Event::RequestDecided { .. });
        let asked = reader.until(opened).await;
        assert!(matches!(asked, Event::RequestOpened { .. }), "a person is asked: {asked:?}");
        let state = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state;
        assert_eq!(state.summary.mode.as_deref(), Some("ask"));
        assert_eq!(state.agent.own_mode.as_deref(), Some("off"), "it is shown");
        let warned = reader.seen.iter().find_map(|(_, event)| match event {
            Event::Notice { level: Level::Warning, text } => Some(text.clone()),
            _ => None,
        });
        let warned = warned.expect("a notice");
        assert!(
            warned.contains("`off`") && warned.contains("Portolan still decides by the mode `ask`"),
            "{warned}"
        );
        // Setting the same mode puts the agent back.
        let set = Action::SetMode { mode: "ask".into() };
        world.registry.submit(&operator(), session, CommandId::random(), set).await.expect("taken in");
        let told = puppet.told().await;
        assert_eq!(told.order, Order::SetMode("ask".into()));
        puppet.say(Report::Consumed { instruction_id: told.id, result: None }).await;
        reader.until(|event| matches!(event, Event::SettingChanged { .. })).await;
        let state = world.registry.snapshot(&owner(), session).await.expect("a snapshot").state;
        assert_eq!((state.summary.mode.as_deref(), state.agent.own_mode.as_deref()), (Some("ask"), None));
    }
}

#[tokio::test]
async fn a_deny_rule_that_cannot_stop_the_agent_in_its_own_mode_is_named() {
    let world = World::new().await;
    world.rule(Effect::Deny, "Bash(git push --force)", ScopeDraft::User).await;
    let (session, puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    puppet.event(in_mode("ask")).await;
    puppet.event(in_mode("edit")).await;
    let notice = reader.until(|event| matches!(event, Event::Notice { .. })).await;
    let Event::Notice { text, .. } = notice else { unreachable!("just found") };
    assert!(text.contains("the rule `deny Bash(git push --force)` cannot stop the agent"), "{text}");
}

#[tokio::test]
async fn a_report_that_widens_nothing_or_that_a_person_led_to_changes_the_mode() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    puppet.event(meaning(&[("plan", Mode::Plan), ("edit", Mode::AcceptEdits)])).await;
    puppet.event(in_mode("ask")).await;
    puppet.event(in_mode("plan")).await;
    let plan = Ask::Plan { plan: None, input: json!({}) };
    let mode = async || {
        let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
        (snapshot.state.summary.mode.clone(), snapshot.state.agent.own_mode.clone())
    };
    // Nobody has approved the plan yet.
    puppet.event(in_mode("ask")).await;
    puppet.open_request("1", plan, None, None).await;
    let Event::RequestOpened { request } =
        reader.until(|event| matches!(event, Event::RequestOpened { .. })).await
    else {
        unreachable!("just found")
    };
    assert_eq!(mode().await, (Some("plan".into()), Some("ask".into())));
    let answer =
        Action::Answer { request: request.request, digest: None, answer: Answer::allow(), persist: None };
    world.registry.submit(&operator(), session, CommandId::random(), answer).await.expect("answered");
    assert!(matches!(puppet.told().await.order, Order::Answer { .. }));
    puppet.event(in_mode("edit")).await;
    puppet.event(in_mode("ask")).await;
    puppet.event(Event::Activity { activity: Some("on the way".into()) }).await;
    reader.until(|event| matches!(event, Event::Activity { .. })).await;
    assert_eq!(mode().await, (Some("ask".into()), None), "as if nobody had named `edit`");
}
