//! Tickets and browsers: how a web page comes in without ever seeing a token.
//!
//! A ticket works once, within a minute; one for another device, within five. It becomes a cookie, which page script cannot read, and a key, which
//! lives in the storage of the page's own origin. Only both together open anything: cookies ignore ports, so a page
//! on another local port would send the cookie too, but it cannot know the key. Browsers are kept as digests in
//! the store, so that a restart does not log the page out. Each hangs on the token that made its ticket.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use portolan_core::{
    Millis, Principal, Refusal, RefusalCode, TokenId,
    ports::{Clock, Op, Store, StoreError},
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    authenticator::{Authenticator, Standing},
    pairing::Device,
    secret::{Digest, Secret, SecretKind},
    stay::Stay,
    tokens::{TokenInfo, commit, record_op},
};
use portolan_protocol::BrowserInfo;

/// The records of browsers, by the digest of their cookie.
const BROWSERS: &str = "browsers";
/// How long a ticket can be used: the way from a terminal to a browser.
pub const TICKET_MS: i64 = 60 * 1000;
/// How long one for another device can be used: find the device, unlock it, point its camera at the screen.
pub const PAIRING_MS: i64 = 5 * 60 * 1000;
/// Unused tickets of one token. One more makes the oldest useless.
const TICKETS_PER_TOKEN: usize = 8;
/// Unused tickets of all tokens together.
const MAX_TICKETS: usize = 256;
/// Browsers logged in by one token. One more logs out the one not seen for the longest time.
const BROWSERS_PER_TOKEN: usize = 32;
/// Browsers of all tokens together; looking one up goes through all of them.
const MAX_BROWSERS: usize = 1024;
/// A browser not seen for so long is logged out.
pub const BROWSER_IDLE_MS: i64 = 30 * 24 * 3600 * 1000;
/// Characters kept of what a browser says it is. What tells it apart comes early, and anyone can write anything.
const USER_AGENT: usize = 200;
/// When a browser was last seen is written down this often: it only has to be right by days.
const SEEN_STEP_MS: i64 = 3600 * 1000;

/// What is known of a browser that logs in.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// From where.
    pub address: Option<String>,
    /// What it says it is.
    pub user_agent: Option<String>,
}

/// What a browser gets for a ticket.
#[derive(Clone, Debug)]
pub struct BrowserSession {
    /// Its public name, by which it can be logged out.
    pub browser: String,
    /// The token that was made for it, and for whom it was made, where the ticket was one for another device.
    pub made: Option<(Principal, TokenInfo)>,
    /// For the cookie.
    pub cookie: Secret,
    /// For the page's own storage.
    pub key: Secret,
}

/// Someone who showed a cookie but no key yet: a WebSocket before its hello. Nothing is open to it.
#[derive(Clone)]
pub struct HalfGuest {
    pub(super) cookie: Digest,
    pub(super) address: Option<std::net::IpAddr>,
    stay: Stay,
}

impl HalfGuest {
    /// For how long it may stay, with its key.
    pub fn stay(&self) -> &Stay {
        &self.stay
    }
}

impl fmt::Debug for HalfGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HalfGuest").field("address", &self.address).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Ticket {
    digest: Digest,
    /// Of whom it is.
    by: Principal,
    made_at: Millis,
    ends_at: Millis,
    /// Who comes by it gets a token of its own.
    device: Option<Device>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    cookie: Digest,
    key: Digest,
    token: TokenId,
    made_at: Millis,
    seen_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
}

impl Record {
    /// A beginning of the digest: enough to tell browsers apart, and it opens nothing.
    fn browser(&self) -> String {
        self.cookie.to_hex().chars().take(16).collect()
    }
}

#[derive(Debug)]
struct Browser {
    record: Record,
    seen_written: Millis,
    gone: CancellationToken,
}

impl Browser {
    fn new(record: Record) -> Self {
        Self { seen_written: record.seen_at, record, gone: CancellationToken::new() }
    }
}

/// Tickets that can still be used, and the browsers that are logged in.
#[derive(Debug)]
pub struct Tickets {
    store: Arc<dyn Store>,
    clock: Clock,
    authenticator: Arc<dyn Authenticator>,
    unused: Mutex<Vec<Ticket>>,
    browsers: Mutex<Vec<Browser>>,
}

