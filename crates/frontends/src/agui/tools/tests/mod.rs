//! Tests of page tools: the calls that wait, the place of an agent over a real listener, and who gets in there.

mod desk;
mod place;
mod stand;
mod warden;
