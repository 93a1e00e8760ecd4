//! Commands: accepted once, carried out, and answered with a receipt.

use indexmap::IndexMap;
use sha2::{Digest as _, Sha256};

use super::{Machine, RECENT_COMMANDS, Recent, memory::Running, prompts::prompt_underway};
use crate::{
    Action, Actor, Event, Millis, Refusal, RefusalCode, Seq,
    command::{Command, CommandKey, Receipt, Stage},
    event::Setting,
    log::Book,
    ports::{InstructionId, Op, Order},
    request::{Answer, Outcome},
    session::{
        settle::{command_row, receipt},
        state::State,
    },
    spec::MASK,
};

impl Machine {
    /// A receipt that this machine gave and the store may not have yet. Refused if the id belonged to another command.
    fn remembered(&self, key: &CommandKey, asked: [u8; 32]) -> Result<Option<Receipt>, Refusal> {
        let Some(known) = self.recent.iter().rev().find(|known| known.key == *key) else { return Ok(None) };
        if known.asked != asked {
            return Err(Refusal::id_used(&key.id, known.seq));
        }
        Ok(Some(Receipt { seq: known.seq, stage: known.stage.clone() }))
    }

    /// Accepts or refuses a command. The sender may get the receipt after the receipt's entry is visible.
    pub fn command(
        &mut self,
        book: &mut Book<State>,
        now: Millis,
        command: Command,
    ) -> Result<Receipt, Refusal> {
        let asked = fingerprint(&command.action);
        if let Some(receipt) = self.remembered(&command.key, asked)? {
            self.send_parked(book.state(), Some(&command.key))?;
            return Ok(receipt);
        }
        self.admit(book.state(), &command.action)?;
        let Command { key, by, action } = command;
        let shown = Box::new(masked(&action));
        let seq =
            book.append(now, Some(by.clone()), Event::CommandAccepted { key: key.clone(), action: shown });
        book.also(Op::Command(command_row(&key, seq, &Stage::Accepted)));
        self.carry_out(book, now, seq, &by, action);
        let stage = book.state().commands.iter().find(|open| open.seq == seq).map(|open| open.stage.clone());
        let stage = stage.or(self.settled.take()).unwrap_or(Stage::Consumed { result: None });
        if self.recent.len() == RECENT_COMMANDS {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { key, seq, stage: stage.clone(), asked });
        Ok(Receipt { seq, stage })
    }

