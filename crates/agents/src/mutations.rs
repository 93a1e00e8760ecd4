//! For tests: a recording, changed as a newer or a broken agent might send it, and the result. Each agent's own tests
//! check what must hold then.

use portolan_core::ports::Report;
use proptest::{prelude::ProptestConfig, test_runner::RngSeed};
use serde_json::{Map, Value, json};

/// The same cases each time, so that a test that passed passes again.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(192)
    }
}

/// The result of a line.
#[derive(Debug, PartialEq)]
pub(crate) struct Heard {
    pub(crate) reports: Vec<Report>,
    pub(crate) writes: Vec<Value>,
}

impl Heard {
    pub(crate) fn is_nothing(&self) -> bool {
        self.reports.is_empty() && self.writes.is_empty()
    }

    /// The kinds of the results, without their content.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let kind = |report: &Report| match report {
            Report::Event { event, .. } => serde_json::to_value(event).unwrap()["type"].to_string(),
            other => format!("{other:?}").split([' ', '(']).next().unwrap().to_owned(),
        };
        self.reports.iter().map(kind).collect()
    }

    pub(crate) fn without_raw(mut self) -> Self {
        for report in &mut self.reports {
            match report {
                Report::Event { raw, .. }
                | Report::TurnEnded { raw, .. }
                | Report::Unasked { raw, .. }
                | Report::RequestOpened { raw, .. } => {
                    *raw = None;
                }
                _ => {}
            }
        }
        self
    }
}

/// The paths of all parts, the whole first.
pub(crate) fn places(value: &Value, at: &str) -> Vec<String> {
    let mut parts = vec![at.to_owned()];
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                parts.extend(places(value, &format!("{at}/{name}")));
            }
        }
        Value::Array(items) => {
            let inner = items.iter().enumerate();
            parts.extend(inner.flat_map(|(index, value)| places(value, &format!("{at}/{index}"))));
        }
        _ => {}
    }
    parts
}

/// Replaces a part by another value, or removes it from its object or list.
pub(crate) fn replace(message: &mut Value, path: &str, with: Option<&Value>) {
    if let Some(with) = with {
        *message.pointer_mut(path).unwrap() = with.clone();
        return;
    }
    let (parent, name) = path.rsplit_once('/').unwrap();
    match message.pointer_mut(parent).unwrap() {
        Value::Object(fields) => drop(fields.shift_remove(&name.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        other => panic!("{other}"),
    }
}

/// With an unknown field in every object.
pub(crate) fn with_unknown_fields(value: &Value) -> Value {
    each_object(value, &|mut fields| {
        fields.insert("zz_of_a_newer_version".into(), json!({ "list": [1, null, "two"] }));
        fields
    })
}

/// With the keys of every object in reverse order.
pub(crate) fn reversed(value: &Value) -> Value {
    each_object(value, &|fields| fields.into_iter().rev().collect())
}

fn each_object(value: &Value, change: &dyn Fn(Map<String, Value>) -> Map<String, Value>) -> Value {
    match value {
        Value::Object(fields) => {
            let inner = fields.iter().map(|(name, value)| (name.clone(), each_object(value, change)));
            Value::Object(change(inner.collect()))
        }
        Value::Array(items) => items.iter().map(|item| each_object(item, change)).collect(),
        other => other.clone(),
    }
}
