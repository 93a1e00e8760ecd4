//! Open things by name, oldest first. Finding, adding and removing takes nearly the same time however many are open.
//!
//! On the wire and on disk this is a plain list. An agent, or the file of a past conversation, may leave any number of
//! calls open; searching a list for each of them would take minutes.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something open with its own name.
pub trait Keyed {
    /// The name, which never changes while the thing is open.
    fn key(&self) -> &str;
}

/// All open things of one kind, oldest first.
#[derive(Clone, Debug)]
pub struct Open<T> {
    /// The things in the order in which they were opened.
    order: BTreeMap<u64, T>,
    /// The place of each name in that order.
    places: HashMap<String, u64>,
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), places: HashMap::new() }
    }
}

impl<T: PartialEq> PartialEq for Open<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order.values().eq(other.order.values())
    }
}

impl<T> Open<T> {
    /// All things, oldest first.
    pub fn iter(&self) -> std::collections::btree_map::Values<'_, u64, T> {
        self.order.values()
    }

    /// The number of open things.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The newest thing.
    pub fn last(&self) -> Option<&T> {
        self.order.last_key_value().map(|(_, last)| last)
    }

    /// The thing with this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.order.get(self.places.get(name)?)
    }

    /// Whether a thing with this name is open.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Removes the thing with this name.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.order.remove(&self.places.remove(name)?)
    }
}

impl<T: Keyed> Open<T> {
    /// Adds a thing as the newest; it replaces an older one with the same name.
    pub fn add(&mut self, one: T) {
        self.remove(one.key());
        let place = self.order.last_key_value().map_or(0, |(last, _)| last + 1);
        self.places.insert(one.key().to_owned(), place);
        self.order.insert(place, one);
    }
}

impl<'a, T> IntoIterator for &'a Open<T> {
    type Item = &'a T;
    type IntoIter = std::collections::btree_map::Values<'a, u64, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> IntoIterator for Open<T> {
    type Item = T;
    type IntoIter = std::collections::btree_map::IntoValues<u64, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.order.into_values()
    }
}

impl<T: Keyed> FromIterator<T> for Open<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut open = Self::default();
        all.into_iter().for_each(|one| open.add(one));
        open
    }
}

impl<T: Serialize> Serialize for Open<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Keyed + Deserialize<'de>> Deserialize<'de> for Open<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<T>::deserialize(deserializer).map(Self::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Call(String, u32);

    impl Keyed for Call {
        fn key(&self) -> &str {
            &self.0
        }
    }

    fn calls(all: &[(&str, u32)]) -> Open<Call> {
        all.iter().map(|(name, number)| Call((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn open_things_keep_their_order_and_are_a_list_on_the_wire() {
        let mut open = calls(&[("a", 1), ("b", 2), ("c", 3)]);
        open.add(Call("a".into(), 4));
        assert_eq!(open.remove("b"), Some(Call("b".into(), 2)));
        assert_eq!(open.remove("b"), None);
        assert_eq!(open.get("a"), Some(&Call("a".into(), 4)));
        assert_eq!(open.last(), Some(&Call("a".into(), 4)), "who comes again is the newest");
        let text = serde_json::to_string(&open).unwrap();
        assert_eq!(text, r#"[["c",3],["a",4]]"#);
        let read: Open<Call> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, open);
        assert_ne!(read, calls(&[("a", 4), ("c", 3)]), "the order counts");
        assert!(read.contains("c") && !read.contains("b") && read.len() == 2 && !read.is_empty());
    }
}
