//! What to start for a demo session: this program itself.

use std::ffi::OsString;

use portolan_core::ports::Launch;

use super::wire::{Hello, Resume};
use crate::{
    Supervision,
    child::{
        Program,
        environment::{RefusedVariable, environment},
    },
};

/// The command line and the environment.
pub(super) fn program(
    command: &[OsString],
    launch: &Launch,
    supervision: &Supervision,
) -> Result<Program, RefusedVariable> {
    Ok(Program {
        agent: super::KIND.into(),
        command: command.to_vec(),
        folder: launch.spec.cwd.clone(),
        environment: environment(&supervision.environment, &launch.spec.env)?,
    })
}

/// The first message.
pub(super) fn hello(launch: &Launch) -> Hello {
    let resume = launch.resume.as_ref().map(|point| Resume {
        session: point.agent_session.clone(),
        fork: point.fork,
        at: point.at_message.clone(),
    });
    Hello { generation: launch.generation.0, spec: (*launch.spec).clone(), resume }
}
