//! Frontend tools: a page's actions as tools that the agent can really call.
//!
//! The agent reaches them through an MCP server named [`SERVER`], which is ours and stands on the daemon's own listener:
//! one place per session, opened by a secret that only that start of the agent was given. A call waits until the page's
//! result comes, with a later run, and is told why where none comes. What is offered is what the page has mounted now.
//!
//! This room owns the place, the calls that wait (`desk`), the offer, and telling the agent of both (`register`); `warden`
//! answers the permission prompts for these tools, since the page has offered them for the agent to use. It knows
//! nothing of AG-UI: runs call it. rmcp stays in this folder.

mod desk;
mod offer;
mod register;
mod server;
#[cfg(test)]
mod tests;
mod warden;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indexmap::IndexMap;
use portolan_core::{
    Capabilities, Generation, Principal, RequestId, Role, Seq, SessionId, TokenId,
    registry::Registry,
    request::{Ask, Request},
};
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

/// What the MCP server is called.
pub const SERVER: &str = "copilotkit-frontend";

/// What Claude Code puts before the name of a tool of it.
pub const PREFIX: &str = "mcp__copilotkit-frontend__";

/// Sessions whose pages offer tools. Each has a live agent, which costs far more than its place here.
const PAGES: usize = 1024;

/// Requests of one session of which it is remembered whether the page's offer answers them. Far more than wait at once.
const DECIDED: usize = 1024;

/// The bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tools of a page.
    pub tools: usize,
    /// Bytes of all of them: the model reads them before every answer.
    pub offer_bytes: usize,
    /// Bytes of a result.
    pub result_bytes: usize,
    /// How long a call waits until a run takes it to the page. Pages that reload or answer another call need seconds.
    pub page: Duration,
    /// How long a page may take. Some tools ask a person.
    pub answer: Duration,
    /// How long the agent may take to hear of a new offer before a run goes on without it.
    pub register: Duration,
    /// How long an agent that was told of a changed list in the middle of a turn may take to fetch it.
    pub fetch: Duration,
    /// How long an agent that has begun to connect may take before its place is given to another.
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

/// What a page says of a call, by its id: what came of it, or why it failed.
pub type PageResult = (String, Result<String, String>);

/// What came of an offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// What the agent gets, where `unavailable` does not say otherwise.
    pub tools: Vec<OfferedTool>,
    /// Tools that the agent does not get, each with its reason.
    pub left_out: Vec<LeftOut>,
    /// Why the agent has none of them, or not the newest ones, where that is so.
    pub unavailable: Option<String>,
}

/// The tools of every page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FrontendTools(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    limits: Limits,
    /// Where agents of this machine reach the listener, such as `http://127.0.0.1:7420`.
    base: Mutex<Option<String>>,
    pages: Mutex<HashMap<SessionId, Arc<Page>>>,
    /// For sessions without a page: never anything.
    nothing: watch::Sender<Vec<String>>,
}

/// What one session's page offers, and what waits for it.
#[derive(Debug)]
struct Page {
    counter: Arc<Counter>,
    place: Place,
    /// One offer is told to the agent at a time.
    telling: Semaphore,
    told: Mutex<Told>,
    /// The session's newest entry when the page came. What was asked before is not answered by what it offers.
    since: Seq,
    /// Which requests are answered by the page's offer, as it was when each was first seen.
    decided: Mutex<IndexMap<RequestId, bool>>,
}

/// What both the page and the agent's connections come to.
#[derive(Debug)]
struct Counter {
    limits: Limits,
    desk: Desk,
    offer: Mutex<(u64, Offer)>,
    /// The newest offer that the agent has fetched, by its number.
    fetched: watch::Sender<u64>,
}

/// What the agent knows of us.
#[derive(Debug, Default)]
struct Told {
    /// The start of the agent that was given the secret, and what is kept of it.
    secret: Option<(Generation, Digest)>,
    /// The start of the agent that did not come for the tools in time. No run waits for it again before it has come.
    absent: Option<Generation>,
}

impl Counter {
    /// Looks at the offer that stands, and its number.
    fn look<T>(&self, look: impl FnOnce(u64, &Offer) -> T) -> T {
        let offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        look(offer.0, &offer.1)
    }

    /// The offer with this number has gone to the agent.
    fn has_fetched(&self, number: u64) {
        self.fetched.send_if_modified(|fetched| {
            let is_newer = number > *fetched;
            *fetched = number.max(*fetched);
            is_newer
        });
    }

    /// Puts another offer in place of the one that stood; gives its number.
    fn put(&self, new: Offer) -> u64 {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if offer.1 != new {
            *offer = (offer.0 + 1, new);
        }
        offer.0
    }
}

