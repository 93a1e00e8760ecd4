//! Tests of the handheld as a whole: a registry in memory, an agent for tests, and devices.

mod auto_edit;
mod crowd;
mod devices;
mod goldens;
mod hostile;
mod presses;
mod restart;
mod slots;
mod stand;
mod view;
