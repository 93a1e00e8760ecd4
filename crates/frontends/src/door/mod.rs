//! The door: the one listener and its keeper.
