//! Entries about the session as a whole: the agent's info and capabilities, settings, turns.

use portolan_core::{
    Event,
    event::{Level, Setting},
};
use serde_json::json;

use super::{Projector, Voice, results};
use crate::agui::wire::AguiEvent;

impl Projector {
    /// An entry that changes the info of the session; every other entry is an aside.
    pub(super) fn session_changed(&mut self, event: &Event, out: &mut Vec<AguiEvent>) {
        match event {
            Event::AgentInfo { info } => {
                self.known.learn(info);
                self.tell_state(out);
            }
            Event::SettingChanged { setting } => {
                self.known.set(setting);
                self.tell_state(out);
                if let Setting::Mode { .. } = setting {
                    self.status(out);
                }
            }
            Event::Activity { activity } => {
                let was = self.known.is_compacting();
                self.known.activity.clone_from(activity);
                self.status(out);
                if was != self.known.is_compacting() {
                    self.tell_state(out);
                }
            }
            Event::TurnStarted { turn, .. } => self.known.turns = *turn,
            Event::TurnEnded { result, .. } => {
                self.known.end_turn(result);
                if self.voice == Voice::Full {
                    out.push(results::stats(result, self.known.turns, self.known.cost));
                    self.tell_state(out);
                }
            }
            Event::McpServers { servers } => {
                self.known.info.mcp_servers = Some(servers.clone());
                self.tell_state(out);
            }
            Event::ConversationReset { agent_session, reason } => {
                if let Some(reason) = reason {
                    let value = json!({"level": Level::Warning, "text": reason.words()});
                    out.push(AguiEvent::Custom { name: "notice".into(), value });
                }
                if agent_session.is_some() {
                    self.known.info.agent_session.clone_from(agent_session);
                    self.tell_state(out);
                }
            }
            _ => self.aside(event, out),
        }
    }

    fn status(&self, out: &mut Vec<AguiEvent>) {
        let value = json!({"status": self.known.activity, "permissionMode": self.known.info.mode});
        out.push(AguiEvent::Custom { name: "system_status".into(), value });
    }
}
