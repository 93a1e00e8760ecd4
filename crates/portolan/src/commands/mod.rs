//! Carries out the verbs: one file per group of verbs. [`ACTIONS`] lists the verb for each action of core.

mod account;
mod act;
mod advice;
mod agents;
mod answer;
mod attach;
mod audit;
pub(crate) mod browse;
mod budgets;
mod configuration;
mod create;
mod devices;
#[cfg(feature = "conformance")]
mod doctor;
mod ending;
mod export;
mod follow;
mod handheld;
mod inputs;
mod lifecycle;
mod logs;
mod meant;
mod pair;
mod past;
mod ps;
mod results;
mod rules;
#[cfg(feature = "conformance")]
mod scripted;
mod send;
mod service;
mod sessions;
mod tokens;

use portolan_client::Client;

use crate::{
    arguments::{Arguments, Global, Verb},
    daemon::holding,
    failure::Outcome,
    output::Format,
    reference,
    target::{Start, Target},
};

/// The arguments that every command gets.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
}

impl Context {
    /// The format of the output.
    pub(crate) fn format(&self) -> Format {
        if self.global.json { Format::Json } else { Format::Plain }
    }

    /// A connection. Starts the daemon if none runs.
    pub(crate) async fn client(&self) -> Outcome<Client> {
        Target::find(&self.global, Start::IfNeeded)?.connect().await
    }
}

/// Every action of core and of the daemon, with a command line for it. docs/cli.md shows this table; a test fails when
/// an action has no command line.
pub(crate) const ACTIONS: &[(&str, &str)] = &[
    ("prompt", "send ID hello"),
    ("answer", "approve ID"),
    ("answer", "deny ID"),
    ("answer", "answer ID yes"),
    ("interrupt", "interrupt ID"),
    ("stop", "stop ID"),
    ("resume", "resume ID"),
    ("rename", "rename ID name"),
    ("archive", "archive ID"),
    ("set_model", "set ID model opus"),
    ("set_mode", "set ID mode plan"),
    ("set_thinking", "set ID thinking 4000"),
    ("set_environment", "set ID env NAME=VALUE"),
    ("rewind", "rewind ID --to 7"),
    ("mcp_status", "mcp ID status"),
    ("mcp_reconnect", "mcp ID reconnect files"),
    ("mcp_toggle", "mcp ID toggle files off"),
    ("mcp_set", "mcp ID set {}"),
    ("mcp_message", "mcp ID message files {}"),
    ("context", "context ID"),
    ("stop_task", "task stop ID t1"),
    ("withdraw", "withdraw ID 7"),
    ("steer", "steer ID 7"),
    ("send_again", "resend ID 7"),
    ("add_rule", "rules add allow Bash --scope session:ID"),
    ("remove_rule", "rules remove 1f2e3d4c --session ID"),
    ("set_deadline", "deadline ID 5m"),
    ("set_budget", "budget set --scope session:ID --turns 20"),
    ("reset_budget", "budget reset session:ID"),
    ("native", "native ID {}"),
    ("create", "new demo hello"),
    ("create", "fork ID"),
    ("take_up", "past resume ID"),
    ("archive_past", "past archive ID"),
    ("delete", "delete ID"),
    ("log_in", "account codex login"),
    ("log_out", "account codex logout"),
    ("rule_add", "rules add allow Bash"),
    ("rule_edit", "rules edit 1f2e3d4c deny Bash"),
    ("rule_remove", "rules remove 1f2e3d4c"),
    ("budget_set", "budget set --scope project:. --cost 5 --per day"),
    ("budget_reset", "budget reset 1f2e3d4c"),
    ("budget_remove", "budget remove 1f2e3d4c"),
    ("token_create", "token create ada"),
    ("token_revoke", "token revoke ada"),
];

