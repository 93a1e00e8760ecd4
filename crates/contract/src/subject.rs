//! Subject: an agent under test, and the place where one run of it lives.

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc};

use portolan_core::ports::Agent;

use crate::Profile;

/// Where one scenario's agent lives: nothing of the user's is in it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Names every process of it; no other scenario has the same.
    pub key: String,
    /// The agent's home folder, empty at first.
    pub home: PathBuf,
    /// Where its model is.
    pub base_url: String,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// Makes the agent for a place, or says why it cannot.
pub type Make = dyn Fn(&Place) -> Result<Arc<dyn Agent>, String> + Send + Sync;

/// Ends the processes with the key of a place that still run, and names them. Called when all should have ended.
pub type Leftovers = fn(&str) -> Vec<String>;

/// An agent under test.
pub struct Subject {
    /// What people call it, with version and road.
    pub title: String,
    /// What it calls things.
    pub profile: Profile,
    /// Makes it.
    pub make: Box<Make>,
    /// Finds what it left behind.
    pub leftovers: Leftovers,
    /// The command line of an MCP server with the tool `depth` (this crate's `contract-tool-server`). Without one, the
    /// scenario that needs it is not run.
    pub tool_server: Option<Vec<String>>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("title", &self.title).finish_non_exhaustive()
    }
}
