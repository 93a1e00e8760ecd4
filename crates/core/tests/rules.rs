//! Rules in the registry: who may make them, what they answer, and what a restart leaves of them.

#![expect(clippy::expect_used, reason = "a test says what it expects by failing")]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use common::World;
use portolan_core::{
    Action, Actor, Capabilities, CommandId, Event, Millis, RefusalCode, Role, Seq, SessionId, SessionSpec,
    access::PolicySource,
    event::AgentInfo,
    log::delivery::Start,
    policy::{Decision, Effect, Mode, RuleDraft, RuleScope, rule::ScopeDraft},
    ports::{Approval, Clock, Doer, Order, Report},
    registry::Trial,
    request::{Answer, Outcome},
    session::machine::Policy,
};
use portolan_store::MemoryStore;
use portolan_testkit::{
    agents::{Strings, permission},
    sessions::{owner, principal},
};
use serde_json::json;

fn draft(effect: Effect, text: &str, scope: ScopeDraft) -> RuleDraft {
    RuleDraft::new(effect, text, scope)
}

async fn ask(puppet: &Strings, key: &str, command: &str) {
    puppet.open_request(key, permission("Bash", json!({ "command": command })), None, None).await;
}

fn is_request(event: &Event) -> bool {
    matches!(event, Event::RequestOpened { .. } | Event::RequestDecided { .. })
}

/// What was decided about a request: the answer and the words for who gave it; `None` if a person is asked.
fn decided(event: Event) -> Option<(&'static str, String)> {
    let Event::RequestDecided { outcome: Outcome::Answered { answer, by }, .. } = event else { return None };
    let word = if matches!(answer, Answer::Allow { .. }) { "allow" } else { "deny" };
    Some((word, by.to_string()))
}

// covers: 002-070, 002-071, 002-072
#[tokio::test]
async fn a_rule_answers_before_anyone_is_asked_and_the_inbox_never_sees_the_request() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    for (effect, text) in [(Effect::Allow, "Bash(git *)"), (Effect::Deny, "Bash(git push --force)")] {
        let made = world
            .registry
            .add_rule(&owner(), CommandId::random(), draft(effect, text, ScopeDraft::User))
            .await;
        assert_eq!(made.expect("a rule").scope, RuleScope::User);
    }
    ask(&puppet, "1", "git status").await;
    let allowed = reader.until(is_request).await;
    assert_eq!(decided(allowed), Some(("allow", "rule allow Bash(git *)".into())));
    let told = puppet.told().await.order;
    let unchanged = matches!(&told, Order::Answer { answer, ask, .. }
        if *answer == Answer::allow() && **ask == permission("Bash", json!({ "command": "git status" })));
    assert!(unchanged, "{told:?}");
    ask(&puppet, "2", "git -C x push -f").await;
    let denied = reader.until(is_request).await;
    let Event::RequestDecided { request, outcome } = &denied else { panic!("{denied:?}") };
    let said = Answer::deny(Some("Denied by persisted rule for Bash.".into()));
    let by = Actor::policy(PolicySource::Rule, "deny Bash(git push --force)");
    assert_eq!(*outcome, Outcome::Answered { answer: said, by });
    let judgement = request.policy.as_ref().expect("a judgement");
    assert!(judgement.risk.reasons.contains(&"forces a push".to_owned()), "{judgement:?}");
    ask(&puppet, "3", "rm x").await;
    let asked = reader.until(is_request).await;
    let Event::RequestOpened { request } = &asked else { panic!("{asked:?}") };
    assert_eq!(request.suggested_rule.as_deref(), Some("Bash(rm x)"));
    let snapshot = world.registry.snapshot(&owner(), session).await.expect("a snapshot");
    assert_eq!(snapshot.state.requests.len(), 1, "only what a person is asked about waits");
}

