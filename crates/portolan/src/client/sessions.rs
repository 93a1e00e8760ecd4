//! What commands ask of the daemon, each as one call.

use std::time::Duration;

use portolan_core::{
    Action, CommandId, Millis, Refusal, RefusalCode, Seq, SessionId, SessionSpec,
    command::{Receipt, Stage},
    log::delivery,
    ports::{LogIn, PastPlace},
    registry::{AccountDescription, AgentDescription, PastDescription, PastMove, TakeUp, TakenUp},
    session::state::{State, Summary},
};
use portolan_frontends::native::wire::{AgentsRunning, ClientFrame, ReplyBody, TokenInfo};
use serde_json::value::RawValue;

use super::{Client, frames::Reply};
use crate::failure::{Exit, Failure, Outcome};

/// How long a command may take until it is settled: the agent's control requests take 30 s at most.
const SETTLED: Duration = Duration::from_secs(40);

/// Shorter parts of ids match too much.
const SHORTEST_PART: usize = 4;

/// The most entries in one page of history.
const PAGE: u32 = 1000;

/// A list of sessions.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) sessions: Vec<Summary>,
    /// Of the whole machine; not told to everybody.
    pub(crate) agents: Option<AgentsRunning>,
}

macro_rules! expect_reply {
    ($reply:expr, $pattern:pat => $value:expr) => {
        match $reply {
            Reply::Plain(body) => match *body {
                $pattern => Ok($value),
                other => Err(unexpected(&Reply::Plain(Box::new(other)))),
            },
            other => Err(unexpected(&other)),
        }
    };
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::new(format!("the daemon answered something else than was asked: {reply:?}"))
}

impl Client {
    /// The session whose id begins or ends with `given`.
    pub(crate) async fn resolve(&mut self, given: &str) -> Outcome<SessionId> {
        if let Ok(session) = given.parse() {
            return Ok(session);
        }
        if given.len() < SHORTEST_PART {
            return Err(Failure::usage(format!(
                "`{given}` is too short for an id; give at least {SHORTEST_PART} characters (`portolan ls` shows ids)"
            )));
        }
        let frame = ClientFrame::Resolve { id: CommandId::random(), prefix: given.to_owned() };
        expect_reply!(self.call(frame).await?, ReplyBody::Resolved { session } => session)
    }

    /// Sessions, newest first.
    pub(crate) async fn list(&mut self, archived: Option<bool>, limit: u32) -> Outcome<Listed> {
        let mut all: Vec<Summary> = Vec::new();
        loop {
            let page = (limit as usize - all.len()).min(PAGE as usize) as u32;
            let before = all.last().map(|summary| summary.session);
            let frame = ClientFrame::List { id: CommandId::random(), archived, before, limit: Some(page) };
            let (found, agents) = expect_reply!(
                self.call(frame).await?,
                ReplyBody::Sessions { sessions, agents } => (sessions, agents)
            )?;
            let was_last = (found.len() as u32) < page;
            all.extend(found);
            if was_last || all.len() >= limit as usize {
                return Ok(Listed { sessions: all, agents });
            }
        }
    }

    /// The state of a session now.
    pub(crate) async fn state(&mut self, session: SessionId) -> Outcome<(Seq, State)> {
        let frame = ClientFrame::State { id: CommandId::random(), session };
        expect_reply!(self.call(frame).await?, ReplyBody::State { seq, state } => (seq, *state))
    }

    /// Makes a session.
    pub(crate) async fn create(&mut self, spec: SessionSpec) -> Outcome<Summary> {
        let frame = ClientFrame::Create { id: CommandId::random(), spec: Box::new(spec) };
        expect_reply!(self.call(frame).await?, ReplyBody::Session { session } => session)
    }

    /// Conversations that agents have kept by themselves, the newest first.
    pub(crate) async fn past(
        &mut self,
        agent: Option<String>,
        cwd: Option<std::path::PathBuf>,
        place: PastPlace,
        limit: u32,
    ) -> Outcome<Vec<PastDescription>> {
        let archived = place == PastPlace::Archived;
        let frame = ClientFrame::Past { id: CommandId::random(), agent, cwd, archived, limit: Some(limit) };
        expect_reply!(self.call(frame).await?, ReplyBody::Past { past } => past)
    }