    fn carry_out(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, by: &Actor, action: Action) {
        let done = |book: &mut Book<State>| receipt(book, now, seq, Stage::Consumed { result: None });
        let mut setting = None;
        let order = match action {
            Action::Prompt { .. } | Action::SendAgain { .. } => {
                if self.must_wait(book, now) {
                    return;
                }
                self.start_agent();
                return self.pump(book, now);
            }
            Action::Answer { request, answer, persist, .. } => {
                self.persist(book, now, seq, by, request, &answer, persist);
                return self.answer(book, now, seq, by, request, answer);
            }
            Action::Interrupt => {
                let state = book.state();
                let busy = state.turn.is_some() || !state.requests.is_empty() || prompt_underway(state);
                if self.memory.running != Running::Ready || !busy {
                    return self.had_nothing_to_do(book, now, seq, "no turn was running");
                }
                let open: Vec<_> = book.state().requests.iter().map(|open| open.request).collect();
                for request in open {
                    self.close_request(book, now, request, Outcome::Interrupted { by: by.clone() });
                }
                Order::Interrupt
            }
            Action::Stop => {
                if !self.is_running() {
                    return self.had_nothing_to_do(book, now, seq, "the agent was not running");
                }
                receipt(book, now, seq, Stage::Sending);
                (self.memory.again, self.memory.rest) = (false, None);
                return self.stop_for(book, seq);
            }
            Action::Resume => {
                if matches!(self.memory.running, Running::Ready) {
                    return self.had_nothing_to_do(book, now, seq, "the agent was running already");
                }
                receipt(book, now, seq, Stage::Sending);
                self.memory.restarts = 0;
                return self.start_agent();
            }
            Action::Rename { title } => {
                let name = title.trim().to_owned();
                book.append(now, Some(by.clone()), Event::SessionRenamed { name });
                return done(book);
            }
            Action::Archive { archived } => {
                book.append(now, Some(by.clone()), Event::SessionArchived { archived });
                if archived && self.is_running() {
                    // An archived session keeps no process.
                    receipt(book, now, seq, Stage::Sending);
                    (self.memory.again, self.memory.rest) = (false, None);
                    return self.stop_for(book, seq);
                }
                return done(book);
            }
            Action::Withdraw { prompt } => {
                let message = format!("withdrawn by {by}");
                let refusal = Refusal::new(RefusalCode::Ended, message);
                receipt(book, now, prompt, Stage::Refused { refusal });
                return done(book);
            }
            Action::Steer { prompt } => {
                let waits = book.state().commands.iter().find(|open| open.seq == prompt).cloned();
                if let Some(waits) = waits {
                    self.hand_over(book, now, waits, |content| Order::Steer { content });
                }
                return done(book);
            }
            Action::AddRule { rule } => {
                let session = book.state().summary.session;
                let rule = Box::new(rule.of_session(session, seq, now, by));
                book.append(
                    now,
                    Some(by.clone()),
                    Event::RuleAdded { tool_name: rule.text.clone(), rule: Some(rule.clone()) },
                );
                self.note_unbound(book, now, std::iter::once(&*rule));
                return done(book);
            }
            Action::SetDeadline { request, seconds } => {
                let at = |seconds: u32| Millis(now.0 + i64::from(seconds) * 1000);
                let changed = Event::DeadlineChanged {
                    request,
                    deadline: request.and_then(|_| seconds.map(at)),
                    seconds: seconds.filter(|_| request.is_none()),
                };
                book.append(now, Some(by.clone()), changed);
                return done(book);
            }
            Action::SetBudget { budget } => {
                self.set_budget(book, now, by, budget);
                return done(book);
            }
            Action::ResetBudget => {
                self.reset_budget(book, now, by);
                return done(book);
            }
            Action::RemoveRule { tool_name, rule } => {
                book.append(now, Some(by.clone()), Event::RuleRemoved { tool_name, rule });
                return done(book);
            }
            Action::SetModel { model } => {
                setting = Some(Setting::Model { model: model.clone() });
                Order::SetModel(model)
            }
            Action::SetMode { mode } => {
                let can = &book.state().capabilities;
                let works_in = can.working_mode(&mode);
                let worked_in = book.state().summary.mode.as_deref().map(|mode| can.working_mode(mode));
                let is_elsewhere = book.state().agent.own_mode.is_some();
                if self.memory.running == Running::Ready
                    && worked_in.as_ref() == Some(&works_in)
                    && !is_elsewhere
                {
                    // The agent goes on as before; only Portolan's answers change.
                    book.append(
                        now,
                        Some(by.clone()),
                        Event::SettingChanged { setting: Setting::Mode { mode } },
                    );
                    return done(book);
                }
                setting = Some(Setting::Mode { mode });
                Order::SetMode(works_in)
            }
            Action::SetThinking { tokens } => {
                setting = Some(Setting::Thinking { tokens });
                Order::SetThinking(tokens)
            }
            Action::SetEnvironment { variables } => {
                let names = variables.keys().cloned().collect();
                setting = Some(Setting::Environment { names });
                Order::SetEnvironment(variables)
            }
            Action::Rewind { to, dry_run } => Order::Rewind { prompt: InstructionId(to.0), dry_run },
            Action::McpStatus => Order::McpStatus,
            Action::McpReconnect { server } => Order::McpReconnect(server),
            Action::McpToggle { server, enabled } => {
                self.memory.unkept = true;
                Order::McpToggle { server, enabled }
            }
            Action::McpSet { servers, keep } => {
                if !keep {
                    self.memory.servers.clear();
                    // A sender that adds servers adds them again to the next start, as a page does with its tools.
                    self.memory.unkept = true;
                }
                self.memory.servers.extend(servers);
                Order::McpSet(self.memory.servers.clone())
            }
            Action::McpMessage { server, message } => Order::McpMessage { server, message },
            Action::Context => Order::Context,
            Action::StopTask { task } => Order::StopTask(task),
            Action::Native { body } => Order::Native(body),
        };
        if let Some(setting) = setting.take_if(|_| self.memory.running != Running::Ready) {
            // The setting holds from the next start on.
            book.append(now, Some(by.clone()), Event::SettingChanged { setting });
            let why = "the setting holds from the agent's next start";
            return self.had_nothing_to_do(book, now, seq, why);
        }
        receipt(book, now, seq, Stage::Sending);
        self.tell(book, InstructionId(seq.0), order, setting);
    }

    /// Settles the command at once; its receipt says why the agent got no instruction.
    fn had_nothing_to_do(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, why: &str) {
        let stage = Stage::Consumed { result: Some(why.into()) };
        self.settled = Some(stage.clone());
        receipt(book, now, seq, stage);
    }
}

/// The whole command in a short form.
fn fingerprint(action: &Action) -> [u8; 32] {
    // Our own types serialise.
    Sha256::digest(serde_json::to_vec(action).unwrap_or_default()).into()
}

/// The action as the log shows it to everyone.
pub(crate) fn masked(action: &Action) -> Action {
    match action {
        Action::SetEnvironment { variables } => {
            let hidden = variables.keys().map(|name| (name.clone(), MASK.to_owned())).collect();
            Action::SetEnvironment { variables: hidden }
        }
        Action::McpSet { servers, keep } => {
            let mut servers = servers.clone();
            servers.values_mut().for_each(crate::spec::mask_server);
            Action::McpSet { servers, keep: *keep }
        }
        // The entry that closes the request shows the answer, with secrets masked.
        Action::Answer {
            request,
            digest,
            answer: Answer::Choices { .. } | Answer::Content { .. },
            persist,
        } => Action::Answer {
            request: *request,
            digest: digest.clone(),
            answer: Answer::Choices { answers: IndexMap::new() },
            persist: persist.clone(),
        },
        other => other.clone(),
    }
}
