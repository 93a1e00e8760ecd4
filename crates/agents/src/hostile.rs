//! What must hold for whatever a translator makes of an agent's lines: the checks that the fuzz targets of the agents
//! share.

use std::collections::{HashMap, HashSet};

use portolan_core::{
    ports::{Order, Report},
    request::{Answer, Ask},
};

use crate::driver::Output;

/// The requests of a conversation, as the session knows them.
#[derive(Default)]
pub(crate) struct Requests {
    open: HashMap<String, Box<Ask>>,
    opened: HashSet<String>,
}

impl Requests {
    /// A person denies an open request.
    pub(crate) fn deny(&mut self, key: &str) -> Option<Order> {
        let ask = self.open.remove(key)?;
        Some(Order::Answer { key: key.to_owned(), ask, answer: Answer::deny(Some("no".into())) })
    }

    /// The session closes open requests before it informs the agent of an interrupt.
    pub(crate) fn close_all(&mut self) {
        self.open.clear();
    }

    /// Checks what the translator gives. Returns how many requests the agent takes back that were closed already.
    pub(crate) fn check(&mut self, out: &Output) -> usize {
        let mut late = 0;
        for report in &out.reports {
            if let Report::RequestOpened { key, ask, .. } | Report::Unasked { key, ask, .. } = report {
                assert!(self.open.insert(key.clone(), ask.clone()).is_none(), "a request is opened once");
                self.opened.insert(key.clone());
            }
            if let Report::RequestWithdrawn { key } = report {
                assert!(self.opened.contains(key), "only requests are taken back");
                late += usize::from(self.open.remove(key).is_none());
            }
        }
        for write in &out.writes {
            let Some((b'\n', body)) = write.outbound.bytes().split_last() else {
                panic!("a message ends its line")
            };
            assert!(!body.contains(&b'\n'), "one message, one line");
            assert!(serde_json::from_slice::<serde_json::Value>(body).is_ok(), "every written line is JSON");
        }
        late
    }
}
