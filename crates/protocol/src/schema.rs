//! JSON Schema and TypeScript of the frames, generated from their types.

use std::{
    any::TypeId,
    collections::{BTreeMap, HashSet},
};

use portolan_core::{Event, Refusal, command::Stage};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use ts_rs::{Config, TS, TypeVisitor};

use crate::{
    ArchivePast, Call, ClientFrame, CreateSession, CreateToken, Greeting, LogFrame, PROTOCOL, ReplyBody,
    SendCommand, ServerFrame, SimulateRule, TakeUpPast, TestRule,
};

/// JSON Schema of every frame.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let [greeting, client, server, log] = [
        generator.subschema_for::<Greeting>(),
        generator.subschema_for::<ClientFrame>(),
        generator.subschema_for::<ServerFrame>(),
        generator.subschema_for::<LogFrame>(),
    ];
    let mut definitions = generator.take_definitions(true);
    definitions.values_mut().for_each(bound);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The native protocol of Portolan",
        "description": "One frame. docs/protocol.md explains the frames. Readers ignore what they do not know.",
        "x-protocol": PROTOCOL,
        "anyOf": [greeting, client, server, log],
        "$defs": definitions,
    })
}

// ------------------------------------------------------------------------------------ TypeScript

struct Declarations {
    config: Config,
    seen: HashSet<TypeId>,
    by_name: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        if T::output_path().is_some() {
            let name = T::ident(&self.config);
            let docs = T::docs().unwrap_or_default();
            self.by_name.insert(name, format!("{docs}export {}", T::decl(&self.config)));
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
    }
}

/// TypeScript of every frame and every REST body.
pub fn typescript() -> String {
    let config = Config::new().with_large_int("number");
    let mut all = Declarations { config, seen: HashSet::new(), by_name: BTreeMap::new() };
    all.visit::<Greeting>();
    all.visit::<ClientFrame>();
    all.visit::<ServerFrame>();
    all.visit::<LogFrame>();
    // These types occur only inside other types' text and need a name.
    all.visit::<Call>();
    all.visit::<ReplyBody>();
    all.visit::<Refusal>();
    all.visit::<Stage>();
    all.visit::<CreateSession>();
    all.visit::<TakeUpPast>();
    all.visit::<ArchivePast>();
    all.visit::<SendCommand>();
    all.visit::<CreateToken>();
    all.visit::<TestRule>();
    all.visit::<SimulateRule>();
    all.visit::<portolan_core::policy::RuleDraft>();
    all.visit::<portolan_core::policy::BudgetDraft>();
    let mut text = format!(
        "// The native protocol of Portolan, version {PROTOCOL}. Generated; docs/protocol.md explains it.\n\
         // Readers ignore fields, frame types and enum values they do not know.\n\n\
         /** An entry of a session. */\n\
         export type EntryFrame = Extract<LogFrame, {{ type: \"entry\" }}>;\n\n\
         /** An entry of the daemon. */\n\
         export type DaemonFrame = Extract<LogFrame, {{ type: \"daemon\" }}>;\n\n\
         /** The state of a session. */\n\
         export type SnapshotFrame = Extract<LogFrame, {{ type: \"snapshot\" }}>;\n\n\
         /** The state of the daemon. */\n\
         export type DaemonSnapshotFrame = Extract<LogFrame, {{ type: \"daemon_snapshot\" }}>;\n\n\
         /** The kinds of events that stream: a durable entry replaces them, and no history holds them. */\n\
         export const STREAMED: ReadonlySet<Event[\"type\"]> = new Set([{}] as const);\n",
        Event::STREAMED.map(|kind| format!("\"{kind}\"")).join(", ")
    );
    for declaration in all.by_name.values() {
        text.push('\n');
        // The generator leaves white space at line ends.
        for line in declaration.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// The largest whole number that JSON readers in every language keep exactly.
pub const EXACT: u64 = (1 << 53) - 1;

/// Adds the limits of whole numbers to the schema, because validators do not check `format`.
pub fn bound(schema: &mut Value) {
    let most = match schema["format"].as_str() {
        Some("uint8") => Some(u64::from(u8::MAX)),
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint64" | "uint") => Some(EXACT),
        _ => None,
    };
    if let (Some(most), Some(schema)) = (most, schema.as_object_mut()) {
        schema.entry("maximum").or_insert_with(|| most.into());
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(bound),
        Value::Array(list) => list.iter_mut().for_each(bound),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_in_the_typescript_is_left_undeclared() {
        let text = typescript();
        for name in [
            "Greeting",
            "ClientFrame",
            "Call",
            "ServerFrame",
            "LogFrame",
            "ReplyBody",
            "Event",
            "DaemonEvent",
            "State",
            "Action",
        ] {
            assert!(text.contains(&format!("export type {name} =")), "no `{name}`");
        }
        assert!(!text.contains("bigint"), "a number on the wire is a JavaScript number");
    }
}
