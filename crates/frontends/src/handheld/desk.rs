//! One device's own place: what it was sent last, what it may be sent now, which prompt its user has seen.
//!
//! Pure but for the time it is told. A device is sent the newest face of a slot whenever it differs from the one it has:
//! never more than [`PER_SECOND`] a second, never an old one after a newer one, and nothing is kept in between.

use std::{collections::VecDeque, time::Duration};

use portolan_core::{RequestId, SessionId};
use tokio::time::Instant;

use super::wire::{AgentStatus, SLOTS};

/// Statuses a device is sent in one second. The app looks once per picture, sixty times a second, and has other
/// things to do; its small buffer holds one large status.
pub const PER_SECOND: usize = 30;

/// The span in which they are counted.
const SPAN: Duration = Duration::from_secs(1);

/// How long a prompt must have been on the screen before a button answers it. Buttons carry no id of what they
/// answer: the second half of a double press must not approve what came up in between. People react more slowly.
pub const GUARD: Duration = Duration::from_millis(500);

/// Something that waits in a session, as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// In which session.
    pub session: SessionId,
    /// Which.
    pub request: RequestId,
    /// What exactly was asked.
    pub digest: String,
}

/// A slot as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotNow {
    /// What the app would show.
    pub status: AgentStatus,
    /// What waits.
    pub asked: Option<Asked>,
}

/// What one device has been sent.
#[derive(Debug, Default)]
pub struct Desk {
    sent: [Option<AgentStatus>; SLOTS],
    /// What each slot's panel shows, and since when.
    shown: [Option<(Asked, Instant)>; SLOTS],
    times: VecDeque<Instant>,
    /// Where the next look begins, so that a busy slot does not hide the others.
    first: usize,
    again: bool,
}

impl Desk {
    /// Every slot is sent once more, whether it changed or not.
    pub fn send_all_again(&mut self) {
        self.again = true;
    }

    /// The statuses to send now: those that differ from what the device has, as many as may be sent.
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
            // Two requests can look the same: the second is sent too, so that a press is known to mean it.
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
            self.show(slot, current.asked.clone(), now);
            due.push(current.status.clone());
        }
        due
    }

    fn show(&mut self, slot: usize, asked: Option<Asked>, now: Instant) {
        let same = |shown: &(Asked, Instant)| Some(&shown.0) == asked.as_ref();
        if !self.shown[slot].as_ref().is_some_and(same) {
            self.shown[slot] = asked.map(|asked| (asked, now));
        }
    }

    /// When more may be sent; `None` where that is now.
    pub fn wait(&self, now: Instant) -> Option<Instant> {
        let oldest = self.times.front().filter(|_| self.times.len() >= PER_SECOND)?;
        let free = *oldest + SPAN;
        (free > now).then_some(free)
    }

    /// What the slot's panel shows on this device.
    pub fn shows(&self, slot: usize) -> Option<&Asked> {
        self.shown.get(slot)?.as_ref().map(|(asked, _)| asked)
    }

    /// What a button answers: what the panel shows, once it has been there long enough to be meant.
    pub fn meant(&self, slot: usize, now: Instant) -> Option<&Asked> {
        let (asked, since) = self.shown.get(slot)?.as_ref()?;
        (now.duration_since(*since) >= GUARD).then_some(asked)
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
        for (at, _) in &sent {
            let within = sent.iter().filter(|(other, _)| *other >= *at && *other < *at + SPAN).count();
            assert!(within <= PER_SECOND, "{within} in one second");
        }
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

    // covers: 000-060
    #[tokio::test(start_paused = true)]
    async fn a_prompt_is_answered_only_after_it_was_there_for_half_a_second() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        desk.due(&slots("ask", Some(7)), begin);
        let request = |asked: Option<&Asked>| asked.map(|asked| asked.request.0);
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(request(desk.meant(0, at(0))), None);
        assert_eq!(request(desk.meant(0, at(499))), None);
        assert_eq!(request(desk.meant(0, at(500))), Some(7));
        assert_eq!(request(desk.meant(1, at(500))), None, "nothing waits there");
        assert_eq!(request(desk.meant(9, at(500))), None, "there is no such slot");
        // The first half of a double press answered 7; 8 comes up at once.
        desk.due(&slots("ask more", Some(8)), at(510));
        assert_eq!(request(desk.meant(0, at(600))), None, "the second half of the double press");
        assert_eq!(request(desk.shows(0)), Some(8));
        // Another status of the same prompt does not begin the wait anew.
        desk.due(&slots("ask more!", Some(8)), at(900));
        assert_eq!(request(desk.meant(0, at(1010))), Some(8));
        desk.due(&slots("on", None), at(1020));
        assert_eq!(request(desk.meant(0, at(9000))), None, "it is answered or gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_prompt_that_looks_like_the_first_is_shown_and_can_be_answered() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        desk.due(&slots("ask", Some(7)), begin);
        let later = begin + Duration::from_millis(600);
        assert_eq!(messages(desk.due(&slots("ask", Some(8)), later)), ["ask"]);
        assert_eq!(desk.meant(0, later), None, "a double press does not answer it");
        assert_eq!(desk.meant(0, later + GUARD).unwrap().request, RequestId(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_that_the_device_has_not_been_sent_is_not_answered() {
        let mut desk = Desk::default();
        let begin = Instant::now();
        for step in 0..40 {
            desk.due(&slots(&step.to_string(), None), begin);
        }
        desk.due(&slots("ask", Some(7)), begin + Duration::from_millis(10));
        assert_eq!(desk.meant(0, begin + Duration::from_millis(900)), None);
    }
}
