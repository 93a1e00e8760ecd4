//! Metrics for Prometheus. The counters belong to one [`Native`](super::Native); there are no globals.

use std::{fmt, sync::Arc};

use portolan_core::RefusalCode;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use portolan_protocol::ClosingReason;

/// Every counter of the native protocol. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    all: Arc<All>,
}

struct All {
    registry: Registry,
    sessions: Gauge,
    store_healthy: Gauge,
    connections: Gauge,
    streams: Gauge,
    entries: Counter,
    answers: Family<Outcome, Counter>,
    closed: Family<Reason, Counter>,
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: String,
}

/// A name as on the wire.
fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Adds one to a gauge until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("portolan");
        let (sessions, store_healthy) = (Gauge::default(), Gauge::default());
        let (connections, streams) = (Gauge::default(), Gauge::default());
        let (entries, answers, closed) = (Counter::default(), Family::default(), Family::default());
        registry.register("sessions_live", "Sessions whose agent may run", sessions.clone());
        registry.register("store_healthy", "1 while the store accepts writes", store_healthy.clone());
        registry.register("connections", "Open WebSocket connections", connections.clone());
        registry.register("streams", "Open event streams (SSE)", streams.clone());
        registry.register("entries_delivered", "Entries sent to clients", entries.clone());
        registry.register("answers", "Frames and requests answered, by outcome", Family::clone(&answers));
        registry.register("closed", "Connections closed by the server, by reason", Family::clone(&closed));
        let all = All { registry, sessions, store_healthy, connections, streams, entries, answers, closed };
        Self { all: Arc::new(all) }
    }

    pub(crate) fn connected(&self) -> Counted {
        Counted::new(&self.all.connections)
    }

    pub(crate) fn streaming(&self) -> Counted {
        Counted::new(&self.all.streams)
    }

    pub(crate) fn delivered(&self, entries: usize) {
        self.all.entries.inc_by(entries as u64);
    }

    /// `None` means success.
    pub(crate) fn answered(&self, refused: Option<RefusalCode>) {
        let outcome = refused.map_or_else(|| "ok".into(), word);
        self.all.answers.get_or_create(&Outcome { outcome }).inc();
    }

    pub(crate) fn closed(&self, reason: ClosingReason) {
        self.all.closed.get_or_create(&Reason { reason: word(reason) }).inc();
    }

    /// The text for Prometheus, with the gauges that are read only now.
    pub(crate) fn text(&self, sessions: usize, store_healthy: bool) -> String {
        self.all.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        self.all.store_healthy.set(store_healthy.into());
        let mut text = String::new();
        // Writing into memory cannot fail.
        let _ = encode(&mut text, &self.all.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_documented() {
        let page = include_str!("../../../../docs/protocol.md");
        let metrics = Metrics::new();
        metrics.answered(None);
        metrics.closed(ClosingReason::Stopping);
        let text = metrics.text(0, true);
        let names: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(names.len(), 7);
        for name in names {
            assert!(page.contains(&format!("`{name}")), "docs/protocol.md does not mention `{name}`");
        }
    }

    #[test]
    fn what_happened_is_counted_by_name() {
        let metrics = Metrics::new();
        let connection = metrics.connected();
        metrics.delivered(64);
        metrics.answered(None);
        metrics.answered(Some(RefusalCode::NotFound));
        metrics.closed(ClosingReason::TooSlow);
        let text = metrics.text(3, true);
        for line in [
            "portolan_sessions_live 3",
            "portolan_store_healthy 1",
            "portolan_connections 1",
            "portolan_entries_delivered_total 64",
            "portolan_answers_total{outcome=\"ok\"} 1",
            "portolan_answers_total{outcome=\"not_found\"} 1",
            "portolan_closed_total{reason=\"too_slow\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
        drop(connection);
        assert!(metrics.text(0, false).contains("portolan_connections 0\n"));
    }
}
