//! `[handheld]`: the listener for handheld devices, who may come in by it, and what happens in its slots.

use std::{net::SocketAddr, path::PathBuf};

use portolan_frontends::handheld::Network;
use serde::{Deserialize, Serialize};

/// The handheld.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Handheld {
    #[serde(deserialize_with = "super::optional_address")]
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) allow: Vec<Network>,
    pub(crate) agent: String,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) fill: bool,
    pub(crate) autospawn: bool,
}

impl Default for Handheld {
    fn default() -> Self {
        Self {
            listen: None,
            allow: Vec::new(),
            agent: "claude".into(),
            folder: None,
            fill: true,
            autospawn: false,
        }
    }
}
