//! Answers the calls of clients. WebSocket and REST give the same answers, because both use this code.

use bytes::Bytes;
use portolan_core::{
    CommandId, DaemonEvent, Millis, Principal, Refusal, RefusalCode, Role, SessionId, Stored, TokenId,
    audit::{self, AuditPage},
    log::delivery::Mode,
    ports::{PastPlace, Secret, SessionQuery},
    registry::{DaemonReader, PastListing, PastMove, Registry, SessionReader, TakeUp, Trial},
};
use portolan_protocol::{
    AgentsRunning, ArchivePast, Call, ClientFrame, CreateToken, ReplyBody, ServerFrame, SimulateRule,
    TestRule,
};
use serde::Serialize;

use super::{Native, files};
use portolan_host::door::Device;

/// How many sessions a list has by default, and at most.
const LIST: (u32, u32) = (100, 1000);

/// How many records a page of the audit has by default, and at most.
const AUDIT: (u32, u32) = (100, audit::PAGE);

/// How many entries a page of history has by default, and at most.
const PAGE: (u32, u32) = (256, 1000);

/// How many bytes of entries a page of history has at most, unless the first entry alone is larger: this bounds what
/// one connection gets at once.
const PAGE_BYTES: usize = 256 * 1024;

/// The shortest part of an id that may stand for the id.
const PART: usize = 4;

/// The answer to a call.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The reply is complete.
    Reply(Box<ReplyBody>),
    /// A page of entries with ready-made frames.
    History(Vec<Stored>),
    /// The client attached to this session.
    Attached(SessionId, Box<SessionReader>),
    /// The client detached from this session.
    Detached(SessionId),
    /// The client attached to the daemon's log.
    Subscribed(Box<DaemonReader>),
    /// The client detached from the daemon's log.
    Unsubscribed,
}

fn running(registry: &Registry) -> AgentsRunning {
    let (running, limit) = registry.agents_running();
    let count = |agents| u32::try_from(agents).unwrap_or(u32::MAX);
    AgentsRunning { running: count(running), limit: limit.map(count) }
}

