//! The calls to a daemon.

use std::time::Duration;

use portolan_core::{
    Action, CommandId, Millis, Position, Seq, SessionId, SessionSpec,
    audit::{AuditDetails, AuditPage, AuditQuery},
    command::{Receipt, Stage},
    log::delivery,
    policy::{BudgetDraft, BudgetId, Judgement, Rule, RuleDraft, RuleId},
    ports::{LogIn, PastPlace},
    registry::{
        AccountDescription, AgentDescription, BudgetDescription, PastDescription, PastMove, RuleDescription,
        Simulation, TakeUp, TakenUp,
    },
    session::state::{State, Summary},
};
use portolan_protocol::{
    AgentsRunning, ArchivePast, Call, ClientFrame, CreateToken, ReplyBody, SimulateRule, TestRule, TokenInfo,
};
use serde_json::value::RawValue;

use crate::{Client, Error, frames::Reply};

/// How long a command may take until it is settled: the agent's control requests take 30 s at most.
const SETTLED: Duration = Duration::from_secs(40);

/// Shorter parts of ids match too much.
const SHORTEST_PART: usize = 4;

/// The largest number of entries in one page of history.
const PAGE: u32 = 1000;

/// A list of sessions.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The sessions, newest first.
    pub sessions: Vec<Summary>,
    /// The agents of the whole machine; not for every client.
    pub agents: Option<AgentsRunning>,
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

fn unexpected(reply: &Reply) -> Error {
    Error::Unexpected(format!("{reply:?}"))
}

impl Client {
    /// The session whose id begins or ends with `given`.
    pub async fn resolve(&mut self, given: &str) -> Result<SessionId, Error> {
        if let Ok(session) = given.parse() {
            return Ok(session);
        }
        if given.len() < SHORTEST_PART {
            return Err(Error::Invalid(format!(
                "`{given}` is too short for an id; give at least {SHORTEST_PART} characters of an id from a list"
            )));
        }
        let call = Call::Resolve { prefix: given.to_owned() };
        expect_reply!(self.call(call).await?, ReplyBody::Resolved { session } => session)
    }

    /// Sessions, newest first.
    pub async fn list(&mut self, archived: Option<bool>, limit: u32) -> Result<Listed, Error> {
        let mut all: Vec<Summary> = Vec::new();
        loop {
            let page = (limit as usize - all.len()).min(PAGE as usize) as u32;
            let before = all.last().map(|summary| summary.session);
            let call = Call::List { archived, before, limit: Some(page) };
            let (found, agents) = expect_reply!(
                self.call(call).await?,
                ReplyBody::Sessions { sessions, agents } => (sessions, agents)
            )?;
            let was_last = (found.len() as u32) < page;
            all.extend(found);
            if was_last || all.len() >= limit as usize {
                return Ok(Listed { sessions: all, agents });
            }
        }
    }

    /// The current state of a session.
    pub async fn state(&mut self, session: SessionId) -> Result<(Seq, State), Error> {
        let call = Call::State { session };
        expect_reply!(self.call(call).await?, ReplyBody::State { seq, state } => (seq, *state))
    }

    /// Creates a session.
    pub async fn create(&mut self, spec: SessionSpec) -> Result<Summary, Error> {
        let call = Call::Create { spec: Box::new(spec) };
        expect_reply!(self.call(call).await?, ReplyBody::Session { session } => session)
    }

    /// Past conversations that agents keep by themselves, newest first.
    pub async fn past(
        &mut self,
        agent: Option<String>,
        cwd: Option<std::path::PathBuf>,
        place: PastPlace,
        limit: u32,
    ) -> Result<Vec<PastDescription>, Error> {
        let archived = place == PastPlace::Archived;
        let call = Call::Past { agent, cwd, archived, limit: Some(limit) };
        expect_reply!(self.call(call).await?, ReplyBody::Past { past } => past)
    }

    /// Lets an agent archive a past conversation, or restore it; returns that conversation.
    pub async fn move_past(&mut self, asked: PastMove) -> Result<Vec<PastDescription>, Error> {
        let PastMove { agent, past, place } = asked;
        let call = Call::ArchivePast(ArchivePast { past, agent, archived: place == PastPlace::Archived });
        expect_reply!(self.call(call).await?, ReplyBody::Past { past } => past)
    }

    /// The account that an agent is logged in with.
    pub async fn account(&mut self, agent: String) -> Result<AccountDescription, Error> {
        let call = Call::Account { agent };
        expect_reply!(self.call(call).await?, ReplyBody::Account { account } => account)
    }

