//! What is open by its name, oldest first: found, added and taken out in a time that hardly grows with how much is open.
//!
//! On the wire and on disk it is a plain list. An agent, or a file of a past conversation, may leave any number of calls
//! open; a list that is searched for each of them would cost minutes.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something that is open under a name of its own.
pub trait Keyed {
    /// The name; never changes while it is open.
    fn key(&self) -> &str;
}

/// Everything of one sort that is open, oldest first.
#[derive(Clone, Debug)]
pub struct Open<T> {
    /// By when it was opened.
    order: BTreeMap<u64, T>,
    /// Where in the order a name stands.
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
    /// All of them, oldest first.
    pub fn iter(&self) -> std::collections::btree_map::Values<'_, u64, T> {
        self.order.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Nothing is open.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The newest.
    pub fn last(&self) -> Option<&T> {
        self.order.last_key_value().map(|(_, last)| last)
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.order.get(self.places.get(name)?)
    }

    /// One of this name is open.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Takes the one of this name out.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        self.order.remove(&self.places.remove(name)?)
    }
}

impl<T: Keyed> Open<T> {
    /// Adds one as the newest; an older one of the same name goes.
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
    fn what_is_open_keeps_its_order_and_is_a_list_on_the_wire() {
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
