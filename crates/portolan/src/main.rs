//! The binary: reads the command line, refuses to run for an agent, and runs one command.

mod arguments;
mod commands;
mod config;
mod daemon;
mod failure;
mod home;
mod output;
mod reference;
mod target;
mod terminal;
mod way_out;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Verb};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap chooses stdout or stderr itself.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if let Verb::DemoAgent { .. } = arguments.verb {
        return portolan_agents::demo::run(std::io::stdin(), std::io::stdout());
    }
    let json = arguments.global.json;
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure, json);
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn complain(failure: &Failure, json: bool) {
    if failure.message.is_empty() {
        return;
    }
    if json {
        let error = serde_json::json!({"error": {"exit": failure.exit as u8, "message": failure.message}});
        output::note(error.to_string());
    } else {
        // The message may quote text from an agent or a stranger's client.
        output::note(format!("portolan: {}", terminal::clean::visible(&failure.message)));
    }
}

fn run(arguments: Arguments) -> Outcome {
    if !is_harmless(&arguments.verb) {
        refuse_agents()?;
    }
    // The daemon serves many clients; a client waits for one daemon.
    let mut builder = match arguments.verb {
        Verb::Up(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("the runtime cannot be started: {error}")))?;
    let outcome = runtime.block_on(commands::run(arguments));
    // A thread that waits for stdin or a browser must not delay the exit.
    runtime.shutdown_background();
    outcome
}

/// Verbs that use no session and no daemon.
fn is_harmless(verb: &Verb) -> bool {
    match verb {
        Verb::Completions { .. } | Verb::Reference { .. } | Verb::DemoAgent { .. } => true,
        #[cfg(feature = "conformance")]
        Verb::Scripted(_) => true,
        _ => false,
    }
}

/// Refuses to run for an agent, because an agent that may use this program could approve its own requests.
/// docs/security.md describes what an agent can do in other ways, as the user it runs as.
fn refuse_agents() -> Outcome {
    let marked = std::env::var_os(portolan_agents::child::environment::MARKER).is_some();
    let descends = || {
        home::Home::find().is_ok_and(|home| {
            // A home without a key never had a daemon, so it has no agent.
            home::identity::Identity::read(&home)
                .is_some_and(|home| portolan_agents::descends_from_agent(std::process::id(), &home.key))
        })
    };
    if marked || descends() {
        return Err(Failure::new(
            "an agent of Portolan started this command, and agents may not use Portolan: they could approve their own \
             requests; run the command from your own terminal",
        ));
    }
    Ok(())
}
