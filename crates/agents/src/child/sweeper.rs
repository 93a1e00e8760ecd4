//! Sweeps at the ends of children, many at once: one look at all processes serves every waiting end.
//!
//! Otherwise a daemon that stops a thousand sessions looks at every process a thousand times.

use std::{sync::OnceLock, thread};

use tokio::sync::{mpsc, oneshot};

use super::processes::{Swept, sweep_where};

/// Ends that wait for a sweep. Further ends wait in their own tasks.
const WAITING: usize = 256;

struct Wanted {
    marker: String,
    swept: oneshot::Sender<Vec<Swept>>,
}

/// Ends every process that carries this marker.
pub(super) async fn sweep(marker: String) -> Vec<Swept> {
    static SWEEPER: OnceLock<Option<mpsc::Sender<Wanted>>> = OnceLock::new();
    let sweeper = SWEEPER.get_or_init(|| {
        let (wanted, queue) = mpsc::channel(WAITING);
        thread::Builder::new().name("sweeper".into()).spawn(move || sweep_all(queue)).ok().map(|_| wanted)
    });
    let (swept, outcome) = oneshot::channel();
    match sweeper {
        Some(sweeper) if sweeper.send(Wanted { marker, swept }).await.is_ok() => {
            outcome.await.unwrap_or_default()
        }
        // Without the thread nothing is swept now; the next start of the daemon sweeps by home.
        _ => vec![],
    }
}

fn sweep_all(mut queue: mpsc::Receiver<Wanted>) {
    let mut wanted = vec![];
    while queue.blocking_recv_many(&mut wanted, WAITING) > 0 {
        let swept = sweep_where(|marker| wanted.iter().any(|wanted| wanted.marker == marker));
        for Wanted { marker, swept: told } in wanted.drain(..) {
            let own = swept.iter().filter(|swept| swept.marker == marker).cloned().collect();
            // The caller no longer waits.
            let _ = told.send(own);
        }
    }
}
