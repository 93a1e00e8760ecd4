//! Frontend tools: a page's actions as tools that the agent can call.
//!
//! The agent reaches them through our MCP server named [`SERVER`] on the main listener: one endpoint per session, with
//! a secret that only that start of the agent has. A call waits until the page's result comes with a later run, or
//! fails with a reason. The offered tools are those that the page has mounted now.
//!
//! This folder owns the endpoint, the waiting calls (`desk`), the offer, and the registration with the agent
//! (`register`). While a page offers a tool, the session has a lent rule that allows the tool (`Registry::lend_rules`).
//! `endings` forgets pages whose sessions have ended.
//! It does not know AG-UI: runs call it. Only this folder uses rmcp.

mod desk;
mod endings;
mod offer;
mod register;
mod server;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use portolan_core::{Capabilities, Generation, Principal, Role, SessionId, TokenId, registry::Registry};
use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    desk::{Desk, NoResult},
    offer::Offer,
    server::Place,
};
pub use self::{
    offer::{LeftOut, OfferedTool, PageTool},
    server::PATH,
};
use portolan_host::door::Digest;

/// The name of the MCP server.
pub const SERVER: &str = "copilotkit-frontend";

/// The prefix that Claude Code adds to the names of its tools.
pub const PREFIX: &str = "mcp__copilotkit-frontend__";

/// How many sessions may have page tools. Each has a live agent, which costs far more than its entry here.
const PAGES: usize = 1024;

/// The limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most tools of a page.
    pub tools: usize,
    /// The most bytes of all tools: the model reads them before every answer.
    pub offer_bytes: usize,
    /// The most bytes of a result.
    pub result_bytes: usize,
    /// How long a call waits until a run takes it to the page. Pages that reload or answer another call need seconds.
    pub page: Duration,
    /// How long a page may take. Some tools ask a person.
    pub answer: Duration,
    /// How long the agent may take to get a new offer before a run continues without it.
    pub register: Duration,
    /// How long an agent may take to fetch a changed list after a notification during a turn.
    pub fetch: Duration,
    /// How long an agent may take to connect before its place is given to another connection.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tools: 128,
            offer_bytes: 256 * 1024,
            result_bytes: 256 * 1024,
            page: Duration::from_secs(30),
            answer: Duration::from_mins(10),
            register: Duration::from_secs(10),
            fetch: Duration::from_secs(2),
            connect: Duration::from_secs(30),
        }
    }
}

/// The result of a call from the page, by its id: the output, or the error.
pub type PageResult = (String, Result<String, String>);

/// The result of an offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// The tools that the agent gets, unless `unavailable` is set.
    pub tools: Vec<OfferedTool>,
    /// The tools that the agent does not get, each with its reason.
    pub left_out: Vec<LeftOut>,
    /// Why the agent has no tools, or not the newest, if so.
    pub unavailable: Option<String>,
}

/// The tools of every page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FrontendTools(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    limits: Limits,
    /// The address at which agents of this machine reach the listener, such as `http://127.0.0.1:7420`.
    base: Mutex<Option<String>>,
    pages: Mutex<HashMap<SessionId, Arc<Page>>>,
    /// For sessions without a page: no tools.
    nothing: watch::Sender<Vec<String>>,
}

/// Whether an offer has lent its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    Rules,
    Nothing,
}

/// The offer of one session's page, and its waiting calls.
#[derive(Debug)]
struct Page {
    counter: Arc<Counter>,
    place: Place,
    /// Only one offer is registered with the agent at a time.
    telling: Semaphore,
    told: Mutex<Told>,
}

/// The state that the page and the agent's connections share.
#[derive(Debug)]
struct Counter {
    limits: Limits,
    desk: Desk,
    offer: Mutex<(u64, Offer)>,
    /// The newest offer that the agent has fetched, by its number.
    fetched: watch::Sender<u64>,
}

/// What the agent knows of the server.
#[derive(Debug, Default)]
struct Told {
    /// The start of the agent that has the secret, and the digest of the secret.
    secret: Option<(Generation, Digest)>,
    /// The start of the agent that did not fetch the tools in time. No run waits for it again until it has fetched
    /// them.
    absent: Option<Generation>,
}

impl Counter {
    /// The current offer, and its number.
    fn look<T>(&self, look: impl FnOnce(u64, &Offer) -> T) -> T {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        look(offer.0, &offer.1)
    }

