//! Talk with a translator in tests: what it is told, and its output.

use portolan_core::{
    Event,
    ports::{Instruction, InstructionId, Order, Report},
};
use serde_json::Value;

use crate::driver::{Output, Translator};

/// The output of this work.
pub(crate) fn output_of(work: impl FnOnce(&mut Output)) -> Output {
    let mut out = Output::default();
    work(&mut out);
    out
}

/// The agent says this.
pub(crate) fn said(translate: &mut impl Translator, message: &Value) -> Output {
    output_of(|out| translate.line(&message.to_string(), out))
}

/// The session gives this order.
pub(crate) fn told(translate: &mut impl Translator, instruction_id: u64, order: Order) -> Output {
    output_of(|out| {
        translate.instruct(Instruction { id: InstructionId(instruction_id), order }, out);
    })
}

/// The messages to the agent.
pub(crate) fn written(out: &Output) -> Vec<Value> {
    let read = |bytes: &[u8]| {
        assert_eq!(bytes.last(), Some(&b'\n'), "an agent does not read a line without its end");
        serde_json::from_slice(bytes).unwrap()
    };
    out.writes.iter().map(|write| read(write.outbound.bytes())).collect()
}

/// The events of the session.
pub(crate) fn events(out: &Output) -> Vec<&Event> {
    let mut events = vec![];
    for report in &out.reports {
        if let Report::Event { event, .. } = report {
            events.push(event);
        }
    }
    events
}
