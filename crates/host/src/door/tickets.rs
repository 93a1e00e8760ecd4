//! Tickets and browsers: how a web page gets access without ever seeing a token.
//!
//! A ticket works once, within a minute; a ticket for another device, within five. It becomes a cookie, which page
//! script cannot read, and a key, which is in the storage of the page's own origin. Only both together give access:
//! cookies ignore ports, so a page on another local port would send the cookie too, but it cannot know the key. The
//! store keeps browsers as digests, so that a restart does not log the page out. Each browser depends on the token that
//! made its ticket.

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
/// How long a ticket can be used: the time from a terminal to a browser.
pub const TICKET_MS: i64 = 60 * 1000;
/// How long a ticket for another device can be used: find the device, unlock it, point its camera at the screen.
pub const PAIRING_MS: i64 = 5 * 60 * 1000;
/// The largest number of unused tickets of one token. One more invalidates the oldest.
const TICKETS_PER_TOKEN: usize = 8;
/// The largest number of unused tickets of all tokens together.
const MAX_TICKETS: usize = 256;
/// The largest number of browsers of one token. One more logs out the browser that was not seen for the longest time.
const BROWSERS_PER_TOKEN: usize = 32;
/// The largest number of browsers of all tokens together; a lookup compares all of them.
const MAX_BROWSERS: usize = 1024;
/// A browser that was not seen for this long is logged out.
pub const BROWSER_IDLE_MS: i64 = 30 * 24 * 3600 * 1000;
/// How many characters of a browser's `User-Agent` are kept. The distinctive part comes early, and anyone can send
/// anything.
const USER_AGENT: usize = 200;
/// How often the time when a browser was last seen is written: it only has to be right by days.
const SEEN_STEP_MS: i64 = 3600 * 1000;

/// What is known of a browser that logs in.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The browser's address.
    pub address: Option<String>,
    /// The browser's `User-Agent`.
    pub user_agent: Option<String>,
}

/// A browser's login.
#[derive(Clone, Debug)]
pub struct BrowserSession {
    /// The browser's public name, by which it can be logged out.
    pub browser: String,
    /// The token that was created for the browser and its creator, if the ticket was for another device.
    pub made: Option<(Principal, TokenInfo)>,
    /// The secret for the cookie.
    pub cookie: Secret,
    /// The secret for the page's own storage.
    pub key: Secret,
}

/// A client that showed a cookie but no key yet: a WebSocket before its hello. It has no access.
#[derive(Clone)]
pub struct HalfGuest {
    pub(super) cookie: Digest,
    pub(super) address: Option<std::net::IpAddr>,
    stay: Stay,
}

impl HalfGuest {
    /// How long the client may stay, with its key.
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
    /// The ticket's creator.
    by: Principal,
    made_at: Millis,
    ends_at: Millis,
    /// The browser that uses the ticket gets a token of its own.
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
    /// The beginning of the digest: enough to distinguish browsers, and it gives no access.
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

/// The usable tickets, and the browsers that are logged in.
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
            // A browser with an unreadable record must log in again.
            serde_json::from_slice(value).ok().map(Browser::new)
        });
        let browsers = Mutex::new(browsers.take(MAX_BROWSERS).collect());
        Ok(Arc::new(Self { store, clock, authenticator, unused: Mutex::default(), browsers }))
    }

    /// A ticket with which a browser logs in as `principal`, and its expiry.
    pub fn create(&self, principal: &Principal) -> Result<(String, Millis), Refusal> {
        self.add(principal, None, TICKET_MS)
    }

    /// A ticket of `principal` for another device, which gets its own token when it logs in. An older ticket for the
    /// same name becomes invalid: only one device can have the name, and a client that asks again has lost the first
    /// ticket.
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

    /// Exchanges a ticket. A ticket works once, whatever the result.
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
            // The token is out of memory, and only there could it give access.
            tracing::warn!(%refusal, "the token of a device that could not log in is still on the disk");
        }
        seated.map(Some)
    }

    /// Logs a browser in with a token. If the login cannot be written, the browser is not let in.
    async fn seat(
        &self,
        token: TokenId,
        made: Option<(Principal, TokenInfo)>,
        caller: Caller,
    ) -> Result<BrowserSession, Refusal> {
        let (cookie, key) = (Secret::random(SecretKind::Cookie)?, Secret::random(SecretKind::Key)?);
        // After the token: an older login would not count.
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

    /// The browser of a cookie. It must still show its key.
    pub(super) fn half(&self, cookie: &Secret, address: Option<std::net::IpAddr>) -> Option<HalfGuest> {
        let cookie = cookie.digest();
        let mut browsers = lock(&self.browsers);
        let browser = find(&mut browsers, &cookie)?;
        let (_, stay) = self.known(browser)?;
        Some(HalfGuest { cookie, address, stay })
    }

    /// Who a half guest is, with its key; `None` if its access has ended meanwhile.
    pub(super) fn complete(&self, half: &HalfGuest, key: &Secret) -> Option<Principal> {
        let (principal, _) = self.open_with(&half.cookie, &key.digest())?;
        (!half.stay.is_over()).then_some(principal)
    }

    /// Logs a browser out, and returns its public name; `None` if no browser has this cookie and key. Its connections
    /// are informed.
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

    /// The browsers that are logged in, the most recently seen first.
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

    /// Logs a browser out by its public name. Its connections are informed.
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

    /// Forgets what has expired, and writes when browsers were last seen.
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
            tracing::debug!(%error, "the times when browsers were last seen were not written");
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

    /// Logs a browser in, and returns the browsers that had to go for it.
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

    /// Who a browser is, and for how long: as long as its token, and no longer than its login.
    fn known(&self, browser: &Browser) -> Option<(Principal, Stay)> {
        let Standing { principal, stay, .. } = self.standing_of(&browser.record)?;
        Some((Principal { via: "page".into(), ..principal }, stay.of_login(browser.gone.clone())))
    }

    /// The standing of a browser's token; `None` if the token would not let the browser in now.
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

/// A browser's `User-Agent`, fit to be shown: visible characters, and not many.
fn shorten(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(USER_AGENT).collect()
}

/// Compares all of them, even after a match: the time reveals nothing.
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