// covers: 002-061
#[tokio::test]
async fn a_rule_says_what_it_answers_where_it_holds_until_when_and_who_made_it_when() {
    let world = World::new().await;
    let (session, _puppet) = world.session().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::fs::canonicalize(folder.path()).expect("a path");
    for (effect, text) in [(Effect::Allow, "Bash(npm *)"), (Effect::Deny, "write_*"), (Effect::Ask, "Bash")] {
        for scope in
            [ScopeDraft::User, ScopeDraft::Project { folder: path.clone() }, ScopeDraft::Session { session }]
        {
            let asked = RuleDraft {
                expires_in_seconds: Some(60),
                comment: Some("because".into()),
                ..draft(effect, text, scope.clone())
            };
            let made = world.registry.add_rule(&owner(), CommandId::random(), asked).await.expect("a rule");
            assert_eq!((made.effect, made.text.as_str()), (effect, text));
            let where_it_holds = match &made.scope {
                RuleScope::User => ScopeDraft::User,
                RuleScope::Project { folder, .. } => ScopeDraft::Project { folder: folder.clone() },
                RuleScope::Session { session } => ScopeDraft::Session { session: *session },
            };
            assert_eq!(where_it_holds, scope);
            assert!(made.made_at > Millis(0));
            assert_eq!(made.expires_at, Some(Millis(made.made_at.0 + 60_000)));
            assert_eq!(made.comment.as_deref(), Some("because"));
            assert!(matches!(&made.made_by, Actor::Person { .. }), "{:?}", made.made_by);
        }
    }
}

// covers: 002-061
#[tokio::test]
async fn operators_make_rules_for_sessions_and_owners_for_everything_else() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let operator = principal("operator", Role::Operator);
    let deny = |scope| draft(Effect::Deny, "Bash", scope);
    for scope in [ScopeDraft::User, ScopeDraft::Project { folder: "/".into() }] {
        let refused = world
            .registry
            .add_rule(&operator, CommandId::random(), deny(scope))
            .await
            .expect_err("forbidden");
        assert_eq!(refused.code, RefusalCode::Forbidden);
    }
    let made =
        world.registry.add_rule(&operator, CommandId::random(), deny(ScopeDraft::Session { session })).await;
    let made = made.expect("a rule of the session");
    assert_eq!(made.scope, RuleScope::Session { session });
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    ask(&puppet, "1", "ls").await;
    assert_eq!(decided(reader.until(is_request).await), Some(("deny", "rule deny Bash".into())));
    let remove = Action::RemoveRule { tool_name: "Bash".into(), rule: Some(made.rule) };
    world.registry.submit(&operator, session, CommandId::random(), remove).await.expect("removed");
    ask(&puppet, "2", "ls").await;
    assert_eq!(decided(reader.until(is_request).await), None, "asked again");
    let wrong = draft(Effect::Allow, "Bash(x", ScopeDraft::User);
    let refused = world.registry.add_rule(&owner(), CommandId::random(), wrong).await.expect_err("no rule");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (RefusalCode::Invalid, "`Bash(x` needs a closing `)`")
    );
}

#[tokio::test]
async fn rules_survive_a_restart_and_a_removed_rule_stays_removed() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(Arc::clone(&store), Policy::default()).await;
    let add = async |text: &str| {
        let draft = draft(Effect::Deny, text, ScopeDraft::User);
        world.registry.add_rule(&owner(), CommandId::random(), draft).await.expect("a rule")
    };
    let (kept, removed) = (add("Bash(rm)").await, add("Bash(ls)").await);
    world.registry.remove_rule(&owner(), &removed.rule).await.expect("removed");
    let again = world.registry.remove_rule(&owner(), &removed.rule).await.expect_err("gone");
    assert_eq!(again.code, RefusalCode::NotFound);
    world.registry.shutdown(std::time::Duration::ZERO).await;
    let world = World::over(store, Policy::default()).await;
    let rules = world.registry.rules(&owner(), None).await.expect("rules");
    assert_eq!(rules.iter().map(|known| &known.rule).collect::<Vec<_>>(), [&kept]);
    assert_eq!(decision(&world, "rm x", None).await, Decision::Deny);
    assert_eq!(decision(&world, "ls", None).await, Decision::Ask);
}

async fn decision(world: &World, command: &str, session: Option<SessionId>) -> Decision {
    let input = json!({ "command": command });
    let folder = std::env::temp_dir();
    let trial = Trial { tool: "Bash".into(), input, folder, mode: Mode::Default, session };
    world.registry.try_call(&owner(), trial).await.expect("a judgement").decision
}