/// Carries out a call, under its id. Core checks roles; this code checks roles for calls of the door.
pub(crate) async fn answer(native: &Native, who: &Principal, frame: ClientFrame) -> Result<Answer, Refusal> {
    let registry = &native.registry;
    let ClientFrame { id, call } = frame;
    let body = match call {
        // The connection goes on with these answers: it follows a log, or stops following it.
        Call::Attach { session, start, items_only } => {
            let mode = if items_only { Mode::Items } else { Mode::Every };
            let reader = registry.attach(who, session, start, mode).await?;
            return Ok(Answer::Attached(session, Box::new(reader)));
        }
        Call::Detach { session } => return Ok(Answer::Detached(session)),
        Call::Subscribe { start } => {
            return Ok(Answer::Subscribed(Box::new(registry.watch(who, start).await?)));
        }
        Call::Unsubscribe => return Ok(Answer::Unsubscribed),
        Call::History { session, after, upto, limit } => {
            let limit = limited(limit, PAGE)?;
            let entries = registry.history(who, session, after, upto, limit).await?;
            return Ok(Answer::History(first_bytes(entries)));
        }
        // All other answers are complete replies.
        Call::List { archived, before, limit } => {
            let limit = limited(limit, LIST)?;
            let query = SessionQuery { archived, live: false, before, limit };
            let sessions = registry.list(who, query).await?;
            ReplyBody::Sessions { sessions, agents: who.sessions.is_none().then(|| running(registry)) }
        }
        Call::Resolve { prefix } => ReplyBody::Resolved { session: resolve(registry, who, &prefix).await? },
        Call::Create { spec } => ReplyBody::Session { session: registry.create(who, id, *spec).await? },
        Call::Past { agent, cwd, archived, limit } => {
            let place = PastPlace::when_archived(archived);
            let listing = PastListing { agent, cwd, place, limit: limited(limit, LIST)? };
            ReplyBody::Past { past: registry.past(who, listing).await? }
        }
        Call::TakeUp { past, copy, spec } => {
            let taken = registry.take_up(who, id, TakeUp { past, copy, spec: *spec }).await?;
            ReplyBody::TakenUp { session: taken.session, already: taken.already }
        }
        Call::ArchivePast(ArchivePast { past, agent, archived }) => {
            let place = PastPlace::when_archived(archived);
            ReplyBody::Past { past: vec![registry.move_past(who, PastMove { agent, past, place }).await?] }
        }
        Call::Delete { session } => {
            registry.delete(who, session).await?;
            ReplyBody::Done
        }
        Call::Command { session, command } => {
            ReplyBody::Receipt { receipt: registry.submit(who, session, id, command).await? }
        }
        Call::State { session } => {
            let snapshot = registry.snapshot(who, session).await?;
            ReplyBody::State { seq: snapshot.seq, state: Box::new((*snapshot.state).clone()) }
        }
        Call::Files { session, query, limit } => find_files(registry, who, session, query, limit).await?,
        Call::Raw { session, seq } => {
            let raw = registry.raw(who, session, seq).await?;
            ReplyBody::Raw { text: raw.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) }
        }
        Call::Environment { session } => {
            ReplyBody::Environment { variables: registry.environment(who, session).await? }
        }
        Call::Agents { probe: false } => ReplyBody::Agents { agents: registry.agents_for(who) },
        Call::Agents { probe: true } => {
            // A probe starts programs, which a viewer may not do.
            who.may_daemon(Role::Operator)?;
            ReplyBody::Agents { agents: registry.probe().await }
        }
        Call::Account { agent } => ReplyBody::Account { account: registry.account(who, &agent).await? },
        Call::LogIn { agent, with } => {
            ReplyBody::Account { account: registry.log_in(who, &agent, with).await? }
        }
        Call::LogOut { agent } => ReplyBody::Account { account: registry.log_out(who, &agent).await? },
        Call::RuleList { session } => ReplyBody::Rules { rules: registry.rules(who, session).await? },
        Call::RuleAdd { rule } => {
            ReplyBody::Rule { rule: Box::new(registry.add_rule(who, id, *rule).await?) }
        }
        Call::RuleEdit { rule, draft } => {
            ReplyBody::Rule { rule: Box::new(registry.edit_rule(who, &rule, *draft).await?) }
        }
        Call::RuleRemove { rule } => {
            ReplyBody::Rule { rule: Box::new(registry.remove_rule(who, &rule).await?) }
        }
        Call::RuleTest(asked) => {
            ReplyBody::Judgement { judgement: registry.try_call(who, trial(asked)?).await? }
        }
        Call::RuleSimulate(SimulateRule { rule, since }) => {
            ReplyBody::Simulation { simulation: registry.simulate(who, rule, since).await? }
        }
        Call::AuditList(mut query) => {
            query.limit = Some(limited(query.limit, AUDIT)?);
            let AuditPage { records, next } = registry.audit(who, &query).await?;
            ReplyBody::Audit { records, next }
        }
        Call::AuditShow { position } => {
            ReplyBody::AuditRecord { details: Box::new(registry.audit_record(who, position).await?) }
        }
        Call::BudgetList { session } => ReplyBody::Budgets { budgets: registry.budgets(who, session).await? },
        Call::BudgetSet { budget } => {
            ReplyBody::Budget { budget: Box::new(registry.set_budget(who, id, *budget).await?) }
        }
        Call::BudgetReset { budget } => {
            ReplyBody::Budget { budget: Box::new(registry.reset_budget(who, id, &budget).await?) }
        }
        Call::BudgetRemove { budget } => {
            ReplyBody::Budget { budget: Box::new(registry.remove_budget(who, id, &budget).await?) }
        }
        Call::TokenCreate(wanted) => create_token(native, who, wanted).await?,
        Call::TokenList => {
            who.may_daemon(Role::Owner)?;
            ReplyBody::Tokens { tokens: native.tokens.list() }
        }
        Call::TokenRevoke { token } => revoke_token(native, who, token).await?,
        Call::TicketCreate => {
            let (ticket, expires_at) = native.ticket(who)?;
            ReplyBody::Ticket { ticket: Secret::new(ticket), expires_at }
        }
        Call::Pair(wanted) => pair(native, who, wanted)?,
        Call::BrowserList => {
            who.may_daemon(Role::Owner)?;
            ReplyBody::Browsers { browsers: native.access.tickets().browsers() }
        }
        Call::BrowserLogOut { browser } => log_out_browser(native, who, browser).await?,
        Call::Ping => ReplyBody::Pong,
    };
    Ok(Answer::Reply(Box::new(body)))
}