/// Carries out a command line.
pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let context = Context { global: arguments.global };
    match arguments.verb {
        Verb::Up(up) => lifecycle::up(&context, up).await,
        Verb::Down(down) => ending::down(&context, down).await,
        Verb::Restart => ending::restart(&context).await,
        Verb::Ps => ps::ps(&context).await,
        Verb::Status => lifecycle::status(&context).await,
        Verb::Hold { session } => holding::run(session).await,
        Verb::Open { print } => lifecycle::open(&context, print).await,
        Verb::Pair(asked) => pair::pair(&context, asked).await,
        Verb::Agents { probe } => agents::agents(&context, probe).await,
        Verb::Account { agent, verb } => account::account(&context, agent, verb).await,
        #[cfg(feature = "conformance")]
        Verb::Doctor(asked) => doctor::doctor(&context, asked).await,
        Verb::New(new) => create::new(&context, *new).await,
        Verb::Fork { id, at, name, attach, prompt } => {
            create::fork(&context, create::Fork { id, at, name, attach, prompt }).await
        }
        Verb::Past(asked) => past::past(&context, asked).await,
        Verb::Ls { all, archived, limit } => {
            let which = match (all, archived) {
                (_, true) => Some(true),
                (true, false) => None,
                (false, false) => Some(false),
            };
            sessions::ls(&context, which, limit).await
        }
        Verb::Show { id, env, entries, after, raw } => {
            let what = match (env, entries, raw) {
                (true, ..) => sessions::What::Environment,
                (_, true, _) => sessions::What::Entries(after.unwrap_or(0)),
                (_, _, Some(seq)) => sessions::What::Raw(seq),
                _ => sessions::What::State,
            };
            sessions::show(&context, &id, what).await
        }
        Verb::Delete { id, yes } => sessions::delete(&context, &id, yes).await,
        Verb::Attach(attach) => attach::attach(&context, attach).await,
        Verb::Send(send) => send::send(&context, send).await,
        Verb::Approve(approve) => answer::approve(&context, approve).await,
        Verb::Deny { id, request, message, interrupt, persist, option } => {
            let answer = portolan_core::request::Answer::Deny { message, interrupt, option };
            answer::deny(&context, &id, request, answer, persist).await
        }
        Verb::Answer(answer) => answer::answer(&context, answer).await,
        Verb::Export { id, format, output, force } => {
            let existing = if force { export::Existing::Replace } else { export::Existing::Keep };
            export::export(&context, &id, format, output, existing).await
        }
        Verb::Logs { id, follow, lines } => logs::logs(&context, id, logs::Follow::when(follow), lines).await,
        Verb::Audit { verb } => audit::run(&context, verb).await,
        Verb::Rules { verb } => rules::run(&context, verb).await,
        Verb::Budget { verb } => budgets::run(&context, verb).await,
        Verb::Explain { id, request } => rules::explain(&context, &id, request).await,
        Verb::Simulate(asked) => rules::simulate(&context, asked).await,
        Verb::Token { verb } => tokens::run(&context, verb).await,
        Verb::Devices { verb } => devices::run(&context, verb).await,
        Verb::Handheld { verb } => handheld::run(&context, verb).await,
        Verb::Config { verb } => configuration::run(&context, verb),
        Verb::Service { verb } => service::run(&context, verb),
        Verb::Completions { shell } => reference::completions(shell, context.format()),
        Verb::Reference { page } => reference::print(page),
        #[cfg(feature = "conformance")]
        Verb::Scripted(asked) => scripted::scripted(asked).await,
        Verb::DemoAgent { .. } => lifecycle::demo_agent(),
        verb @ (Verb::Interrupt { .. }
        | Verb::Stop { .. }
        | Verb::Resume { .. }
        | Verb::Rename { .. }
        | Verb::Archive { .. }
        | Verb::Set { .. }
        | Verb::Rewind { .. }
        | Verb::Mcp { .. }
        | Verb::Context { .. }
        | Verb::Task { .. }
        | Verb::Withdraw { .. }
        | Verb::Deadline { .. }
        | Verb::Steer { .. }
        | Verb::Resend { .. }
        | Verb::Rule { .. }
        | Verb::Native { .. }) => act::act(&context, verb).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser as _;
    use portolan_core::{Action, command::DAEMON_ACTIONS};

    use super::*;
    use crate::arguments::{AccountVerb, PastVerb};

    fn parse(line: &str) -> Verb {
        Arguments::try_parse_from(std::iter::once("portolan").chain(line.split(' '))).unwrap().verb
    }

    // covers: 003-153
    #[test]
    fn every_action_has_a_verb() {
        let known: BTreeSet<&str> = ACTIONS.iter().map(|(action, _)| *action).collect();
        let all: BTreeSet<&str> =
            Action::NAMES.into_iter().chain([Action::NATIVE]).chain(DAEMON_ACTIONS).collect();
        assert_eq!(known, all);
    }

    #[test]
    fn every_command_line_of_the_table_makes_its_action() {
        for (action, line) in ACTIONS {
            let verb = parse(line);
            let other;
            let made = match &verb {
                Verb::Send(_) => "prompt",
                Verb::Approve(_) | Verb::Deny { .. } | Verb::Answer(_) => "answer",
                Verb::New(_) | Verb::Fork { .. } => "create",
                Verb::Past(crate::arguments::Past { verb: Some(PastVerb::Resume(_)), .. }) => "take_up",
                Verb::Past(crate::arguments::Past { verb: Some(PastVerb::Archive { .. }), .. }) => {
                    "archive_past"
                }
                Verb::Account { verb: Some(AccountVerb::Login { .. }), .. } => "log_in",
                Verb::Account { verb: Some(AccountVerb::Logout), .. } => "log_out",
                Verb::Delete { .. } => "delete",
                Verb::Rules { verb: crate::arguments::Rules::Add(draft) } if draft.scope == "user" => {
                    "rule_add"
                }
                Verb::Rules { verb: crate::arguments::Rules::Add(_) } => "add_rule",
                Verb::Rules { verb: crate::arguments::Rules::Edit { .. } } => "rule_edit",
                Verb::Rules { verb: crate::arguments::Rules::Remove { session: Some(_), .. } } => {
                    "remove_rule"
                }
                Verb::Rules { verb: crate::arguments::Rules::Remove { .. } } => "rule_remove",
                Verb::Budget { verb: crate::arguments::Budgets::Set(set) } => {
                    if set.scope.starts_with("session:") { "set_budget" } else { "budget_set" }
                }
                Verb::Budget { verb: crate::arguments::Budgets::Reset { budget } } => {
                    if budget.starts_with("session:") { "reset_budget" } else { "budget_reset" }
                }
                Verb::Budget { verb: crate::arguments::Budgets::Remove { .. } } => "budget_remove",
                Verb::Token { verb: crate::arguments::Token::Create { .. } } => "token_create",
                Verb::Token { verb: crate::arguments::Token::Revoke { .. } } => "token_revoke",
                _ => {
                    other = act::action(verb).unwrap().1.name();
                    other.as_str()
                }
            };
            assert_eq!(made, *action, "`portolan {line}`");
        }
    }
}
