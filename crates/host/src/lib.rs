//! What every frontend stands on: the door that they share, and what a frontend is given and gives back.

pub mod door;
pub mod sse;