#[tokio::test]
async fn a_rule_of_a_project_is_suspended_while_another_folder_stands_at_its_path() {
    let world = World::new().await;
    let top = tempfile::tempdir().expect("a folder");
    let shop = top.path().join("shop");
    std::fs::create_dir(&shop).expect("a folder");
    let rule = draft(Effect::Deny, "Bash", ScopeDraft::Project { folder: shop.clone() });
    world.registry.add_rule(&owner(), CommandId::random(), rule).await.expect("a rule");
    let decide = async || {
        let (tool, input, folder) = ("Bash".into(), json!({ "command": "ls" }), shop.clone());
        let trial = Trial { tool, input, folder, mode: Mode::Default, session: None };
        world.registry.try_call(&owner(), trial).await.expect("a judgement").decision
    };
    let idle = async || world.registry.rules(&owner(), None).await.expect("rules")[0].idle.clone();
    assert_eq!((decide().await, idle().await), (Decision::Deny, None));
    std::fs::rename(&shop, top.path().join("moved")).expect("moved");
    std::fs::create_dir(&shop).expect("another folder");
    assert_eq!(decide().await, Decision::Ask);
    assert_eq!(idle().await.as_deref(), Some("suspended: another folder is now at this path"));
}

#[tokio::test]
async fn a_simulation_finds_the_requests_that_a_rule_would_have_answered() {
    let world = World::new().await;
    let (session, puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    for (key, command) in [("1", "git status"), ("2", "git status -s"), ("3", "rm x")] {
        ask(&puppet, key, command).await;
        let opened = reader.until(is_request).await;
        let Event::RequestOpened { request } = opened else { panic!("{opened:?}") };
        let answer = if command.starts_with("rm") { Answer::deny(None) } else { Answer::allow() };
        let answer = Action::Answer { request: request.request, digest: None, answer, persist: None };
        world.registry.submit(&owner(), session, CommandId::random(), answer).await.expect("answered");
    }
    let simulate = async |effect, text: &str| {
        let found = world.registry.simulate(&owner(), draft(effect, text, ScopeDraft::User), None).await;
        let found = found.expect("a simulation");
        (found.requests, found.covered, found.asked, found.against)
    };
    assert_eq!(simulate(Effect::Allow, "Bash(git status *)").await, (3, 2, 2, 0));
    assert_eq!(simulate(Effect::Allow, "Bash").await, (3, 3, 3, 1));
    assert_eq!(simulate(Effect::Deny, "Bash(git)").await, (3, 2, 2, 2));
}

/// A session in this folder in which a person has allowed a command.
async fn session_with_a_request(world: &World, folder: &std::path::Path) -> SessionId {
    let spec = SessionSpec { cwd: folder.to_owned(), ..common::spec() };
    let made = world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session");
    let puppet = world.puppet().await;
    puppet.ready().await;
    let mut reader = world.attach(made.session, Start::After(Seq::ZERO)).await;
    ask(&puppet, "1", "make").await;
    let opened = reader.until(is_request).await;
    let Event::RequestOpened { request } = opened else { panic!("{opened:?}") };
    let answer =
        Action::Answer { request: request.request, digest: None, answer: Answer::allow(), persist: None };
    world.registry.submit(&owner(), made.session, CommandId::random(), answer).await.expect("answered");
    made.session
}

#[tokio::test]
async fn a_simulation_looks_only_at_requests_since_the_given_time() {
    let now = Arc::new(AtomicI64::new(1_000_000));
    let clock = Arc::clone(&now);
    let clock = Clock::new(move || Millis(clock.load(Ordering::SeqCst)));
    let world = World::at(clock, Arc::new(MemoryStore::new()), Policy::default()).await;
    let folder = tempfile::tempdir().expect("a folder");
    session_with_a_request(&world, folder.path()).await;
    now.store(2_000_000, Ordering::SeqCst);
    let later = session_with_a_request(&world, folder.path()).await;
    let simulate = async |since: Option<i64>| {
        let rule = draft(Effect::Allow, "Bash(make)", ScopeDraft::User);
        let found = world.registry.simulate(&owner(), rule, since.map(Millis)).await.expect("a simulation");
        (found.covered, found.sessions.iter().map(|found| found.session).collect::<Vec<_>>())
    };
    assert_eq!(simulate(None).await.0, 2);
    assert_eq!(simulate(Some(1_000_000)).await.0, 2);
    assert_eq!(simulate(Some(1_000_001)).await, (1, vec![later]));
    assert_eq!(simulate(Some(2_000_001)).await, (0, vec![]));
}

#[tokio::test]
async fn a_simulation_of_a_rule_for_a_project_looks_only_at_requests_in_the_project() {
    let world = World::new().await;
    let top = tempfile::tempdir().expect("a folder");
    let folders = ["shop", "shop/web", "other"].map(|name| top.path().join(name));
    let mut sessions = Vec::new();
    for folder in &folders {
        std::fs::create_dir(folder).expect("a folder");
        sessions.push(session_with_a_request(&world, folder).await);
    }
    let scope = ScopeDraft::Project { folder: folders[0].clone() };
    let rule = draft(Effect::Allow, "Bash(make)", scope);
    let found = world.registry.simulate(&owner(), rule, None).await.expect("a simulation");
    let mut covered: Vec<_> = found.sessions.iter().map(|found| found.session).collect();
    covered.sort_unstable();
    sessions.truncate(2);
    sessions.sort_unstable();
    assert_eq!((found.requests, found.covered, covered), (3, 2, sessions));
}

#[tokio::test]
async fn the_tools_that_a_session_was_created_with_count_when_its_rules_are_listed_and_tried() {
    let world = World::new().await;
    let spec = SessionSpec { allowed_tools: vec!["Bash(make)".into()], ..common::spec() };
    let made = world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session");
    let puppet = world.puppet().await;
    puppet.ready().await;
    let session = made.session;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    ask(&puppet, "1", "make").await;
    let allowed = decided(reader.until(is_request).await);
    assert_eq!(allowed, Some(("allow", "rule allow Bash(make)".into())));
    assert_eq!(decision(&world, "make", Some(session)).await, Decision::Allow);
    assert_eq!(decision(&world, "make", None).await, Decision::Ask);
    let listed = world.registry.rules(&owner(), Some(session)).await.expect("rules");
    let listed: Vec<_> = listed.iter().map(|known| (known.rule.line(), known.uses)).collect();
    assert_eq!(listed, [("allow Bash(make)".into(), 1)]);
}

/// The decision that the agent is told without anyone seeing it.
async fn checked(puppet: &mut Strings) -> (String, Decision) {
    match puppet.told().await.order {
        Order::Checked { key, decision } => (key, decision),
        other => panic!("{other:?}"),
    }
}

// covers: 002-059, 002-071
#[tokio::test]
async fn a_deny_rule_stops_a_call_that_the_agent_would_not_ask_about() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let read = |path: &str| permission("Read", json!({ "file_path": path }));
    puppet.unasked("1", read("a.txt"), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("1".into(), Decision::Allow), "no rule has an opinion");
    for (effect, text) in [(Effect::Deny, "Read(.env)"), (Effect::Ask, "Read(keys/**)")] {
        let rule = draft(effect, text, ScopeDraft::User);
        world.registry.add_rule(&owner(), CommandId::random(), rule).await.expect("a rule");
    }
    puppet.unasked("2", read("a.txt"), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("2".into(), Decision::Allow));
    // In the mode `default` a person is asked about files outside of the folder. The agent decides that by itself.
    puppet.unasked("3", read("/etc/hostname"), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("3".into(), Decision::Allow));
    puppet.unasked("4", read("keys/a"), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("4".into(), Decision::Ask));
    puppet.unasked("5", read(".env"), Doer::Agent).await;
    let denied = reader.until(is_request).await;
    assert_eq!(decided(denied), Some(("deny", "rule deny Read(.env)".into())), "only the denial is seen");
    let told = puppet.told().await.order;
    let said = Answer::deny(Some("Denied by persisted rule for Read.".into()));
    assert!(matches!(told, Order::Answer { key, answer, .. } if key == "5" && answer == said));
}

