//! Tools of a page with the real Claude Code, on both its transports: its model calls one, Portolan's MCP server gets the
//! call, the page's result goes back, and the model sees it. Here the page is a few lines of this test; tests/agui has
//! real pages.

use std::{sync::Arc, time::Duration};

use portolan_contract::{Bench, Fault, Model, Scenario, Verdict, run, scenarios, table::Column};
use portolan_core::{Action, Event, SessionId, event::plain_text, ports::Clock, request::Outcome};
use portolan_frontends::agui::tools::{FrontendTools, Limits, Offered, PageTool};
use portolan_scripted::{Call, Script, contains, text, tools};
use portolan_store::MemoryStore;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Listener, PINNED, installed, page, subject};
use portolan_host::door::{AccessCheck, Admit, Door, DoorSettings, Listening, Tickets, Tokens};

/// How long anything may take. Far longer than it should.
const PATIENCE: Duration = Duration::from_mins(1);

/// A page without a browser, and the listener through which its session's agent reaches it.
struct Page {
    tools: FrontendTools,
    session: SessionId,
    stopping: CancellationToken,
}

impl Page {
    async fn open(bench: &Bench, session: SessionId) -> Result<Self, Fault> {
        let store: Arc<MemoryStore> = Arc::new(MemoryStore::new());
        let wrong = |error: &dyn std::fmt::Display| Fault::wrong(error.to_string());
        let tokens = Tokens::open(store.clone(), Clock::system()).await.map_err(|error| wrong(&error))?;
        let tickets =
            Tickets::open(store, Clock::system(), tokens.clone()).await.map_err(|error| wrong(&error))?;
        let settings = DoorSettings {
            listen: vec!["127.0.0.1:0".parse().map_err(|error: String| wrong(&error))?],
            ..DoorSettings::default()
        };
        // A busy machine may need longer than a user should wait.
        let limits = Limits {
            page: PATIENCE,
            register: PATIENCE,
            fetch: PATIENCE,
            connect: PATIENCE,
            ..Limits::default()
        };
        let tools = FrontendTools::new(bench.registry().await?, limits);
        let checking = tools.clone();
        let access = AccessCheck::new(&settings, tokens, tickets, Clock::system())
            .and_then(|access| access.admitting(Admit::secret(move |parts| checking.check_secret(parts))));
        let access = Arc::new(access.map_err(|error| wrong(&error))?);
        let door = Door::bind(&settings).await.map_err(|error| wrong(&error))?;
        let stopping = CancellationToken::new();
        let serving = door.serve(access, tools.routes(), stopping.clone());
        for base in serving.addresses.iter().filter_map(Listening::url) {
            tools.listens_at(base);
        }
        tools.start(&TaskTracker::new(), stopping.clone());
        Ok(Self { tools, session, stopping })
    }

    async fn offer(&self, names: &[&str]) -> Result<(), Fault> {
        let offered = self.tools.offer(self.session, names.iter().map(|name| action(name)).collect()).await;
        match offered {
            Offered { left_out, unavailable: None, .. } if left_out.is_empty() => Ok(()),
            offered => Err(Fault::wrong(format!("offered: {offered:?}"))),
        }
    }

