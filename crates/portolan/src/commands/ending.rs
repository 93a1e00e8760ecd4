//! down, restart: the end of the daemon, with or without its agents.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use portolan_core::SessionId;
use portolan_holder::{Holders, RunFolder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Context, configuration, inputs, lifecycle, service};
use crate::{
    arguments::Down,
    daemon::{holding, lock::Lock},
    failure::{Failure, Outcome},
    home::{self, Home, Record},
    output::{self, Format},
};

/// A daemon without a running turn has stopped by then; if the daemon takes longer, `down` prints what it waits for.
const AT_ONCE: Duration = Duration::from_millis(300);

/// How long `down` waits after the grace time, for the stop ladder and for closing everything.
const STOPPING: Duration = Duration::from_secs(40);

/// What happens to agents that outlive the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agents {
    GoOn,
    End,
}

pub(super) async fn down(context: &Context, down: Down) -> Outcome {
    lifecycle::local_only(context, "down")?;
    let home = Home::find()?;
    let holders = holding::asked(&home);
    let running = holders.living().len();
    let agents = match (down.keep, down.end || down.now) {
        (true, _) => Agents::GoOn,
        (_, true) => Agents::End,
        _ if running > 0 && inputs::is_asked() && context.format() == Format::Plain => {
            if inputs::confirm(&question(running)) { Agents::GoOn } else { Agents::End }
        }
        _ => Agents::End,
    };
    let pid = daemon_pid(&home)?;
    if let Some(pid) = pid {
        stop(context, &home, pid, agents, down.now).await?;
    } else if Record::read(&home).is_some() {
        home::remove(&home.record());
        home::remove(&home.socket());
    }
    let ended = match agents {
        // The daemon has ended those that it knew.
        Agents::End => end_left_running(&holders, down.now).await,
        Agents::GoOn => 0,
    };
    let left = holders.living();
    match context.format() {
        Format::Json => output::json(&match pid {
            Some(pid) => json!({"stopped": true, "pid": pid, "agents_left": left.len()}),
            None => {
                json!({"stopped": false, "running": false, "agents_ended": ended, "agents_left": left.len()})
            }
        })?,
        Format::Plain => {
            output::note(match pid {
                Some(_) => "stopped",
                None => "no daemon runs",
            });
            if ended > 0 && pid.is_none() {
                output::note(format!("agents of an earlier daemon that were ended: {ended}"));
            }
        }
    }
    match agents {
        _ if left.is_empty() => Ok(()),
        Agents::End => Err(could_not_end(&RunFolder::at(home.run()), &left)),
        Agents::GoOn if context.format() == Format::Json => Ok(()),
        Agents::GoOn => {
            let s = if left.len() == 1 { "runs" } else { "run" };
            output::note(format!(
                "{} of the agents still {s}; `portolan up` takes over running agents, `portolan down --end` ends them",
                left.len()
            ));
            Ok(())
        }
    }
}

/// Some holders live although they were asked to end, and waited for.
fn could_not_end(run: &RunFolder, left: &BTreeSet<SessionId>) -> Failure {
    let sessions: Vec<String> = left.iter().map(ToString::to_string).collect();
    let pids: Vec<String> =
        left.iter().filter_map(|session| Some(run.written(*session).holder_pid?.to_string())).collect();
    let s = if left.len() == 1 { "" } else { "s" };
    let what = format!("the agent{s} of the session{s} {} did not end", sessions.join(", "));
    if pids.is_empty() {
        return Failure::new(format!("{what}; try again"));
    }
    let pids = pids.join(" ");
    Failure::new(format!("{what}; `kill -9 {pids}` ends the holder{s} and the agent{s}"))
}

fn question(running: usize) -> String {
    let (s, them) = if running == 1 { ("", "it") } else { ("s", "them") };
    format!("{running} agent{s} can continue without the daemon. Let {them} continue? (no: end {them})")
}

async fn end_left_running(holders: &Holders, now: bool) -> usize {
    if now { holders.kill_all().await } else { holders.end_all().await.len() }
}

/// The daemon's process, if a daemon runs.
fn daemon_pid(home: &Home) -> Outcome<Option<u32>> {
    let Some(holder) = Lock::holder(home) else { return Ok(None) };
    let pid = holder.pid.or_else(|| Record::read(home).map(|record| record.pid));
    pid.map(Some).ok_or_else(|| Failure::new("a daemon runs, but its pid is not known yet; try again"))
}

/// Stops the daemon, and waits until it has ended.
async fn stop(context: &Context, home: &Home, pid: u32, agents: Agents, now: bool) -> Outcome {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| {
        Failure::new(format!("the recorded pid {pid} of the daemon is not valid; end the daemon yourself"))
    })?;
    let signal = match agents {
        Agents::GoOn => Signal::TERM,
        Agents::End => Signal::INT,
    };
    let signal = || match kill_process(process, signal) {
        // The daemon has ended meanwhile, as wanted.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::new(format!("the daemon (pid {pid}) cannot be signalled: {error}"))),
    };
    signal()?;
    let mut second = now;
    let grace =
        configuration::settings(home).map(|settings| settings.limits.shutdown_grace()).unwrap_or_default();
    let begun = Instant::now();
    let deadline = begun + grace + STOPPING;
    let mut told = now || context.format() == Format::Json;
    while Lock::holder(home).is_some() {
        if !told && begun.elapsed() > AT_ONCE {
            told = true;
            output::note(format!(
                "running turns get up to {} s to end; `portolan down --now` ends them at once",
                grace.as_secs()
            ));
        }
        if second && Record::read(home).is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            signal()?;
            second = false;
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(format!(
                "the daemon (pid {pid}) has not stopped; `portolan down --now` ends it at once"
            )));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

pub(super) async fn restart(context: &Context) -> Outcome {
    lifecycle::local_only(context, "restart")?;
    let home = Home::find()?;
    // A mistake in the configuration must not stop the daemon that runs.
    let settings = configuration::settings(&home)?;
    let record = Record::read(&home);
    if let Some(pid) = daemon_pid(&home)? {
        if let Some(service) = service::that_runs(pid) {
            return service::restart(context, &service);
        }
        stop(context, &home, pid, Agents::GoOn, false).await?;
    }
    let mut options = record.as_ref().map(|record| record.options.clone()).unwrap_or_default();
    let picks_a_port =
        settings.listen.address.port() == 0 || options.iter().any(|option| option.ends_with(":0"));
    if let Some(record) = record.filter(|record| picks_a_port && !record.listen.is_empty()) {
        // Clients look for the daemon where it was.
        if let Some(at) = options.iter().position(|option| option == "--listen") {
            options.drain(at..at + 2);
        }
        options.extend(["--listen".to_owned(), record.listen]);
    }
    lifecycle::start_and_announce(context, &home, &options, true).await?;
    let running = holding::asked(&home).living().len();
    if running > 0 && context.format() == Format::Plain {
        output::note(format!(
            "{running} running {}",
            if running == 1 { "agent went on" } else { "agents went on" }
        ));
    }
    Ok(())
}