// covers: 002-059
#[tokio::test]
async fn without_any_rule_a_person_is_asked_before_the_agent_reads_credentials() {
    let world = World::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(".env"), "KEY=1").expect("a file");
    std::os::unix::fs::symlink(".env", folder.path().join("settings")).expect("a link");
    let spec = SessionSpec { cwd: folder.path().to_owned(), ..common::spec() };
    world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session");
    let mut puppet = world.puppet().await;
    puppet.ready().await;
    for (tool, input, decision) in [
        ("Read", json!({ "file_path": "a.txt" }), Decision::Allow),
        ("Read", json!({ "file_path": ".env" }), Decision::Ask),
        ("Read", json!({ "file_path": "settings" }), Decision::Ask),
        ("Bash", json!({ "command": "cat .env" }), Decision::Ask),
        ("Bash", json!({ "command": "cat a.txt" }), Decision::Allow),
        // The agent knows better which commands it asks about.
        ("Bash", json!({ "command": "cat <<<" }), Decision::Allow),
    ] {
        puppet.unasked("1", permission(tool, input.clone()), Doer::Agent).await;
        assert_eq!(checked(&mut puppet).await, ("1".into(), decision), "{tool} {input}");
    }
    let allow = draft(Effect::Allow, "Read(.env)", ScopeDraft::Project { folder: folder.path().to_owned() });
    world.registry.add_rule(&owner(), CommandId::random(), allow).await.expect("a rule");
    puppet.unasked("2", permission("Read", json!({ "file_path": ".env" })), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("2".into(), Decision::Allow), "the rule names it");
}

