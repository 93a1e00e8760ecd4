//! The frontends: one folder per protocol, built on `portolan-host`.

pub mod agui;
pub mod handheld;
pub mod insights;
pub mod native;
#[cfg(test)]
mod testing;
pub mod way_out;

#[cfg(feature = "schema")]
pub use native::schema;
use portolan_host::Frontend;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generates from the list of frontends everything that depends on all of them: their tables in portolan.toml, and the
/// frontends themselves.
macro_rules! catalogue {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The settings of every frontend in portolan.toml: one table each, under the name of the frontend.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct Settings {
            $($(#[$doc])* pub $name: $name::Settings,)+
        }

        /// Every frontend. The native protocol comes first, and has no settings.
        pub fn catalogue(settings: Settings) -> Vec<Box<dyn Frontend>> {
            vec![native::frontend(), $($name::frontend(settings.$name)),+]
        }
    };
}

catalogue! {
    /// The dashboard.
    insights,
    /// The handheld.
    handheld,
    /// AG-UI.
    agui,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_in_portolan_toml_has_the_name_of_its_frontend() {
        let tables = serde_json::to_value(Settings::default()).unwrap();
        let tables: Vec<&str> = tables.as_object().unwrap().keys().map(String::as_str).collect();
        let frontends = catalogue(Settings::default());
        let names: Vec<&str> = frontends.iter().map(|frontend| frontend.name()).collect();
        assert_eq!(names, [&["native"][..], &tables].concat());
    }
}
