//! Subject: an agent under test, and the place of one run.

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc};

use portolan_core::ports::Agent;

use crate::Profile;

/// The place of one scenario's agent: it contains nothing of the user.
#[derive(Clone, Debug)]
pub struct Place {
    /// Marks every process of it; no other scenario has the same key.
    pub key: String,
    /// The agent's home folder, empty at first.
    pub home: PathBuf,
    /// The address of its model.
    pub base_url: String,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Makes the agent for a place, or returns why it cannot.
pub type Make = dyn Fn(&Place) -> Result<Arc<dyn Agent>, String> + Send + Sync;

/// Ends the processes with the key of a place that still run, and names them. Called when all should have ended.
pub type Leftovers = fn(&str) -> Vec<String>;

/// An agent under test.
pub struct Subject {
    /// Its display name, with version and transport.
    pub title: String,
    /// Its names for things.
    pub profile: Profile,
    /// Makes it.
    pub make: Box<Make>,
    /// Finds processes that it left behind.
    pub leftovers: Leftovers,
    /// The command line of an MCP server with the tool `depth` (this crate's `contract-tool-server`). Without it, the
    /// scenarios that need it are not run.
    pub tool_server: Option<Vec<String>>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("title", &self.title).finish_non_exhaustive()
    }
}
