//! The names of the slots, and the slot of a message.
//!
//! The app always sends slot 0, but also the name on its screen; so the unchanged app reaches four slots by name. A
//! name is valid while a session is in the slot. One of our names that no slot has reaches no slot: a press for a
//! session that has left must not land in slot 0. Other programs of this protocol use their own names for agents; for
//! them the number counts.

use std::path::Path;

use super::{
    parse::Address,
    text,
    wire::{NAME_BYTES, SLOTS},
};

/// How many bytes of the agent kind are in a name, so that the slot's number and some of the folder fit too.
const KIND_BYTES: usize = 16;

/// The name of a session in a slot: its agent, the slot, its folder. The slot makes it unique; all three make it
/// stable.
pub fn of_session(slot: usize, agent: &str, folder: &Path) -> String {
    let kind = text::name(agent, KIND_BYTES);
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    text::name(&format!("{kind}-{slot} {folder}"), NAME_BYTES)
}

/// The name of a slot without a session.
pub fn of_empty(slot: usize) -> String {
    format!("slot-{slot}")
}

/// The slot of a message, if there is one: by name, and by number only if the name is not one of ours. Names are
/// compared without case, as in the app.
pub fn route(names: &[String; SLOTS], to: &Address) -> Option<usize> {
    let agent = to.agent.as_deref().unwrap_or_default();
    if let Some(slot) = names.iter().position(|name| name.eq_ignore_ascii_case(agent)) {
        return Some(slot);
    }
    if is_ours(agent) {
        return None;
    }
    usize::try_from(to.slot.unwrap_or(0)).ok().filter(|slot| *slot < SLOTS)
}

/// Is this one of our names? All of them have the slot's number after a dash, at the end or before a space.
fn is_ours(name: &str) -> bool {
    let numbered = |word: &str| {
        let number = word.rsplit_once('-').and_then(|(_, number)| number.parse::<usize>().ok());
        number.is_some_and(|number| number < SLOTS)
    };
    name.split(' ').any(numbered)
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
    fn the_name_says_which_slot_and_the_number_only_where_the_name_is_unknown() {
        assert_eq!(names(), ["claude-0 shop", "claude-1 shop", "demo-2", "slot-3"]);
        let route = |address: Address| route(&names(), &address);
        assert_eq!(route(to("claude-1 shop", 0)), Some(1), "the app always says slot 0");
        assert_eq!(route(to("DEMO-2", 0)), Some(2));
        assert_eq!(route(to("slot-3", 0)), Some(3));
        assert_eq!(route(Address { agent: None, slot: None }), Some(0));
        for slot in 0..4 {
            assert_eq!(route(Address { agent: None, slot: Some(slot) }), Some(slot as usize));
            for agent in ["", " ", "someone", "CLAUDE CODE", "claude-4", "gpt-5"] {
                assert_eq!(route(to(agent, slot)), Some(slot as usize), "{agent}");
            }
        }
        for slot in [-1, 4, i64::MAX, i64::MIN] {
            assert_eq!(route(Address { agent: None, slot: Some(slot) }), None);
        }
    }

    #[test]
    fn a_name_of_ours_that_no_slot_has_reaches_nobody_whatever_slot_is_told() {
        for agent in ["claude-3 gone", "claude-0", "claude-0 shop ", "slot-0", "Claude-1 gone"] {
            for slot in 0..4 {
                assert_eq!(route(&names(), &to(agent, slot)), None, "{agent} {slot}");
            }
        }
    }

    proptest! {
        #[test]
        fn four_sessions_never_share_a_name(agent in any::<String>(), folder in "[^/\0]{0,60}") {
            let mut all: Vec<String> =
                (0..SLOTS).map(|slot| of_session(slot, &agent, Path::new("/").join(&folder).as_path())).collect();
            prop_assert!(all.iter().all(|name| is_ours(name)));
            prop_assert!(all.iter().all(|name| name.len() <= NAME_BYTES && !name.contains(['"', '\\'])));
            for name in &mut all {
                name.make_ascii_lowercase();
            }
            all.dedup();
            prop_assert_eq!(all.len(), SLOTS);
        }
    }
}
