//! Tests of the handheld as a whole: a registry over memory, an agent that plays along, and devices.

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
