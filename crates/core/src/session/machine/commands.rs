//! Commands: accepted once, carried out, and answered with a receipt.

use indexmap::IndexMap;
use sha2::{Digest as _, Sha256};

use super::{Machine, RECENT_COMMANDS, Recent, memory::Running, prompts::prompt_underway};
use crate::{
    Action, Actor, Event, Millis, Refusal, RefusalCode, RequestId, Seq,
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

/// What follows from an accepted command.
enum Next {
    /// Portolan has carried out the command.
    Done,
    /// This entry is all that the command does.
    Record(Event),
    /// The command asks for nothing, for this reason.
    Nothing(&'static str),
    /// A later entry settles the command, or one that is in the log already.
    Later,
    /// The agent gets this instruction. The setting holds when the agent has confirmed it, and from the next start on if
    /// the agent is not running.
    Tell(Order, Option<Setting>),
}

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
        match self.next(book, now, seq, by, action) {
            Next::Done => receipt(book, now, seq, Stage::Consumed { result: None }),
            Next::Record(event) => {
                book.append(now, Some(by.clone()), event);
                receipt(book, now, seq, Stage::Consumed { result: None });
            }
            Next::Nothing(why) => self.had_nothing_to_do(book, now, seq, why),
            Next::Later => {}
            Next::Tell(_, Some(setting)) if self.memory.running != Running::Ready => {
                book.append(now, Some(by.clone()), Event::SettingChanged { setting });
                let why = "the setting holds from the agent's next start";
                self.had_nothing_to_do(book, now, seq, why);
            }
            Next::Tell(order, setting) => {
                receipt(book, now, seq, Stage::Sending);
                self.tell(book, InstructionId(seq.0), order, setting);
            }
        }
    }

    fn next(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, by: &Actor, action: Action) -> Next {
        let tell = |order| Next::Tell(order, None);
        match action {
            Action::Prompt { .. } | Action::SendAgain { .. } => {
                if !self.must_wait(book, now) {
                    self.start_agent();
                    self.pump(book, now);
                }
                Next::Later
            }
            Action::Answer { request, answer, persist, .. } => {
                self.persist(book, now, seq, by, request, &answer, persist);
                self.answer(book, now, seq, by, request, answer);
                Next::Later
            }
            Action::Interrupt => self.interrupt(book, now, by),
            Action::Stop if !self.is_running() => Next::Nothing("the agent was not running"),
            Action::Stop => self.stop_by_command(book, now, seq),
            Action::Resume => self.resume(book, now, seq),
            Action::Rename { title } => Next::Record(Event::SessionRenamed { name: title.trim().to_owned() }),
            Action::Archive { archived: true } if self.is_running() => {
                book.append(now, Some(by.clone()), Event::SessionArchived { archived: true });
                // An archived session keeps no process.
                self.stop_by_command(book, now, seq)
            }
            Action::Archive { archived } => Next::Record(Event::SessionArchived { archived }),
            Action::Withdraw { prompt } => {
                let refusal = Refusal::new(RefusalCode::Ended, format!("withdrawn by {by}"));
                receipt(book, now, prompt, Stage::Refused { refusal });
                Next::Done
            }
            Action::Steer { prompt } => {
                let waits = book.state().commands.iter().find(|open| open.seq == prompt).cloned();
                if let Some(waits) = waits {
                    self.hand_over(book, now, waits, |content| Order::Steer { content });
                }
                Next::Done
            }
            Action::AddRule { rule } => {
                let rule = Box::new(rule.of_session(book.state().summary.session, seq, now, by));
                let added = Event::RuleAdded { tool_name: rule.text.clone(), rule: Some(rule.clone()) };
                book.append(now, Some(by.clone()), added);
                self.note_unbound(book, now, std::iter::once(&*rule));
                Next::Done
            }
            Action::RemoveRule { tool_name, rule } => Next::Record(Event::RuleRemoved { tool_name, rule }),
            Action::SetDeadline { request, seconds } => Next::Record(deadline(now, request, seconds)),
            Action::SetBudget { budget } => {
                self.set_budget(book, now, by, budget);
                Next::Done
            }
            Action::ResetBudget => {
                self.reset_budget(book, now, by);
                Next::Done
            }
            Action::SetModel { model } => {
                Next::Tell(Order::SetModel(model.clone()), Some(Setting::Model { model }))
            }
            Action::SetMode { mode } => self.set_mode(book.state(), mode),
            Action::SetThinking { tokens } => {
                Next::Tell(Order::SetThinking(tokens), Some(Setting::Thinking { tokens }))
            }
            Action::SetEnvironment { variables } => {
                let names = variables.keys().cloned().collect();
                Next::Tell(Order::SetEnvironment(variables), Some(Setting::Environment { names }))
            }
            Action::Rewind { to, dry_run } => tell(Order::Rewind { prompt: InstructionId(to.0), dry_run }),
            Action::McpStatus => tell(Order::McpStatus),
            Action::McpReconnect { server } => tell(Order::McpReconnect(server)),
            Action::McpToggle { server, enabled } => {
                self.memory.unkept = true;
                tell(Order::McpToggle { server, enabled })
            }
            Action::McpSet { servers, keep } => {
                if !keep {
                    self.memory.servers.clear();
                    // A sender that adds servers adds them again to the next start, as a page does with its tools.
                    self.memory.unkept = true;
                }
                self.memory.servers.extend(servers);
                tell(Order::McpSet(self.memory.servers.clone()))
            }
            Action::McpMessage { server, message } => tell(Order::McpMessage { server, message }),
            Action::Context => tell(Order::Context),
            Action::StopTask { task } => tell(Order::StopTask(task)),
            Action::Native { body } => tell(Order::Native(body)),
        }
    }

    fn interrupt(&mut self, book: &mut Book<State>, now: Millis, by: &Actor) -> Next {
        let state = book.state();
        let busy = state.turn.is_some() || !state.requests.is_empty() || prompt_underway(state);
        if self.memory.running != Running::Ready || !busy {
            return Next::Nothing("no turn was running");
        }
        let open: Vec<_> = state.requests.iter().map(|open| open.request).collect();
        for request in open {
            self.close_request(book, now, request, Outcome::Interrupted { by: by.clone() });
        }
        Next::Tell(Order::Interrupt, None)
    }

    fn stop_by_command(&mut self, book: &mut Book<State>, now: Millis, seq: Seq) -> Next {
        receipt(book, now, seq, Stage::Sending);
        (self.memory.again, self.memory.rest) = (false, None);
        self.stop_for(book, seq);
        Next::Later
    }

    fn resume(&mut self, book: &mut Book<State>, now: Millis, seq: Seq) -> Next {
        if matches!(self.memory.running, Running::Ready) {
            return Next::Nothing("the agent was running already");
        }
        receipt(book, now, seq, Stage::Sending);
        self.memory.restarts = 0;
        self.start_agent();
        Next::Later
    }

    fn set_mode(&self, state: &State, mode: String) -> Next {
        let can = &state.capabilities;
        let works_in = can.working_mode(&mode);
        let worked_in = state.summary.mode.as_deref().map(|mode| can.working_mode(mode));
        let is_elsewhere = state.agent.own_mode.is_some();
        let setting = Setting::Mode { mode };
        if self.memory.running == Running::Ready && worked_in.as_ref() == Some(&works_in) && !is_elsewhere {
            // The agent goes on as before; only Portolan's answers change.
            return Next::Record(Event::SettingChanged { setting });
        }
        Next::Tell(Order::SetMode(works_in), Some(setting))
    }

    /// Settles the command at once; its receipt says why the agent got no instruction.
    fn had_nothing_to_do(&mut self, book: &mut Book<State>, now: Millis, seq: Seq, why: &str) {
        let stage = Stage::Consumed { result: Some(why.into()) };
        self.settled = Some(stage.clone());
        receipt(book, now, seq, stage);
    }
}

/// The entry of a changed deadline.
fn deadline(now: Millis, request: Option<RequestId>, seconds: Option<u32>) -> Event {
    let at = |seconds: u32| Millis(now.0 + i64::from(seconds) * 1000);
    Event::DeadlineChanged {
        request,
        deadline: request.and_then(|_| seconds.map(at)),
        seconds: seconds.filter(|_| request.is_none()),
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
