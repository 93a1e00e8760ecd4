//! The clock of core.

use std::{fmt, sync::Arc};

use crate::Millis;

/// The wall clock of core. Timers use tokio's clock, which tests can pause.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Millis + Send + Sync>);

impl Clock {
    /// A clock made from a function.
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
    /// The machine's clock.
    pub fn system() -> Self {
        Self::new(Millis::now)
    }
    /// The current time.
    pub fn now(&self) -> Millis {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now().0)
    }
}
