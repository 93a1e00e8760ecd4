//! Tests of page tools: waiting calls, the endpoint of an agent over a real listener, and access to it.

mod desk;
mod permissions;
mod place;
mod stand;