/// The session whose id begins or ends with these characters.
async fn resolve(registry: &Registry, who: &Principal, part: &str) -> Result<SessionId, Refusal> {
    if part.len() < PART || part.len() > 36 {
        return Err(invalid(format!(
            "a session is named by its id, or by {PART} or more characters of its beginning or end"
        )));
    }
    registry.resolve(who, part).await
}

/// The call that policy is asked about.
fn trial(asked: TestRule) -> Result<Trial, Refusal> {
    let TestRule { tool, input, cwd, mode, session } = asked;
    let folder = match (cwd, session) {
        (Some(cwd), _) => cwd,
        (None, Some(_)) => std::path::PathBuf::from("/"),
        (None, None) => return Err(invalid("name a folder (`cwd`) or a session")),
    };
    Ok(Trial { tool, input, folder, mode: mode.unwrap_or_default(), session })
}

async fn find_files(
    registry: &Registry,
    who: &Principal,
    session: SessionId,
    query: String,
    limit: Option<u32>,
) -> Result<ReplyBody, Refusal> {
    who.may(Role::Operator, session)?;
    let folder = registry.snapshot(who, session).await?.state.summary.cwd.clone();
    let found = files::find(folder, query, limited(limit, files::LIST)?).await?;
    Ok(ReplyBody::Files { files: found.files, truncated: found.truncated })
}

async fn revoke_token(native: &Native, who: &Principal, token: TokenId) -> Result<ReplyBody, Refusal> {
    who.may_daemon(Role::Owner)?;
    native.tokens.revoke(&token).await?;
    note(native, who, DaemonEvent::TokenRevoked { token }).await;
    Ok(ReplyBody::Done)
}

async fn log_out_browser(native: &Native, who: &Principal, browser: String) -> Result<ReplyBody, Refusal> {
    who.may_daemon(Role::Owner)?;
    native.access.tickets().log_out(&browser).await?;
    note(native, who, DaemonEvent::LoggedOut { browser: Some(browser) }).await;
    Ok(ReplyBody::Done)
}

async fn create_token(native: &Native, who: &Principal, wanted: CreateToken) -> Result<ReplyBody, Refusal> {
    let CreateToken { name, role, sessions, expires_in_seconds } = wanted;
    who.may_daemon(Role::Owner)?;
    native.tokens.is_free(&name)?;
    let expires_at = expires_in_seconds.map(|seconds| {
        let span = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        Millis(Millis::now().0.saturating_add(span))
    });
    let (token, secret) = native.tokens.create(&name, role, sessions, expires_at).await?;
    let (id, name) = (token.token.clone(), token.name.clone());
    note(native, who, DaemonEvent::TokenCreated { token: id, name, role }).await;
    Ok(ReplyBody::Token { token, secret: Secret::new(secret) })
}

fn pair(native: &Native, who: &Principal, wanted: CreateToken) -> Result<ReplyBody, Refusal> {
    let CreateToken { name, role, sessions, expires_in_seconds } = wanted;
    who.may_daemon(Role::Owner)?;
    let device = Device {
        name,
        role,
        sessions,
        expires_in: expires_in_seconds.map(std::time::Duration::from_secs),
        tokens: native.tokens.clone(),
    };
    let (ticket, expires_at) = native.access.tickets().create_for(who, device)?;
    Ok(ReplyBody::Ticket { ticket: Secret::new(ticket), expires_at })
}

/// The token is created or revoked even if the log cannot be written.
async fn note(native: &Native, who: &Principal, event: DaemonEvent) {
    if let Err(refusal) = native.registry.note(Some(who), event).await {
        tracing::warn!(%refusal, "what happened to a token is not in the log");
    }
}

/// The size of a page: a default, and a maximum. Zero is refused, because an empty page looks like the last page.
fn limited(wanted: Option<u32>, (usual, most): (u32, u32)) -> Result<u32, Refusal> {
    match wanted.unwrap_or(usual) {
        0 => Err(invalid("`limit` must be at least 1")),
        wanted => Ok(wanted.min(most)),
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Invalid, message)
}

