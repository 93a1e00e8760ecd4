//! Ports: the traits that the sides of core implement: agents to the south, the store below, and the clock.

mod account;
mod agent;
mod clock;
mod link;
mod past;
mod store;

use std::{future::Future, pin::Pin};

pub use self::{account::*, agent::*, clock::*, link::*, past::*, store::*};

/// A future behind a trait object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
