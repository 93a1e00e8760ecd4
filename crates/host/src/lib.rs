//! The base of every frontend: the shared door, and the host that combines Portolan's parts.
//!
//! [`Frontend`] is the port of the north. A [`Host`] has the sessions and the tokens; with its frontends it is a
//! [`House`], whose doors open together.

pub mod door;
mod frontend;
mod host;
pub mod settings;
pub mod sse;

pub use self::{
    frontend::{Frontend, MountError, Mounted, Place, Routes, Start},
    host::{BindError, Bound, CLOSING, Host, HostSettings, House, Open, OpenError},
};