    /// Has an agent put a past conversation away, or take it out again: which one.
    pub(crate) async fn move_past(&mut self, asked: PastMove) -> Outcome<Vec<PastDescription>> {
        let PastMove { agent, past, place } = asked;
        let archived = place == PastPlace::Archived;
        let frame = ClientFrame::ArchivePast { id: CommandId::random(), past, agent, archived };
        expect_reply!(self.call(frame).await?, ReplyBody::Past { past } => past)
    }

    /// Who an agent is logged in as.
    pub(crate) async fn account(&mut self, agent: String) -> Outcome<AccountDescription> {
        let frame = ClientFrame::Account { id: CommandId::random(), agent };
        expect_reply!(self.call(frame).await?, ReplyBody::Account { account } => account)
    }

    /// Logs an agent in, or begins to.
    pub(crate) async fn log_in(&mut self, agent: String, with: LogIn) -> Outcome<AccountDescription> {
        let frame = ClientFrame::LogIn { id: CommandId::random(), agent, with };
        expect_reply!(self.call(frame).await?, ReplyBody::Account { account } => account)
    }

    /// Logs an agent out.
    pub(crate) async fn log_out(&mut self, agent: String) -> Outcome<AccountDescription> {
        let frame = ClientFrame::LogOut { id: CommandId::random(), agent };
        expect_reply!(self.call(frame).await?, ReplyBody::Account { account } => account)
    }

    /// Takes up a past conversation: the session that goes on with it, and whether it lived here before.
    pub(crate) async fn take_up(&mut self, asked: TakeUp) -> Outcome<TakenUp> {
        let TakeUp { past, copy, spec } = asked;
        let frame = ClientFrame::TakeUp { id: CommandId::random(), past, copy, spec: Box::new(spec) };
        expect_reply!(
            self.call(frame).await?,
            ReplyBody::TakenUp { session, already } => TakenUp { session, already }
        )
    }

    /// Deletes a session for good.
    pub(crate) async fn delete(&mut self, session: SessionId) -> Outcome {
        let frame = ClientFrame::Delete { id: CommandId::random(), session };
        expect_reply!(self.call(frame).await?, ReplyBody::Done => ())
    }