    /// Waits until the agent waits for this call, as the end of a run does.
    async fn is_asked(&self, call: &str) -> Result<(), Fault> {
        let mut waiting = self.tools.waiting(self.session);
        let asked = waiting.wait_for(|calls| calls.iter().any(|waits| waits == call));
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(_)) => {}
            other => return Err(Fault::wrong(format!("the agent did not wait for {call}: {other:?}"))),
        }
        self.tools.handed_over(self.session, &[call.to_owned()]);
        Ok(())
    }

    fn answers(&self, results: &[(&str, &str)]) -> usize {
        self.tools.results(
            self.session,
            results.iter().map(|(id, text)| ((*id).to_owned(), Ok((*text).to_owned()))),
        )
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

fn action(name: &str) -> PageTool {
    let parameters = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    PageTool { name: name.into(), description: format!("does {name} in the page"), parameters }
}

fn calls<const N: usize>(wanted: [(&str, &str, Value); N]) -> portolan_scripted::Step {
    tools(wanted.map(|(id, name, input)| Call {
        name: format!("mcp__copilotkit-frontend__{name}"),
        input,
        id: Some(id.into()),
    }))
}

static PAGE_TOOLS: Scenario = Scenario {
    name: "page-tools",
    says: "The agent's model calls the page's tools and sees the page's real results.",
    core: false,
    model: Model::Scripted,
    limit: scenarios::LIMIT,
    offered: |_, _| Ok(()),
    play: |bench| Box::pin(page_tools(bench)),
};

async fn page_tools(bench: &Bench) -> Result<(), Fault> {
    let mut session = bench.session().await?;
    session.until("the agent", |event| matches!(event, Event::AgentReady { .. }).then_some(())).await?;
    let page = Page::open(bench, session.id()).await?;
    page.offer(&["addTask", "setTitle"]).await?;

    // Two calls in one message: the page answers both at once, before the agent has made the second.
    let script = Script::new()
        .on(contains("plan my day"))
        .reply(calls([
            ("toolu_one", "addTask", json!({ "text": "rise" })),
            ("toolu_two", "setTitle", json!({})),
        ]))
        .then(text("the page said: {last_tool_result}"))
        .on(contains("what tools"))
        .reply(text("I have: {tools}"))
        .on(contains("one more"))
        .reply(calls([("toolu_three", "clear", json!({}))]))
        .then(text("then it said: {last_tool_result}"))
        .on(contains("wait for the page"))
        .reply(calls([("toolu_four", "clear", json!({}))]));
    bench.play(script);
    session.prompt("plan my day").await?;
    page.is_asked("toolu_one").await?;
    let settled = page.answers(&[("toolu_one", "1 task"), ("toolu_two", "title is set")]);
    if settled != 1 {
        return Err(Fault::wrong(format!("{settled} calls were answered; the second is not made yet")));
    }
    let said = session.completes().await?;
    if said != "the page said: title is set" {
        return Err(Fault::wrong(format!("the model saw: {said}")));
    }
    let results: Vec<String> = session
        .seen()
        .filter_map(|event| match event {
            Event::ToolResult { content, .. } => Some(plain_text(content)),
            _ => None,
        })
        .collect();
    if results != ["1 task", "title is set"] {
        return Err(Fault::wrong(format!("the results are {results:?}")));
    }
    // Nobody was asked: the page itself offered the tools.
    let by: Vec<String> = session
        .seen()
        .filter_map(|event| match event {
            Event::RequestDecided { outcome: Outcome::Answered { by, .. }, .. } => Some(by.to_string()),
            _ => None,
        })
        .collect();
    let rule = |tool: &str| format!("rule allow mcp__copilotkit-frontend__{tool}");
    if by != [rule("addTask"), rule("setTitle")] {
        return Err(Fault::wrong(format!("the permissions were given by {by:?}")));
    }

    // The page offers another set; the old one is gone.
    page.offer(&["clear"]).await?;
    let has = session.exchange("what tools are there").await?;
    if !has.contains("copilotkit-frontend__clear") {
        return Err(Fault::wrong(format!("the model was given: {has}")));
    }
    session.prompt("one more").await?;
    page.is_asked("toolu_three").await?;
    page.answers(&[("toolu_one", "1 task"), ("toolu_two", "title is set"), ("toolu_three", "all clear")]);
    let said = session.completes().await?;
    if said != "then it said: all clear" {
        return Err(Fault::wrong(format!("the model saw: {said}")));
    }

    // An interrupt ends the wait.
    session.prompt("wait for the page").await?;
    page.is_asked("toolu_four").await?;
    session.submit(Action::Interrupt).await?;
    session
        .until("the end of the turn", |event| matches!(event, Event::TurnEnded { .. }).then_some(()))
        .await?;
    let gone = async {
        while page.answers(&[("toolu_four", "too late")]) == 1 {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.map_err(|_| Fault::wrong("the call still waits"))
}

// covers: 004-020, 004-021, 004-022, 004-024, 004-127
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_calls_the_pages_tools_and_sees_the_pages_results() {
    let dial_in = Listener::listen().await.expect("a free port").dial_in;
    for (version, way) in PINNED {
        let subject = subject(installed(version).await, version, way, dial_in.clone());
        let findings = run(&subject, &[&PAGE_TOOLS], 1, |_| {}).await;
        let column = Column { title: version.into(), findings };
        let verdicts: Vec<_> = column.findings.iter().map(|finding| finding.verdict.clone()).collect();
        assert_eq!(verdicts, [Verdict::Works], "{}", page::told(&[column]));
    }
}
