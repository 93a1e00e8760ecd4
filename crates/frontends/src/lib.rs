//! The north side: one folder per protocol. They stand on `portolan-host`.

pub mod agui;
pub mod handheld;
pub mod insights;
pub mod native;
#[cfg(test)]
mod testing;

#[cfg(feature = "schema")]
pub use native::schema;
use portolan_host::Frontend;
use serde::{Deserialize, Serialize};

/// What portolan.toml says to every frontend: a table each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The dashboard.
    pub insights: insights::Settings,
    /// The handheld.
    pub handheld: handheld::Settings,
    /// AG-UI.
    pub agui: agui::Settings,
}

/// Every frontend there is.
pub fn catalogue(settings: Settings) -> Vec<Box<dyn Frontend>> {
    vec![
        native::frontend(),
        insights::frontend(settings.insights),
        handheld::frontend(settings.handheld),
        agui::frontend(settings.agui),
    ]
}