impl Tickets {
    /// Reads the browsers that were logged in.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        authenticator: Arc<dyn Authenticator>,
    ) -> Result<Arc<Self>, StoreError> {
        let records = store.records(BROWSERS).await?;
        let browsers = records.iter().filter_map(|(_, value)| {
            // A record we cannot read is a browser that logs in again.
            serde_json::from_slice(value).ok().map(Browser::new)
        });
        let browsers = Mutex::new(browsers.take(MAX_BROWSERS).collect());
        Ok(Arc::new(Self { store, clock, authenticator, unused: Mutex::default(), browsers }))
    }

    /// A ticket with which a browser logs in as `principal`, and until when.
    pub fn create(&self, principal: &Principal) -> Result<(String, Millis), Refusal> {
        self.add(principal, None, TICKET_MS)
    }

    /// A ticket of `principal` for another device, which gets a token of its own when it logs in. An older ticket for the same
    /// name becomes useless: one device can have it, and who asks again has lost sight of the first.
    pub fn create_for(&self, principal: &Principal, device: Device) -> Result<(String, Millis), Refusal> {
        let device = Device { name: device.name.trim().to_owned(), ..device };
        device.check()?;
        self.add(principal, Some(device), PAIRING_MS)
    }

    fn add(
        &self,
        principal: &Principal,
        device: Option<Device>,
        lasts: i64,
    ) -> Result<(String, Millis), Refusal> {
        let secret = Secret::random(SecretKind::Ticket)?;
        let now = self.clock.now();
        let mut tickets = lock(&self.unused);
        let is_replaced = |ticket: &Ticket| match (&ticket.device, &device) {
            (Some(known), Some(new)) => known.name == new.name,
            _ => false,
        };
        tickets.retain(|ticket| is_fresh(ticket, now) && !is_replaced(ticket));
        if tickets.iter().filter(|ticket| ticket.by.token == principal.token).count() >= TICKETS_PER_TOKEN
            && let Some(oldest) = tickets.iter().position(|ticket| ticket.by.token == principal.token)
        {
            tickets.remove(oldest);
        }
        if tickets.len() >= MAX_TICKETS {
            return Err(Refusal::busy(
                "too many logins are under way; try again in a minute",
                TICKET_MS as u32,
            ));
        }
        let ends_at = Millis(now.0 + lasts);
        let (digest, by) = (secret.digest(), principal.clone());
        tickets.push(Ticket { digest, by, made_at: now, ends_at, device });
        Ok((secret.expose().to_owned(), ends_at))
    }

    /// Exchanges a ticket. It works once, whatever comes of it.
    pub async fn redeem(&self, ticket: &str, caller: Caller) -> Result<Option<BrowserSession>, Refusal> {
        let digest = Secret::sent(ticket).digest();
        let Some(ticket) = self.take_ticket(&digest, self.clock.now()) else { return Ok(None) };
        let Some(device) = ticket.device else {
            return self.seat(ticket.by.token, None, caller).await.map(Some);
        };
        let tokens = Arc::clone(&device.tokens);
        let info = device.admit(&self.clock).await?;
        let token = info.token.clone();
        let seated = self.seat(token.clone(), Some((ticket.by, info)), caller).await;
        if seated.is_err()
            && let Err(refusal) = tokens.revoke(&token).await
        {
            // It is out of memory, where alone it could open something.
            tracing::warn!(%refusal, "the token of a device that could not come in is not off the disk yet");
        }
        seated.map(Some)
    }

    /// Lets a browser in by a token. Where that cannot be written down it is not let in.
    async fn seat(
        &self,
        token: TokenId,
        made: Option<(Principal, TokenInfo)>,
        caller: Caller,
    ) -> Result<BrowserSession, Refusal> {
        let (cookie, key) = (Secret::random(SecretKind::Cookie)?, Secret::random(SecretKind::Key)?);
        // After the token: what is older than it would not count.
        let now = self.clock.now();
        let record = Record {
            cookie: cookie.digest(),
            key: key.digest(),
            token,
            made_at: now,
            seen_at: now,
            address: caller.address,
            user_agent: caller.user_agent.map(|text| shorten(&text)).filter(|text| !text.is_empty()),
        };
        let session = BrowserSession { browser: record.browser(), made, cookie, key };
        let mut ops = vec![record_op(BROWSERS, record.cookie.to_hex(), &record)?];
        ops.extend(self.admit(Browser::new(record)).into_iter().map(remove));
        if let Err(refusal) = commit(&self.store, ops).await {
            lock(&self.browsers).retain(|known| known.record.browser() != session.browser);
            return Err(refusal);
        }
        Ok(session)
    }

    /// Who shows this cookie with this key.
    pub fn authenticate(&self, cookie: &Secret, key: &Secret) -> Option<Principal> {
        self.enter(cookie, key).map(|(principal, _)| principal)
    }

    /// The same, with how long they may stay.
    pub(super) fn enter(&self, cookie: &Secret, key: &Secret) -> Option<(Principal, Stay)> {
        self.open_with(&cookie.digest(), &key.digest())
    }

    /// The browser behind a cookie. It still has to show its key.
    pub(super) fn half(&self, cookie: &Secret, address: Option<std::net::IpAddr>) -> Option<HalfGuest> {
        let cookie = cookie.digest();
        let mut browsers = lock(&self.browsers);
        let browser = find(&mut browsers, &cookie)?;
        let (_, stay) = self.known(browser)?;
        Some(HalfGuest { cookie, address, stay })
    }

    /// Who a half guest is, with its key; nobody where what let it in has ended since.
    pub(super) fn complete(&self, half: &HalfGuest, key: &Secret) -> Option<Principal> {
        let (principal, _) = self.open_with(&half.cookie, &key.digest())?;
        (!half.stay.is_over()).then_some(principal)
    }

    /// Logs a browser out, and gives its public name; none where none has this cookie and key. Its connections are told.
    pub async fn forget(&self, cookie: &Secret, key: &Secret) -> Result<Option<String>, Refusal> {
        let (cookie, key) = (cookie.digest(), key.digest());
        let gone = {
            let mut browsers = lock(&self.browsers);
            let fits = |b: &Browser| bool::from(b.record.cookie.same(&cookie) & b.record.key.same(&key));
            browsers.iter().position(fits).map(|place| browsers.swap_remove(place))
        };
        let Some(browser) = gone else { return Ok(None) };
        browser.gone.cancel();
        let name = browser.record.browser();
        commit(&self.store, vec![remove(browser.record)]).await?;
        Ok(Some(name))
    }

    /// The browsers that are logged in, the one seen last first.
    pub fn browsers(&self) -> Vec<BrowserInfo> {
        let browsers = lock(&self.browsers);
        let told = browsers.iter().filter_map(|Browser { record, .. }| {
            let principal = self.standing_of(record)?.principal;
            Some(BrowserInfo {
                browser: record.browser(),
                token: record.token.clone(),
                name: principal.name,
                role: principal.role,
                logged_in_at: record.made_at,
                seen_at: record.seen_at,
                address: record.address.clone(),
                user_agent: record.user_agent.clone(),
            })
        });
        let mut all: Vec<_> = told.collect();
        all.sort_by(|a, b| (b.seen_at, &a.browser).cmp(&(a.seen_at, &b.browser)));
        all
    }

    /// Logs a browser out by its public name. Its connections are told.
    pub async fn log_out(&self, browser: &str) -> Result<(), Refusal> {
        let gone = {
            let mut browsers = lock(&self.browsers);
            let place = browsers.iter().position(|known| known.record.browser() == browser);
            place.map(|place| browsers.swap_remove(place))
        };
        let Some(gone) = gone else {
            return Err(Refusal::new(RefusalCode::NotFound, "no such browser is logged in"));
        };
        gone.gone.cancel();
        commit(&self.store, vec![remove(gone.record)]).await
    }

    /// Forgets what has expired, and writes down when browsers were last seen.
    pub(super) async fn tidy(&self) {
        let now = self.clock.now();
        lock(&self.unused).retain(|ticket| is_fresh(ticket, now));
        let mut ops = Vec::new();
        lock(&self.browsers).retain_mut(|browser| {
            if self.standing_of(&browser.record).is_none() {
                browser.gone.cancel();
                ops.push(remove(browser.record.clone()));
                return false;
            }
            if browser.record.seen_at.0 - browser.seen_written.0 >= SEEN_STEP_MS
                && let Ok(op) = record_op(BROWSERS, browser.record.cookie.to_hex(), &browser.record)
            {
                browser.seen_written = browser.record.seen_at;
                ops.push(op);
            }
            true
        });
        if !ops.is_empty()
            && let Err(error) = commit(&self.store, ops).await
        {
            tracing::debug!(%error, "when browsers were last seen is not written down");
        }
    }

    fn take_ticket(&self, digest: &Digest, now: Millis) -> Option<Ticket> {
        let mut tickets = lock(&self.unused);
        tickets.retain(|ticket| is_fresh(ticket, now));
        let mut place = None;
        for (index, ticket) in tickets.iter().enumerate() {
            if bool::from(ticket.digest.same(digest)) {
                place = Some(index);
            }
        }
        let ticket = tickets.remove(place?);
        let standing = self.authenticator.admitted(&ticket.by.token)?;
        (standing.since <= ticket.made_at).then_some(ticket)
    }

    /// Lets a browser in, and gives those that had to go for it.
    fn admit(&self, browser: Browser) -> Vec<Record> {
        let mut browsers = lock(&self.browsers);
        let mut gone = Vec::new();
        let mut oldest_of = |browsers: &mut Vec<Browser>, token: Option<&TokenId>| {
            let of_token =
                browsers.iter().enumerate().filter(|(_, b)| token.is_none_or(|t| b.record.token == *t));
            if let Some((place, _)) = of_token.min_by_key(|(_, b)| b.record.seen_at) {
                let browser = browsers.swap_remove(place);
                browser.gone.cancel();
                gone.push(browser.record);
            }
        };
        let token = &browser.record.token;
        if browsers.iter().filter(|b| b.record.token == *token).count() >= BROWSERS_PER_TOKEN {
            oldest_of(&mut browsers, Some(token));
        }
        if browsers.len() >= MAX_BROWSERS {
            oldest_of(&mut browsers, None);
        }
        browsers.push(browser);
        gone
    }

    fn open_with(&self, cookie: &Digest, key: &Digest) -> Option<(Principal, Stay)> {
        let mut browsers = lock(&self.browsers);
        let browser = find(&mut browsers, cookie)?;
        if !bool::from(browser.record.key.same(key)) {
            return None;
        }
        let known = self.known(browser)?;
        browser.record.seen_at = self.clock.now();
        Some(known)
    }

    /// Who a browser is, and for how long: as long as the token by which it came, and no longer than its login.
    fn known(&self, browser: &Browser) -> Option<(Principal, Stay)> {
        let Standing { principal, stay, .. } = self.standing_of(&browser.record)?;
        Some((Principal { via: "page".into(), ..principal }, stay.of_login(browser.gone.clone())))
    }

    /// Where the token stands by which a browser came; none where it would not let the browser in now.
    fn standing_of(&self, record: &Record) -> Option<Standing> {
        if self.clock.now().0 - record.seen_at.0 > BROWSER_IDLE_MS {
            return None;
        }
        let standing = self.authenticator.admitted(&record.token)?;
        (standing.since <= record.made_at).then_some(standing)
    }
}

fn is_fresh(ticket: &Ticket, now: Millis) -> bool {
    (ticket.made_at..ticket.ends_at).contains(&now)
}

/// What a browser says it is, fit to be shown: visible characters, and not many.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(USER_AGENT).collect()
}

/// Goes through all of them, whichever fits: the time tells nothing.
fn find<'a>(browsers: &'a mut [Browser], cookie: &Digest) -> Option<&'a mut Browser> {
    let mut found = None;
    for browser in browsers {
        if bool::from(browser.record.cookie.same(cookie)) {
            found = Some(browser);
        }
    }
    found
}

fn remove(record: Record) -> Op {
    Op::Remove { collection: BROWSERS, key: record.cookie.to_hex() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