    /// The agent has fetched the offer with this number.
    fn has_fetched(&self, number: u64) {
        self.fetched.send_if_modified(|fetched| {
            let is_newer = number > *fetched;
            *fetched = number.max(*fetched);
            is_newer
        });
    }

    /// Replaces the offer; returns its number.
    fn put(&self, new: Offer) -> u64 {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if offer.1 != new {
            *offer = (offer.0 + 1, new);
        }
        offer.0
    }
}

impl Page {
    fn new(limits: &Limits) -> Self {
        let counter = Arc::new(Counter {
            limits: limits.clone(),
            desk: Desk::default(),
            offer: Mutex::default(),
            fetched: watch::Sender::new(0),
        });
        Self {
            place: Place::new(Arc::clone(&counter)),
            counter,
            telling: Semaphore::new(1),
            told: Mutex::default(),
        }
    }

    fn told<T>(&self, work: impl FnOnce(&mut Told) -> T) -> T {
        work(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FrontendTools {
    /// No page offers anything yet.
    pub fn new(registry: Registry, limits: Limits) -> Self {
        let nothing = watch::Sender::new(Vec::new());
        Self(Arc::new(Shared { registry, limits, base: Mutex::default(), pages: Mutex::default(), nothing }))
    }

    /// Sets the address of the listener, without a path: `http://127.0.0.1:7420`. Programs of this machine must reach
    /// it without a certificate. Until this is set, agents get no tools.
    pub fn listens_at(&self, base: impl Into<String>) {
        *self.0.base.lock().unwrap_or_else(PoisonError::into_inner) = Some(base.into());
    }

    /// Forgets the pages of sessions that have ended, until `stopping`.
    pub fn start(&self, tasks: &TaskTracker, stopping: CancellationToken) {
        tasks.spawn(endings::watch(self.clone(), stopping));
    }

    /// Offers the tools that the page has mounted now: informs the agent, if it does not have them yet. Returns when
    /// the agent has fetched the list, or when it is clear that it will not. For every run, before its prompt and
    /// before [`Self::results`]: after a result, the agent can then use the newest tools.
    pub async fn offer(&self, session: SessionId, tools: Vec<PageTool>) -> Offered {
        let (offer, left_out) = Offer::of(tools, &self.0.limits);
        let tools = offer.told();
        let page = match self.page_for(session, &offer) {
            Ok(Some(page)) => page,
            // There is no offer, and there never was one.
            Ok(None) => return Offered { tools, left_out, unavailable: None },
            Err(why) => return Offered { tools, left_out, unavailable: Some(why) },
        };
        let number = page.counter.put(offer);
        let lent = self.lend_while_kept(session, &page, &tools);
        // The agent may have ended before there was a page to forget.
        if lent == Lent::Nothing || self.forget_if_ended(session).await {
            let unavailable = Some("the agent has ended".to_owned());
            return Offered { tools, left_out, unavailable };
        }
        let told = self.tell(session, &page, number).await;
        Offered { tools, left_out, unavailable: told.err() }
    }

    /// The part of these tools for the agent of a session; nothing if the agent cannot use page tools. To call a page,
    /// an agent must accept MCP servers while it runs and send the id of each call.
    pub fn preview(&self, agent: &Capabilities, tools: &[PageTool]) -> Vec<OfferedTool> {
        if self.can_reach(agent) { Offer::of(tools.to_vec(), &self.0.limits).0.told() } else { Vec::new() }
    }

    /// Can an agent with these capabilities call the tools of a page?
    pub fn can_reach(&self, agent: &Capabilities) -> bool {
        agent.mcp_changes && self.address().is_some()
    }

    /// Does the page of a session offer a tool of this name, by the page's own name or by the agent's?
    pub fn has_tool(&self, session: SessionId, name: &str) -> bool {
        let own = name.strip_prefix(PREFIX).unwrap_or(name);
        self.page(session)
            .is_some_and(|page| page.counter.look(|_, offer| offer.has(own) || offer.has_page_name(own)))
    }

    /// The address at which agents reach the listener, with its port; `None` until [`Self::listens_at`] sets it.
    pub fn address(&self) -> Option<String> {
        self.0.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes results of the page, by the id of their call: every tool message of a run. Returns how many of them a call
    /// waited for. A result without a waiting call is kept for a call that may still come; old results change nothing.
    pub fn results(&self, session: SessionId, results: impl IntoIterator<Item = PageResult>) -> usize {
        self.page(session).map_or(0, |page| page.counter.desk.results(results, &self.0.limits))
    }

    /// The user sends a new message: calls that still wait for the page end, so that the agent can get the message.
    pub fn overtake(&self, session: SessionId) {
        if let Some(page) = self.page(session) {
            page.counter.desk.give_up(NoResult::Overtaken);
        }
    }

    /// The page's own name of its tool; `None` for other tools.
    pub fn page_name(&self, session: SessionId, name: &str) -> Option<String> {
        let name = name.strip_prefix(PREFIX)?;
        let known =
            self.page(session).and_then(|page| page.counter.look(|_, offer| offer.page_name(name).cloned()));
        Some(known.unwrap_or_else(|| name.to_owned()))
    }

    /// The calls that wait for the page and that no run has passed on. A run that has shown them all ends, so that the
    /// page runs them.
    pub fn waiting(&self, session: SessionId) -> watch::Receiver<Vec<String>> {
        self.page(session).map_or_else(|| self.0.nothing.subscribe(), |page| page.counter.desk.open())
    }

    /// The run that has shown these calls to the page has ended.
    pub fn handed_over(&self, session: SessionId, calls: &[String]) {
        if let Some(page) = self.page(session) {
            page.counter.desk.handed_over(calls);
        }
    }

    /// A page that may answer shows the waiting calls, without a run that takes them over. Returns whether any call
    /// waits.
    pub fn shown(&self, session: SessionId) -> bool {
        self.page(session).is_some_and(|page| page.counter.desk.shown())
    }

    /// Calls as an agent does.
    #[cfg(test)]
    pub(in crate::agui) async fn call(&self, session: SessionId, id: &str) -> Result<String, String> {
        let page = self.page(session).ok_or("there is no page")?;
        page.counter.desk.call(id, &self.0.limits).await.map_err(|why| why.to_string())
    }

    fn page(&self, session: SessionId) -> Option<Arc<Page>> {
        self.0.pages.lock().unwrap_or_else(PoisonError::into_inner).get(&session).cloned()
    }

    /// The session's page; a new one only if there is something to offer.
    fn page_for(&self, session: SessionId, offer: &Offer) -> Result<Option<Arc<Page>>, String> {
        if let Some(page) = self.page(session) {
            return Ok(Some(page));
        }
        if offer.tools.is_empty() {
            return Ok(None);
        }
        let mut pages = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&session) {
            return Ok(Some(Arc::clone(page)));
        }
        if pages.len() >= PAGES {
            return Err(format!("{PAGES} sessions have pages with tools already"));
        }
        let page = Arc::new(Page::new(&self.0.limits));
        pages.insert(session, Arc::clone(&page));
        Ok(Some(page))
    }

    fn forget(&self, session: SessionId) {
        let mut pages = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(page) = pages.remove(&session) else { return };
        // Still under the lock: an offer that comes at the same moment lends before this, or finds no page.
        self.lend(session, &[]);
        drop(pages);
        page.counter.desk.give_up(NoResult::TurnEnded);
    }

    /// Lends the rules for these tools, unless the page has been forgotten meanwhile: nobody would take them back.
    fn lend_while_kept(&self, session: SessionId, page: &Arc<Page>, tools: &[OfferedTool]) -> Lent {
        let pages = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if !pages.get(&session).is_some_and(|kept| Arc::ptr_eq(kept, page)) {
            return Lent::Nothing;
        }
        self.lend(session, tools);
        Lent::Rules
    }

    /// The page offers these tools, and itself refuses a call that it does not want: nobody else is asked.
    fn lend(&self, session: SessionId, tools: &[OfferedTool]) {
        let names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
        self.0.registry.lend_rules(&own(), session, "the page offers this tool", &names);
    }
}

/// The identity that registers page tools with agents, and lends the rules that allow them. Only owners may set MCP servers; this sets
/// only our server, in addition to the others, for every client that may prompt.
fn own() -> Principal {
    Principal {
        // A constant that fits.
        token: "page-tools".parse().unwrap_or_else(|_| TokenId::random()),
        name: "page tools".into(),
        role: Role::Owner,
        sessions: None,
        via: "agui".into(),
    }
}
