//! `[insights]`: the dashboard's own listener, and what its clients may do.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The insights dashboard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Insights {
    #[serde(deserialize_with = "super::optional_address")]
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) allow_anonymous_loopback: bool,
    pub(crate) agent: String,
}

impl Default for Insights {
    fn default() -> Self {
        Self { listen: None, allow_anonymous_loopback: false, agent: "claude".into() }
    }
}
