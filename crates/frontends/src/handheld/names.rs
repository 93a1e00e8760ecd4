//! What the slots are called, and which slot a device means.
//!
//! The app sends slot 0 whatever is selected, but the name that is on its screen; so names are how the unchanged app
//! reaches four slots. A name holds from when a session is put into a slot until it leaves. One that has left is
//! remembered: a press that was on its way must not land in slot 0 because nobody is called so any more.

use std::{collections::VecDeque, path::Path};

use super::{
    parse::Address,
    text,
    wire::{NAME_BYTES, SLOTS},
};

/// Names that are remembered after they left. A press is on its way for seconds, not for this many sessions.
const REMEMBERED: usize = 64;

/// Bytes of the agent's kind within a name, so that the slot's number and some of the folder fit beside it.
const KIND_BYTES: usize = 16;

/// The name of a session in a slot: its agent, the slot, its folder. Distinct by the slot, stable by all three.
pub fn of_session(slot: usize, agent: &str, folder: &Path) -> String {
    let kind = text::name(agent, KIND_BYTES);
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    text::name(&format!("{kind}-{slot} {folder}"), NAME_BYTES)
}

/// The name of a slot without a session.
pub fn of_empty(slot: usize) -> String {
    format!("slot-{slot}")
}

/// Names that no longer stand for a slot.
#[derive(Clone, Debug, Default)]
pub struct Retired(VecDeque<String>);

impl Retired {
    /// This name has left.
    pub fn add(&mut self, name: &str) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(name.to_owned());
    }

    /// The slot that is meant, where one is. Names are compared without case, as the app does.
    pub fn route(&self, names: &[String; SLOTS], to: &Address) -> Option<usize> {
        if let Some(agent) = to.agent.as_deref().filter(|agent| !agent.is_empty()) {
            let same = |name: &String| name.eq_ignore_ascii_case(agent);
            if let Some(slot) = names.iter().position(same) {
                return Some(slot);
            }
            if self.0.iter().any(same) {
                return None;
            }
        }
        usize::try_from(to.slot.unwrap_or(0)).ok().filter(|slot| *slot < SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn to(agent: &str, slot: i64) -> Address {
        Address { agent: Some(agent.into()), slot: Some(slot) }
    }

    fn names() -> [String; SLOTS] {
        [
            of_session(0, "claude", Path::new("/home/ada/shop")),
            of_session(1, "claude", Path::new("/home/ada/shop")),
            of_session(2, "demo", Path::new("/")),
            of_empty(3),
        ]
    }

    // covers: 000-085
    #[test]
    fn the_name_says_which_slot_and_the_slot_only_where_the_name_is_unknown() {
        let retired = Retired::default();
        assert_eq!(names(), ["claude-0 shop", "claude-1 shop", "demo-2", "slot-3"]);
        let route = |address: Address| retired.route(&names(), &address);
        assert_eq!(route(to("claude-1 shop", 0)), Some(1), "the app always says slot 0");
        assert_eq!(route(to("DEMO-2", 0)), Some(2));
        assert_eq!(route(to("slot-3", 0)), Some(3));
        assert_eq!(route(to("someone", 2)), Some(2));
        assert_eq!(route(Address { agent: None, slot: None }), Some(0));
        assert_eq!(route(Address { agent: Some(String::new()), slot: Some(1) }), Some(1));
        for slot in [-1, 4, i64::MAX, i64::MIN] {
            assert_eq!(route(to("someone", slot)), None);
        }
    }

    #[test]
    fn a_press_for_a_session_that_has_left_reaches_nobody() {
        let mut retired = Retired::default();
        retired.add("claude-3 gone");
        assert_eq!(retired.route(&names(), &to("claude-3 gone", 0)), None, "not slot 0");
        retired.add("claude-1 shop");
        assert_eq!(retired.route(&names(), &to("claude-1 shop", 0)), Some(1), "a name that came back counts");
        for number in 0..2 * REMEMBERED {
            retired.add(&number.to_string());
        }
        assert_eq!(retired.0.len(), REMEMBERED);
    }

    proptest! {
        #[test]
        fn four_sessions_never_share_a_name(agent in any::<String>(), folder in "[^/\0]{0,60}") {
            let mut all: Vec<String> =
                (0..SLOTS).map(|slot| of_session(slot, &agent, Path::new("/").join(&folder).as_path())).collect();
            prop_assert!(all.iter().all(|name| name.len() <= NAME_BYTES && !name.contains(['"', '\\'])));
            for name in &mut all {
                name.make_ascii_lowercase();
            }
            all.dedup();
            prop_assert_eq!(all.len(), SLOTS);
        }
    }
}