impl Page {
    fn new(limits: &Limits, since: Seq) -> Self {
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
            since,
            decided: Mutex::default(),
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

    /// The listener takes connections at this address, without a path: `http://127.0.0.1:7420`. It must be one that
    /// programs of this machine reach without a certificate. Until it is told, agents get no tools.
    pub fn listens_at(&self, base: impl Into<String>) {
        *self.0.base.lock().unwrap_or_else(PoisonError::into_inner) = Some(base.into());
    }

    /// Answers permission prompts for tools of pages and forgets sessions that have ended, until `stopping`.
    pub fn start(&self, tasks: &TaskTracker, stopping: CancellationToken) {
        tasks.spawn(warden::watch(self.clone(), stopping));
    }

    /// What the page has mounted now: the agent is told, where it does not know it yet. Returns once it has fetched the
    /// list, or once it is clear that it will not. For every run, before its prompt and before [`Self::results`]:
    /// what a result makes the agent do next can then use the newest tools.
    pub async fn offer(&self, session: SessionId, tools: Vec<PageTool>) -> Offered {
        let (offer, left_out) = Offer::of(tools, &self.0.limits);
        let tools = offer.told();
        let page = match self.page_for(session, &offer).await {
            Ok(Some(page)) => page,
            // Nothing is offered, and nothing ever was.
            Ok(None) => return Offered { tools, left_out, unavailable: None },
            Err(why) => return Offered { tools, left_out, unavailable: Some(why) },
        };
        let number = page.counter.put(offer);
        let told = self.tell(session, &page, number).await;
        Offered { tools, left_out, unavailable: told.err() }
    }

    /// What the agent of a session is to be told of these tools; nothing where it can have none of them. An agent takes MCP
    /// servers while it runs and says which call a call is, or it cannot call a page.
    pub fn preview(&self, agent: &Capabilities, tools: &[PageTool]) -> Vec<OfferedTool> {
        if self.can_reach(agent) { Offer::of(tools.to_vec(), &self.0.limits).0.told() } else { Vec::new() }
    }

    /// Can an agent that can do this call the tools of a page?
    pub fn can_reach(&self, agent: &Capabilities) -> bool {
        agent.mcp_changes && self.address().is_some()
    }

    /// Does the page of a session offer a tool of this name, by the page's own name or by the agent's?
    pub fn has_tool(&self, session: SessionId, name: &str) -> bool {
        let own = name.strip_prefix(PREFIX).unwrap_or(name);
        self.page(session)
            .is_some_and(|page| page.counter.look(|_, offer| offer.has(own) || offer.has_page_name(own)))
    }

    /// Where agents reach the listener, with its port; none until [`Self::listens_at`] has told it.
    pub fn address(&self) -> Option<String> {
        self.0.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Results of the page, by the id of their call: every tool message of a run. Gives how many of them a call waited
    /// for. Those that nobody waits for yet are kept for the call that is about to come; old ones change nothing.
    pub fn results(&self, session: SessionId, results: impl IntoIterator<Item = PageResult>) -> usize {
        self.page(session).map_or(0, |page| page.counter.desk.results(results, &self.0.limits))
    }

    /// The user goes on: what still waits for the page ends, so that the agent can hear them.
    pub fn overtake(&self, session: SessionId) {
        if let Some(page) = self.page(session) {
            page.counter.desk.give_up(NoResult::Overtaken);
        }
    }

    /// Is this the permission to use a tool that the page offers? Then it is answered by policy, and nobody is asked. What
    /// was so when it was first looked at stays so: who is shown it and who answers it never disagree.
    pub fn allows(&self, session: SessionId, request: &Request) -> bool {
        let Ask::Permission { tool_name, .. } = &request.ask else { return false };
        let Some(name) = tool_name.strip_prefix(PREFIX) else { return false };
        // One of the same name in a session without a page is somebody else's.
        let Some(page) = self.page(session).filter(|page| request.request.0 > page.since.0) else {
            return false;
        };
        let mut decided = page.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if decided.len() >= DECIDED && !decided.contains_key(&request.request) {
            decided.shift_remove_index(0);
        }
        *decided.entry(request.request).or_insert_with(|| page.counter.look(|_, offer| offer.has(name)))
    }

    /// The page's own name of a tool of it; `None` where it is someone else's.
    pub fn page_name(&self, session: SessionId, name: &str) -> Option<String> {
        let name = name.strip_prefix(PREFIX)?;
        let known =
            self.page(session).and_then(|page| page.counter.look(|_, offer| offer.page_name(name).cloned()));
        Some(known.unwrap_or_else(|| name.to_owned()))
    }

    /// The calls that wait for the page and that no run has handed over. A run that has shown them all ends, so that the
    /// page carries them out.
    pub fn waiting(&self, session: SessionId) -> watch::Receiver<Vec<String>> {
        self.page(session).map_or_else(|| self.0.nothing.subscribe(), |page| page.counter.desk.open())
    }

    /// The run that has shown these calls to the page has ended.
    pub fn handed_over(&self, session: SessionId, calls: &[String]) {
        if let Some(page) = self.page(session) {
            page.counter.desk.handed_over(calls);
        }
    }

    /// A page that may answer shows what waits for it, without a run that takes it over. Gives whether anything waits.
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

    /// The session's page; a new one only where there is something to offer.
    async fn page_for(&self, session: SessionId, offer: &Offer) -> Result<Option<Arc<Page>>, String> {
        if let Some(page) = self.page(session) {
            return Ok(Some(page));
        }
        if offer.tools.is_empty() {
            return Ok(None);
        }
        let since = self
            .0
            .registry
            .snapshot(&own(), session)
            .await
            .map_err(|refusal| crate::way_out::told(&refusal))?
            .seq;
        let mut pages = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&session) {
            return Ok(Some(Arc::clone(page)));
        }
        if pages.len() >= PAGES {
            return Err(format!("{PAGES} sessions have pages with tools already"));
        }
        let page = Arc::new(Page::new(&self.0.limits, since));
        pages.insert(session, Arc::clone(&page));
        Ok(Some(page))
    }

    fn forget(&self, session: SessionId) {
        let page = self.0.pages.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
        if let Some(page) = page {
            page.counter.desk.give_up(NoResult::TurnEnded);
        }
    }
}

/// Who tells agents of page tools, and answers for them. Setting MCP servers takes an owner; this sets only ours, beside
/// the others, for whoever may prompt.
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