    /// Asks something of a session: the receipt as soon as it is in the log.
    pub(crate) async fn submit(
        &mut self,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Outcome<Receipt> {
        let frame = ClientFrame::Command { id, session, command: action };
        expect_reply!(self.call(frame).await?, ReplyBody::Receipt { receipt } => receipt)
    }

    /// Asks something of a session and waits until it is settled. The same id again is answered from the log,
    /// so asking again tells how far the command has come without joining the session.
    pub(crate) async fn carry_out(&mut self, session: SessionId, action: Action) -> Outcome<Receipt> {
        let id = CommandId::random();
        let deadline = tokio::time::Instant::now() + SETTLED;
        let mut pause = Duration::from_millis(10);
        loop {
            let receipt = self.submit(session, id.clone(), action.clone()).await?;
            match receipt.stage {
                Stage::Refused { refusal } => return Err(refused(&action, refusal)),
                Stage::Uncertain { reason } => {
                    let way_out = match &action {
                        Action::Prompt { .. } | Action::SendAgain { .. } => {
                            format!("`portolan resend {session} {}` sends it again", receipt.seq)
                        }
                        _ => format!("`portolan show {session}` tells how things stand"),
                    };
                    let message = format!("nobody knows whether it reached the agent ({reason}); {way_out}");
                    return Err(Failure { exit: Exit::Uncertain, message });
                }
                Stage::Consumed { .. } => return Ok(receipt),
                Stage::Accepted | Stage::Sending | Stage::Delivered => {}
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Failure {
                    exit: Exit::Uncertain,
                    message: format!(
                        "entry {} is not settled after {} s; `portolan show {session}` tells how far it is",
                        receipt.seq,
                        SETTLED.as_secs()
                    ),
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Joins a session; its frames come by [`Client::next`].
    pub(crate) async fn attach(&mut self, session: SessionId, start: delivery::Start) -> Outcome {
        let frame = ClientFrame::Attach { id: CommandId::random(), session, start, items_only: false };
        expect_reply!(self.call(frame).await?, ReplyBody::Attached { .. } => ())
    }

    /// A page of history: the entries after `after`, as they lie in the log.
    pub(crate) async fn history(&mut self, session: SessionId, after: Seq) -> Outcome<Vec<Box<RawValue>>> {
        let frame =
            ClientFrame::History { id: CommandId::random(), session, after, upto: None, limit: Some(PAGE) };
        match self.call(frame).await? {
            Reply::History(entries) => Ok(entries),
            other @ Reply::Plain(_) => Err(unexpected(&other)),
        }
    }

    /// What the agent really said at an entry.
    pub(crate) async fn raw(&mut self, session: SessionId, seq: Seq) -> Outcome<Option<String>> {
        let frame = ClientFrame::Raw { id: CommandId::random(), session, seq };
        expect_reply!(self.call(frame).await?, ReplyBody::Raw { text } => text)
    }

    /// The environment a session's agent gets.
    pub(crate) async fn environment(
        &mut self,
        session: SessionId,
    ) -> Outcome<indexmap::IndexMap<String, String>> {
        let frame = ClientFrame::Environment { id: CommandId::random(), session };
        expect_reply!(self.call(frame).await?, ReplyBody::Environment { variables } => variables)
    }

    /// The agents there are; looked at anew where `probe` says so.
    pub(crate) async fn agents(&mut self, probe: Probe) -> Outcome<Vec<AgentDescription>> {
        let frame = ClientFrame::Agents { id: CommandId::random(), probe: probe == Probe::Anew };
        expect_reply!(self.call(frame).await?, ReplyBody::Agents { agents } => agents)
    }

    /// Makes a token: what it is, and its secret.
    pub(crate) async fn token_create(&mut self, frame: ClientFrame) -> Outcome<(TokenInfo, String)> {
        expect_reply!(self.call(frame).await?, ReplyBody::Token { token, secret } => (token, secret.reveal().to_owned()))
    }

    /// The tokens there are.
    pub(crate) async fn token_list(&mut self) -> Outcome<Vec<TokenInfo>> {
        let frame = ClientFrame::TokenList { id: CommandId::random() };
        expect_reply!(self.call(frame).await?, ReplyBody::Tokens { tokens } => tokens)
    }

    /// Makes a token useless.
    pub(crate) async fn token_revoke(&mut self, token: portolan_core::TokenId) -> Outcome {
        let frame = ClientFrame::TokenRevoke { id: CommandId::random(), token };
        expect_reply!(self.call(frame).await?, ReplyBody::Done => ())
    }

    /// A one-time ticket for a browser.
    pub(crate) async fn ticket(&mut self) -> Outcome<(String, Millis)> {
        let frame = ClientFrame::TicketCreate { id: CommandId::random() };
        expect_reply!(self.call(frame).await?, ReplyBody::Ticket { ticket, expires_at } => (ticket.reveal().to_owned(), expires_at))
    }

    /// A one-time ticket for another device.
    pub(crate) async fn pair(&mut self, frame: ClientFrame) -> Outcome<(String, Millis)> {
        expect_reply!(self.call(frame).await?, ReplyBody::Ticket { ticket, expires_at } => (ticket.reveal().to_owned(), expires_at))
    }
}

/// Whether agents are looked at anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// They are.
    Anew,
    /// What is known is enough.
    Known,
}

/// A value of a setting that is not taken is a command line that makes no sense, whoever finds that out: the daemon
/// knows an agent's modes, but only the agent itself its models.
fn refused(action: &Action, refusal: Refusal) -> Failure {
    let is_setting = matches!(
        action,
        Action::SetModel { .. }
            | Action::SetMode { .. }
            | Action::SetThinking { .. }
            | Action::SetEnvironment { .. }
    );
    if is_setting && refusal.code == RefusalCode::AgentRefused {
        return Failure::usage(refusal.message);
    }
    refusal.into()
}
