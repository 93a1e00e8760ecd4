//! What every frontend stands on: the door that they share, and the host that puts Portolan together.
//!
//! [`Frontend`] is the port of the north. A [`Host`] has the sessions and the tokens; with its frontends it is a [`House`],
//! whose doors open at once.

pub mod door;
mod frontend;
mod host;
pub mod settings;
pub mod sse;

pub use self::{
    frontend::{Frontend, MountError, Mounted, Place, Routes, Start},
    host::{BindError, Bound, CLOSING, Host, HostSettings, House, Open, OpenError},
};