// covers: 002-066
#[tokio::test]
async fn in_dont_ask_a_call_that_no_rule_allows_is_denied_although_the_agent_does_not_ask() {
    let world = World::new().await;
    let spec = SessionSpec { mode: Some("ask".into()), ..common::spec() };
    let made = world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session");
    let mut puppet = world.puppet().await;
    puppet.ready().await;
    let told =
        Capabilities { mode_means: [("ask".to_owned(), Mode::DontAsk)].into(), ..common::capabilities() };
    let info = AgentInfo { capabilities: Some(Box::new(told)), ..AgentInfo::default() };
    puppet.event(Event::AgentInfo { info: Box::new(info) }).await;
    let mut reader = world.attach(made.session, Start::After(Seq::ZERO)).await;
    let read = |path: &str| permission("Read", json!({ "file_path": path }));
    puppet.unasked("1", read("a.txt"), Doer::Agent).await;
    let denied = decided(reader.until(is_request).await);
    assert_eq!(denied, Some(("deny", "mode dontAsk".into())));
    let told = puppet.told().await.order;
    let why = "no rule allows the call, and the mode dontAsk asks nobody";
    assert!(matches!(told, Order::Answer { key, answer, .. }
        if key == "1" && answer == Answer::deny(Some(why.into()))));
    let allow = draft(Effect::Allow, "Read(src/**)", ScopeDraft::User);
    world.registry.add_rule(&owner(), CommandId::random(), allow).await.expect("a rule");
    puppet.unasked("2", read("src/a.rs"), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("2".into(), Decision::Allow), "a rule allows it");
}

#[tokio::test]
async fn a_command_that_cannot_be_read_is_asked_about_if_a_rule_may_forbid_it_though_the_agent_would_not_ask()
{
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let unreadable = || permission("Bash", json!({ "command": "echo 'x" }));
    let allow = draft(Effect::Allow, "Bash(ls)", ScopeDraft::User);
    world.registry.add_rule(&owner(), CommandId::random(), allow).await.expect("a rule");
    puppet.unasked("1", unreadable(), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("1".into(), Decision::Allow), "no rule forbids anything");
    let deny = draft(Effect::Deny, "Bash(rm *)", ScopeDraft::User);
    world.registry.add_rule(&owner(), CommandId::random(), deny).await.expect("a rule");
    puppet.unasked("2", unreadable(), Doer::Agent).await;
    assert_eq!(checked(&mut puppet).await, ("2".into(), Decision::Ask));
    puppet.open_request("3", unreadable(), None, None).await;
    let asked = reader.until(is_request).await;
    let Event::RequestOpened { request } = &asked else { panic!("{asked:?}") };
    let judgement = request.policy.as_ref().expect("a judgement");
    let lines: Vec<_> = judgement.rules.iter().map(|rule| rule.line.as_str()).collect();
    assert_eq!((judgement.decision, lines), (Decision::Ask, vec!["deny Bash(rm *)"]));
}

#[tokio::test]
async fn work_that_portolan_does_for_an_agent_is_allowed_by_policy_or_opens_a_request() {
    let world = World::new().await;
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let read = |path: &str| permission("read", json!({ "path": path }));
    puppet.unasked("1", read("a.txt"), Doer::Portolan).await;
    assert_eq!(checked(&mut puppet).await, ("1".into(), Decision::Allow), "the mode allows it");
    puppet.unasked("2", read(".env"), Doer::Portolan).await;
    let asked = reader.until(is_request).await;
    let Event::RequestOpened { request } = &asked else { panic!("{asked:?}") };
    assert!(request.policy.as_ref().is_some_and(|judgement| judgement.why.contains("credentials")));
    let rule = draft(Effect::Allow, "@read(.env)", ScopeDraft::User);
    world.registry.add_rule(&owner(), CommandId::random(), rule).await.expect("a rule");
    puppet.unasked("3", read(".env"), Doer::Portolan).await;
    assert_eq!(checked(&mut puppet).await, ("3".into(), Decision::Allow), "the rule allows it");
}