    /// Logs an agent in, or begins a login.
    pub async fn log_in(&mut self, agent: String, with: LogIn) -> Result<AccountDescription, Error> {
        let call = Call::LogIn { agent, with };
        expect_reply!(self.call(call).await?, ReplyBody::Account { account } => account)
    }

    /// Logs an agent out.
    pub async fn log_out(&mut self, agent: String) -> Result<AccountDescription, Error> {
        let call = Call::LogOut { agent };
        expect_reply!(self.call(call).await?, ReplyBody::Account { account } => account)
    }

    /// Imports a past conversation: returns the session that continues it, and whether that session already existed.
    pub async fn take_up(&mut self, asked: TakeUp) -> Result<TakenUp, Error> {
        let TakeUp { past, copy, spec } = asked;
        let call = Call::TakeUp { past, copy, spec: Box::new(spec) };
        expect_reply!(
            self.call(call).await?,
            ReplyBody::TakenUp { session, already } => TakenUp { session, already }
        )
    }

    /// The rules for projects and for every session, and those of one session.
    pub async fn rules(&mut self, session: Option<SessionId>) -> Result<Vec<RuleDescription>, Error> {
        let call = Call::RuleList { session };
        expect_reply!(self.call(call).await?, ReplyBody::Rules { rules } => rules)
    }

    /// Adds a rule.
    pub async fn add_rule(&mut self, rule: RuleDraft) -> Result<Rule, Error> {
        let call = Call::RuleAdd { rule: Box::new(rule) };
        expect_reply!(self.call(call).await?, ReplyBody::Rule { rule } => *rule)
    }

    /// Replaces a rule.
    pub async fn edit_rule(&mut self, rule: RuleId, draft: RuleDraft) -> Result<Rule, Error> {
        let call = Call::RuleEdit { rule, draft: Box::new(draft) };
        expect_reply!(self.call(call).await?, ReplyBody::Rule { rule } => *rule)
    }

    /// Removes a rule.
    pub async fn remove_rule(&mut self, rule: RuleId) -> Result<Rule, Error> {
        let call = Call::RuleRemove { rule };
        expect_reply!(self.call(call).await?, ReplyBody::Rule { rule } => *rule)
    }

    /// Asks policy about a call.
    pub async fn test_rule(&mut self, asked: TestRule) -> Result<Judgement, Error> {
        let call = Call::RuleTest(asked);
        expect_reply!(self.call(call).await?, ReplyBody::Judgement { judgement } => judgement)
    }

    /// Compares a rule with the recorded requests.
    pub async fn simulate_rule(&mut self, asked: SimulateRule) -> Result<Simulation, Error> {
        let call = Call::RuleSimulate(asked);
        expect_reply!(self.call(call).await?, ReplyBody::Simulation { simulation } => simulation)
    }

    /// A page of the audit.
    pub async fn audit(&mut self, query: AuditQuery) -> Result<AuditPage, Error> {
        let call = Call::AuditList(query);
        expect_reply!(self.call(call).await?, ReplyBody::Audit { records, next } => AuditPage { records, next })
    }

    /// One record of the audit with its entry and its seal.
    pub async fn audit_record(&mut self, position: Position) -> Result<AuditDetails, Error> {
        let call = Call::AuditShow { position };
        expect_reply!(self.call(call).await?, ReplyBody::AuditRecord { details } => *details)
    }

    /// The budgets for projects, agents and every session, or those that count one session.
    pub async fn budgets(&mut self, session: Option<SessionId>) -> Result<Vec<BudgetDescription>, Error> {
        let call = Call::BudgetList { session };
        expect_reply!(self.call(call).await?, ReplyBody::Budgets { budgets } => budgets)
    }

    /// Sets the limits of a budget.
    pub async fn set_budget(&mut self, budget: BudgetDraft) -> Result<BudgetDescription, Error> {
        let call = Call::BudgetSet { budget: Box::new(budget) };
        expect_reply!(self.call(call).await?, ReplyBody::Budget { budget } => *budget)
    }

    /// Lets a budget count from zero again.
    pub async fn reset_budget(&mut self, budget: BudgetId) -> Result<BudgetDescription, Error> {
        let call = Call::BudgetReset { budget };
        expect_reply!(self.call(call).await?, ReplyBody::Budget { budget } => *budget)
    }

    /// Removes a budget.
    pub async fn remove_budget(&mut self, budget: BudgetId) -> Result<BudgetDescription, Error> {
        let call = Call::BudgetRemove { budget };
        expect_reply!(self.call(call).await?, ReplyBody::Budget { budget } => *budget)
    }

