//! Settings that several frontends share.

use std::{env, net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::MountError;

/// An address and port; `localhost` means 127.0.0.1.
pub fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    let literal = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    literal.as_deref().unwrap_or(&text).parse().map_err(|_| {
        D::Error::custom(format!(
            "`{text}` is not an address; use IP:PORT such as 127.0.0.1:7420 or [::1]:7420"
        ))
    })
}

/// An optional address.
pub fn optional_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    address(from).map(Some)
}

/// The folder of a frontend's new sessions: the configured folder, or the folder of this program.
pub fn folder(frontend: &'static str, set: Option<PathBuf>) -> Result<PathBuf, MountError> {
    let here = || {
        env::current_dir().map_err(|error| {
            let message =
                format!("the current folder of this program cannot be found ({error}); set `folder`");
            MountError { frontend, message }
        })
    };
    set.map_or_else(here, Ok)
}
