//! The state of one device: what it was sent last, what it may be sent now, which prompt its user has seen.
//!
//! Pure; the caller passes the time. A device gets the newest face of a slot whenever it differs from its own: never
//! more than [`PER_SECOND`] a second, never an old face after a newer one, and nothing is queued in between.

use std::{collections::VecDeque, time::Duration};

use portolan_core::{RequestId, SessionId};
use tokio::time::Instant;

use super::wire::{AgentStatus, SLOTS};

/// How many statuses a device gets in one second. The app reads once per video frame, sixty times a second, and has
/// other work; its small buffer holds one large status.
pub const PER_SECOND: usize = 30;

/// The time span of this count.
const SPAN: Duration = Duration::from_secs(1);

/// How long a prompt must be on the device before a button answers it. Buttons carry no request id: the second half of
/// a double press must not approve a prompt that appeared in between. People react more slowly.
pub const GUARD: Duration = Duration::from_millis(500);

/// The shortest and the longest pause between two checks whether a prompt has arrived. In between, the pause is a
/// fraction of the time so far: a slow connection is not checked all the time.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// An open request of a session, as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The session.
    pub session: SessionId,
    /// The request.
    pub request: RequestId,
    /// The digest of the request.
    pub digest: String,
    /// The number of its question: each question is a separate prompt.
    pub step: usize,
}

/// A slot as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNow {
    /// The status for the app.
    pub status: AgentStatus,
    /// The open request.
    pub asked: Option<Asked>,
}

/// The panel of a slot on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Panel {
    /// Nothing.
    Empty,
    /// A prompt that its user may not have seen: a press now is not for this prompt.
    New(Asked),
    /// A prompt that was shown for long enough.
    Seen(Asked),
}

/// The progress of a prompt to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The prompt is about to be sent.
    Due,
    /// The prompt is within the bytes sent up to this one, at this time; and the time of the next check whether it has
    /// arrived.
    Sent { upto: u64, at: Instant, look: Instant },
    /// The device has the prompt since this time.
    There { since: Instant },
    /// The prompt was there for [`GUARD`], and every earlier message of the device has been read.
    Seen,
}

/// What one device has been sent.
#[derive(Debug, Default)]
pub struct Desk {
    sent: [Option<AgentStatus>; SLOTS],
    /// The panel of each slot, and its progress.
    shown: [Option<(Asked, Way)>; SLOTS],
    times: VecDeque<Instant>,
    /// The slot where the next round begins, so that a busy slot does not hide the others.
    first: usize,
    again: bool,
}

impl Desk {
    /// Sends every slot once more, whether it changed or not.
    pub fn send_all_again(&mut self) {
        self.again = true;
    }

    /// The statuses to send now: those that differ from the device's, as many as allowed.
    pub fn due(&mut self, slots: &[SlotNow; SLOTS], now: Instant) -> Vec<AgentStatus> {
        if std::mem::take(&mut self.again) {
            self.sent = Default::default();
        }
        while self.times.front().is_some_and(|sent| now.duration_since(*sent) >= SPAN) {
            self.times.pop_front();
        }
        let mut due = Vec::new();
        let first = self.first;
        for slot in (0..SLOTS).map(|step| (first + step) % SLOTS) {
            let current = &slots[slot];
            // Two requests can look the same: the second is sent too, so that a press counts for it.
            if self.sent[slot].as_ref() == Some(&current.status) && self.shows(slot) == current.asked.as_ref()
            {
                continue;
            }
            if self.times.len() >= PER_SECOND {
                self.first = slot;
                break;
            }
            self.times.push_back(now);
            self.sent[slot] = Some(current.status.clone());
            self.show(slot, current.asked.clone());
            due.push(current.status.clone());
        }
        due
    }

    fn show(&mut self, slot: usize, asked: Option<Asked>) {
        let same = |shown: &(Asked, Way)| Some(&shown.0) == asked.as_ref();
        if !self.shown[slot].as_ref().is_some_and(same) {
            self.shown[slot] = asked.map(|asked| (asked, Way::Due));
        }
    }

    fn ways(&mut self) -> impl Iterator<Item = &mut Way> {
        self.shown.iter_mut().flatten().map(|(_, way)| way)
    }

    /// The due statuses are within the bytes up to this one.
    pub fn sent_upto(&mut self, upto: u64, now: Instant) {
        for way in self.ways().filter(|way| **way == Way::Due) {
            *way = Way::Sent { upto, at: now, look: now };
        }
    }

    /// Is it time to check whether a prompt has arrived?
    pub fn wants_to_know(&self, now: Instant) -> bool {
        self.shown.iter().flatten().any(|(_, way)| matches!(way, Way::Sent { look, .. } if *look <= now))
    }