/// The first entries, up to the bytes of a page.
fn first_bytes(mut entries: Vec<Stored>) -> Vec<Stored> {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += entry.frame.len();
        bytes <= PAGE_BYTES
    });
    let fitting = fitting.count().max(1);
    entries.truncate(fitting);
    entries
}

/// The reply to a frame.
pub(crate) fn reply_frame(id: &CommandId, answer: &Answer) -> Bytes {
    // An id has no character that JSON would have to escape.
    answer_text(format!(r#"{{"type":"reply","id":"{id}","#), answer)
}

/// The same as the body of an HTTP response: without `type` and `id`.
pub(crate) fn reply_body(answer: &Answer) -> Bytes {
    answer_text("{".into(), answer)
}

fn answer_text(head: String, answer: &Answer) -> Bytes {
    let mut out = head.into_bytes();
    let body = match answer {
        Answer::Reply(body) => &**body,
        Answer::Attached(session, _) => &ReplyBody::Attached { session: *session },
        Answer::Subscribed(_) => &ReplyBody::Subscribed,
        Answer::Detached(_) | Answer::Unsubscribed => &ReplyBody::Done,
        Answer::History(entries) => {
            // The entries are JSON already: their bytes from the store are used unchanged.
            out.extend_from_slice(br#""reply":"history","entries":["#);
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&entry.frame);
            }
            out.extend_from_slice(b"]}");
            return out.into();
        }
    };
    // The head is an open JSON object: the body continues it, without its own brace.
    out.extend_from_slice(json(body).get(1..).unwrap_or(b"}"));
    out.into()
}

/// The error frame of a refused call.
pub(crate) fn error_frame(id: Option<&CommandId>, refusal: &Refusal) -> Bytes {
    frame_of(&ServerFrame::Error { id: id.cloned(), refusal: refusal.clone() })
}

/// A frame of the server as text.
pub(crate) fn frame_of(frame: &ServerFrame) -> Bytes {
    json(frame).into()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|error| {
        // Our own types always serialise; if one does not, the client gets an error instead of waiting for ever.
        tracing::error!(%error, "a frame cannot be written");
        br#"{"type":"error","code":"internal","message":"the answer cannot be written"}"#.to_vec()
    })
}

#[cfg(test)]
mod tests {
    use portolan_core::Seq;
    use serde_json::{Value, json};

    use super::*;

    fn read(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_reply_is_the_same_by_websocket_and_by_rest() {
        let id: CommandId = "c-1".parse().unwrap();
        let answers = [
            (Answer::Reply(Box::new(ReplyBody::Done)), json!({"reply": "done"})),
            (Answer::Reply(Box::new(ReplyBody::Raw { text: None })), json!({"reply": "raw", "text": null})),
            (Answer::Unsubscribed, json!({"reply": "done"})),
            (Answer::History(vec![]), json!({"reply": "history", "entries": []})),
            (
                Answer::History(vec![
                    Stored { seq: Seq(1), frame: Bytes::from_static(b"{\"seq\":1}") },
                    Stored { seq: Seq(2), frame: Bytes::from_static(b"{\"seq\":2}") },
                ]),
                json!({"reply": "history", "entries": [{"seq": 1}, {"seq": 2}]}),
            ),
        ];
        for (answer, mut expected) in answers {
            assert_eq!(read(&reply_body(&answer)), expected);
            let frame = reply_frame(&id, &answer);
            expected["type"] = "reply".into();
            expected["id"] = "c-1".into();
            assert_eq!(read(&frame), expected);
            assert!(serde_json::from_slice::<ServerFrame>(&frame).is_ok());
        }
    }

    #[test]
    fn a_page_of_history_ends_at_its_bytes_but_is_never_empty() {
        let entry = |seq, size| Stored { seq: Seq(seq), frame: Bytes::from(vec![b' '; size]) };
        let seqs = |entries| first_bytes(entries).iter().map(|entry| entry.seq.0).collect::<Vec<_>>();
        assert_eq!(seqs(vec![entry(1, PAGE_BYTES - 1), entry(2, 1), entry(3, 1)]), [1, 2]);
        assert_eq!(seqs(vec![entry(1, PAGE_BYTES + 1), entry(2, 1)]), [1]);
        assert_eq!(seqs(vec![]), [0; 0]);
    }
}