/// The agent lets Portolan do something as part of an allowed call.
async fn within(
    puppet: &Strings,
    key: &str,
    call: &str,
    approval: Approval,
    ask: portolan_core::request::Ask,
) {
    let doer = Doer::Approved(approval);
    let (key, tool) = (key.to_owned(), Some(call.to_owned()));
    puppet.say(Report::Unasked { key, ask: Box::new(ask), parent: None, tool, doer, raw: None }).await;
}

// covers: 002-059, 002-071
#[tokio::test]
async fn work_within_an_approved_call_is_compared_with_rules_again() {
    let world = World::new().await;
    for (effect, text) in [(Effect::Deny, "@edit(secret.txt)"), (Effect::Ask, "@edit(ci/**)")] {
        let rule = draft(effect, text, ScopeDraft::User);
        world.registry.add_rule(&owner(), CommandId::random(), rule).await.expect("a rule");
    }
    let (session, mut puppet) = world.session().await;
    let mut reader = world.attach(session, Start::After(Seq::ZERO)).await;
    let write = |path: &str| permission("edit", json!({ "path": path }));
    // A person allows a call that names nothing, and one that names a file that a rule asks about.
    for (key, call, asked) in [("a", "t1", permission("edit", json!({}))), ("b", "t2", write("ci/a"))] {
        puppet.open_request(key, asked, None, Some(call)).await;
        let opened = reader.until(is_request).await;
        let Event::RequestOpened { request } = &opened else { panic!("{opened:?}") };
        let answer =
            Action::Answer { request: request.request, digest: None, answer: Answer::allow(), persist: None };
        world.registry.submit(&owner(), session, CommandId::random(), answer).await.expect("answered");
        assert!(matches!(puppet.told().await.order, Order::Answer { .. }));
    }
    within(&puppet, "1", "t1", Approval::Bare, write("other.txt")).await;
    assert_eq!(checked(&mut puppet).await, ("1".into(), Decision::Allow), "nobody is asked twice");
    within(&puppet, "2", "t2", Approval::Named, write("ci/a")).await;
    assert_eq!(checked(&mut puppet).await, ("2".into(), Decision::Allow), "nor about the same file");
    within(&puppet, "3", "t1", Approval::Bare, write("ci/b")).await;
    assert_eq!(decided(reader.until(is_request).await), None, "the rule asks");
    within(&puppet, "4", "t1", Approval::Bare, write("secret.txt")).await;
    let denied = decided(reader.until(is_request).await).expect("a decision");
    assert_eq!(denied, ("deny", "rule deny @edit(secret.txt)".into()));
    within(&puppet, "5", "never allowed", Approval::Named, write("other.txt")).await;
    assert_eq!(decided(reader.until(is_request).await), None, "a call that nobody allowed");
}

#[tokio::test]
async fn the_approval_of_a_mode_covers_only_what_the_mode_would_allow_anyway() {
    let world = World::new().await;
    let spec = SessionSpec { mode: Some("ask".into()), ..common::spec() };
    let made = world.registry.create(&owner(), CommandId::random(), spec).await.expect("a session");
    let mut puppet = world.puppet().await;
    puppet.ready().await;
    let mode_means = [("ask".to_owned(), Mode::BypassPermissions)].into();
    let told = Capabilities { mode_means, ..common::capabilities() };
    let info = AgentInfo { capabilities: Some(Box::new(told)), ..AgentInfo::default() };
    puppet.event(Event::AgentInfo { info: Box::new(info) }).await;
    let mut reader = world.attach(made.session, Start::After(Seq::ZERO)).await;
    puppet.open_request("a", permission("execute", json!({})), None, Some("t1")).await;
    let allowed = decided(reader.until(is_request).await).expect("a decision");
    assert_eq!(allowed.0, "allow", "the mode allows a call that names nothing");
    assert!(matches!(puppet.told().await.order, Order::Answer { .. }));
    let run = |command: &str| permission("execute", json!({ "command": command }));
    within(&puppet, "1", "t1", Approval::Bare, run("ls")).await;
    assert_eq!(checked(&mut puppet).await, ("1".into(), Decision::Allow));
    within(&puppet, "2", "t1", Approval::Bare, run("cat .env")).await;
    assert_eq!(decided(reader.until(is_request).await), None, "no mode covers a protected place");
}