    /// The device has every byte up to this one.
    pub fn arrived_upto(&mut self, byte: u64, now: Instant) {
        for way in self.ways() {
            if let Way::Sent { upto, at, look } = way {
                if *upto <= byte {
                    *way = Way::There { since: now };
                } else {
                    let (soonest, latest) = LOOK_AGAIN;
                    *look = now + (now.duration_since(*at) / 4).clamp(soonest, latest);
                }
            }
        }
    }

    /// All messages of the device so far were read: later messages were sent after this moment.
    pub fn all_is_read(&mut self, now: Instant) {
        for way in self.ways() {
            if matches!(way, Way::There { since } if now.duration_since(*since) >= GUARD) {
                *way = Way::Seen;
            }
        }
    }

    /// The time of the next step: to send more, to check whether a prompt has arrived, or to let it count. `None` if
    /// there is none.
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        let full = self.times.front().filter(|_| self.times.len() >= PER_SECOND);
        let ways = self.shown.iter().flatten().filter_map(|(_, way)| match way {
            Way::Sent { look, .. } => Some(*look),
            Way::There { since } => Some(*since + GUARD),
            Way::Due | Way::Seen => None,
        });
        full.map(|oldest| *oldest + SPAN).into_iter().chain(ways).filter(|time| *time > now).min()
    }

    /// The prompt that was sent to the slot's panel, whether or not it has arrived.
    fn shows(&self, slot: usize) -> Option<&Asked> {
        self.shown.get(slot)?.as_ref().map(|(asked, _)| asked)
    }

    /// The prompt that the slot's panel shows.
    pub fn panel(&self, slot: usize) -> Panel {
        match self.shown.get(slot).and_then(Option::as_ref) {
            None => Panel::Empty,
            Some((asked, Way::Seen)) => Panel::Seen(asked.clone()),
            Some((asked, _)) => Panel::New(asked.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handheld::wire::{AutoEdit, Face, SlotState};

    fn slot(slot: usize, message: &str, request: Option<u64>) -> SlotNow {
        let face = Face {
            state: SlotState::Working,
            message: message.into(),
            prompt: None,
            context_percent: 0,
            active: true,
        };
        let asked = request.map(|request| Asked {
            session: SessionId::from_u128(1),
            request: RequestId(request),
            digest: "d".into(),
            step: 0,
        });
        SlotNow { status: AgentStatus::fitted(slot, "name", AutoEdit::Off, face), asked }
    }

    fn slots(message: &str, request: Option<u64>) -> [SlotNow; SLOTS] {
        [slot(0, message, request), slot(1, "b", None), slot(2, "c", None), slot(3, "d", None)]
    }

    fn messages(due: Vec<AgentStatus>) -> Vec<String> {
        due.into_iter().map(|status| status.message).collect()
    }

    // covers: 000-082
    #[tokio::test(start_paused = true)]
    async fn a_new_device_gets_all_four_slots_and_then_what_changes() {
        let mut desk = Desk::default();
        let now = Instant::now();
        assert_eq!(messages(desk.due(&slots("a", None), now)), ["a", "b", "c", "d"]);
        assert_eq!(messages(desk.due(&slots("a", None), now)), [""; 0]);
        assert_eq!(messages(desk.due(&slots("A", None), now)), ["A"]);
        desk.send_all_again();
        assert_eq!(messages(desk.due(&slots("A", None), now)), ["A", "b", "c", "d"]);
    }

    // covers: 000-027
    #[tokio::test(start_paused = true)]
    async fn thirty_statuses_a_second_and_never_an_old_one_last() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        let mut sent: Vec<(Instant, String)> = Vec::new();
        // A slot that changes five hundred times in two seconds.
        for step in 0..500_u32 {
            let now = begin + Duration::from_millis(u64::from(step) * 4);
            for message in messages(desk.due(&slots(&step.to_string(), None), now)) {
                sent.push((now, message));
            }
        }
        let second = Duration::from_secs(1);
        for (at, _) in &sent {
            let within = sent.iter().filter(|(other, _)| *other >= *at && *other < *at + second).count();
            assert!(within <= 30, "{within} in one second");
        }
        assert_eq!(sent.iter().filter(|(at, _)| *at < begin + second).count(), 30, "and no fewer");
        let numbers: Vec<u32> = sent.iter().filter_map(|(_, message)| message.parse().ok()).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        let last = begin + Duration::from_millis(499 * 4);
        if let Some(at) = desk.wait(last) {
            assert_eq!(
                messages(desk.due(&slots("499", None), at)),
                ["499"],
                "the newest comes as soon as it may"
            );
        }
        assert_eq!(desk.sent[0].as_ref().unwrap().message, "499");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_slot_does_not_hide_the_others() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        for step in 0..40 {
            desk.due(&slots(&step.to_string(), None), begin);
        }
        let mut changed = slots("busy", None);
        changed[2] = slot(2, "changed", None);
        let later = desk.wait(begin).unwrap();
        assert_eq!(later, begin + SPAN);
        assert_eq!(messages(desk.due(&changed, later)), ["busy", "changed"]);
    }

    /// Sends what is due, and lets it arrive at once.
    fn send(desk: &mut Desk, slots: &[SlotNow; SLOTS], now: Instant) -> Vec<String> {
        let due = messages(desk.due(slots, now));
        desk.sent_upto(1, now);
        desk.arrived_upto(1, now);
        due
    }

    /// The meaning of a press after all earlier messages were read.
    fn meant(desk: &mut Desk, slot: usize, now: Instant) -> Option<u64> {
        desk.all_is_read(now);
        match desk.panel(slot) {
            Panel::Seen(asked) => Some(asked.request.0),
            Panel::Empty | Panel::New(_) => None,
        }
    }

    // covers: 000-060
    #[tokio::test(start_paused = true)]
    async fn a_prompt_is_answered_only_after_it_was_there_for_half_a_second() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        send(&mut desk, &slots("ask", Some(7)), begin);
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(desk.wait(begin), Some(at(500)));
        assert_eq!(meant(&mut desk, 0, at(0)), None);
        assert_eq!(meant(&mut desk, 0, at(499)), None);
        assert_eq!(meant(&mut desk, 0, at(500)), Some(7));
        assert_eq!(desk.wait(at(500)), None);
        assert_eq!(meant(&mut desk, 1, at(500)), None, "nothing waits there");
        assert_eq!(meant(&mut desk, 9, at(500)), None, "there is no such slot");
        // The first half of a double press answered 7; 8 comes up at once.
        send(&mut desk, &slots("ask more", Some(8)), at(510));
        assert_eq!(meant(&mut desk, 0, at(600)), None, "the second half of the double press");
        assert!(matches!(desk.panel(0), Panel::New(asked) if asked.request == RequestId(8)));
        // Another status of the same prompt does not restart the wait.
        send(&mut desk, &slots("ask more!", Some(8)), at(900));
        assert_eq!(meant(&mut desk, 0, at(1010)), Some(8));
        send(&mut desk, &slots("on", None), at(1020));
        assert_eq!(meant(&mut desk, 0, at(9000)), None, "it is answered or gone");
    }

    #[tokio::test(start_paused = true)]
    async fn the_half_second_begins_when_the_prompt_has_arrived_and_not_when_it_was_sent() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        desk.due(&slots("ask", Some(7)), begin);
        assert!(!desk.wants_to_know(begin), "it is not even sent");
        desk.sent_upto(100, begin);
        assert!(desk.wants_to_know(begin));
        desk.arrived_upto(99, begin);
        assert_eq!((desk.wants_to_know(begin), desk.wait(begin)), (false, Some(at(20))));
        assert_eq!(meant(&mut desk, 0, at(8000)), None);
        desk.arrived_upto(99, at(8000));
        assert_eq!(desk.wait(at(8000)), Some(at(9000)), "a device that is far away is asked about seldom");
        // Later sends do not hide that the prompt has arrived.
        desk.due(&slots("ask!", Some(7)), at(8500));
        desk.sent_upto(200, at(8500));
        desk.arrived_upto(100, at(9000));
        assert_eq!(desk.wait(at(9000)), Some(at(9500)));
        assert_eq!(meant(&mut desk, 0, at(9499)), None);
        assert_eq!(meant(&mut desk, 0, at(9500)), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_before_the_half_second_was_over_counts_for_nothing_however_late_it_is_read() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        send(&mut desk, &slots("ask", Some(7)), begin);
        // The connection was busy; it did not look for presses.
        let late = begin + Duration::from_secs(5);
        assert!(matches!(desk.panel(0), Panel::New(_)));
        assert_eq!(meant(&mut desk, 0, late), Some(7), "from here on they were meant");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_question_of_a_request_is_a_prompt_of_its_own() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        let mut slots = slots("ask", Some(7));
        send(&mut desk, &slots, begin);
        let later = begin + GUARD;
        assert_eq!(meant(&mut desk, 0, later), Some(7));
        slots[0].asked.as_mut().unwrap().step = 1;
        assert_eq!(send(&mut desk, &slots, later), ["ask"]);
        assert_eq!(meant(&mut desk, 0, later), None);
        assert_eq!(meant(&mut desk, 0, later + GUARD), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_prompt_that_looks_like_the_first_is_shown_and_can_be_answered() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        send(&mut desk, &slots("ask", Some(7)), begin);
        let later = begin + Duration::from_millis(600);
        assert_eq!(send(&mut desk, &slots("ask", Some(8)), later), ["ask"]);
        assert_eq!(meant(&mut desk, 0, later), None, "a double press does not answer it");
        assert_eq!(meant(&mut desk, 0, later + GUARD), Some(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_that_the_device_has_not_been_sent_is_not_answered() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        for step in 0..40 {
            desk.due(&slots(&step.to_string(), None), begin);
        }
        send(&mut desk, &slots("ask", Some(7)), begin + Duration::from_millis(10));
        assert_eq!(meant(&mut desk, 0, begin + Duration::from_millis(900)), None);
    }
}