    /// Deletes a session for good.
    pub async fn delete(&mut self, session: SessionId) -> Result<(), Error> {
        let call = Call::Delete { session };
        expect_reply!(self.call(call).await?, ReplyBody::Done => ())
    }

    /// Sends a command to a session: returns the receipt as soon as the command is in the log.
    pub async fn submit(
        &mut self,
        session: SessionId,
        id: CommandId,
        action: Action,
    ) -> Result<Receipt, Error> {
        let frame = ClientFrame { id, call: Call::Command { session, command: action } };
        expect_reply!(self.send_and_wait(frame).await?, ReplyBody::Receipt { receipt } => receipt)
    }

    /// Sends a command to a session and waits until it is settled: consumed, refused or uncertain. The daemon answers
    /// the same id again from the log, so asking again shows the progress without joining the session.
    pub async fn carry_out(&mut self, session: SessionId, action: Action) -> Result<Receipt, Error> {
        let id = CommandId::random();
        let deadline = tokio::time::Instant::now() + SETTLED;
        let mut pause = Duration::from_millis(10);
        loop {
            let receipt = self.submit(session, id.clone(), action.clone()).await?;
            match receipt.stage {
                Stage::Refused { .. } | Stage::Uncertain { .. } | Stage::Consumed { .. } => {
                    return Ok(receipt);
                }
                Stage::Accepted | Stage::Sending | Stage::Delivered => {}
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Error::Unsettled { receipt, seconds: SETTLED.as_secs() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Joins a session; [`Client::next`] returns its frames.
    pub async fn attach(&mut self, session: SessionId, start: delivery::Start) -> Result<(), Error> {
        let call = Call::Attach { session, start, items_only: false };
        expect_reply!(self.call(call).await?, ReplyBody::Attached { .. } => ())
    }

    /// A page of history: the entries after `after`, as they are in the log.
    pub async fn history(&mut self, session: SessionId, after: Seq) -> Result<Vec<Box<RawValue>>, Error> {
        let call = Call::History { session, after, upto: None, limit: Some(PAGE) };
        match self.call(call).await? {
            Reply::History(entries) => Ok(entries),
            other @ Reply::Plain(_) => Err(unexpected(&other)),
        }
    }

    /// The agent's original text of an entry.
    pub async fn raw(&mut self, session: SessionId, seq: Seq) -> Result<Option<String>, Error> {
        let call = Call::Raw { session, seq };
        expect_reply!(self.call(call).await?, ReplyBody::Raw { text } => text)
    }

    /// The environment of a session's agent.
    pub async fn environment(
        &mut self,
        session: SessionId,
    ) -> Result<indexmap::IndexMap<String, String>, Error> {
        let call = Call::Environment { session };
        expect_reply!(self.call(call).await?, ReplyBody::Environment { variables } => variables)
    }

    /// The agents; `probe` says whether they are checked again.
    pub async fn agents(&mut self, probe: Probe) -> Result<Vec<AgentDescription>, Error> {
        let call = Call::Agents { probe: probe == Probe::Anew };
        expect_reply!(self.call(call).await?, ReplyBody::Agents { agents } => agents)
    }

    /// Creates a token: returns its description and its secret.
    pub async fn token_create(&mut self, token: CreateToken) -> Result<(TokenInfo, String), Error> {
        let call = Call::TokenCreate(token);
        expect_reply!(self.call(call).await?, ReplyBody::Token { token, secret } => (token, secret.reveal().to_owned()))
    }

    /// The tokens.
    pub async fn token_list(&mut self) -> Result<Vec<TokenInfo>, Error> {
        let call = Call::TokenList;
        expect_reply!(self.call(call).await?, ReplyBody::Tokens { tokens } => tokens)
    }

    /// Revokes a token.
    pub async fn token_revoke(&mut self, token: portolan_core::TokenId) -> Result<(), Error> {
        let call = Call::TokenRevoke { token };
        expect_reply!(self.call(call).await?, ReplyBody::Done => ())
    }

    /// A one-time ticket for a browser.
    pub async fn ticket(&mut self) -> Result<(String, Millis), Error> {
        let call = Call::TicketCreate;
        expect_reply!(self.call(call).await?, ReplyBody::Ticket { ticket, expires_at } => (ticket.reveal().to_owned(), expires_at))
    }

    /// A one-time ticket for another device.
    pub async fn pair(&mut self, device: CreateToken) -> Result<(String, Millis), Error> {
        let call = Call::Pair(device);
        expect_reply!(self.call(call).await?, ReplyBody::Ticket { ticket, expires_at } => (ticket.reveal().to_owned(), expires_at))
    }
}

/// Whether agents are checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The agents are checked again.
    Anew,
    /// The known results are enough.
    Known,
}
