//! The names of the settings, by which an agent says what it supports.

use serde::{Deserialize, Serialize};

/// One option of `SessionSpec`, for `Capabilities::options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the field of SessionSpec with that name")]
pub enum SpecOption {
    Cwd,
    Prompt,
    Name,
    Model,
    Mode,
    Env,
    SystemPrompt,
    AllowedTools,
    DisallowedTools,
    McpServers,
    Subagents,
    Hooks,
    SettingSources,
    ExtraDirs,
    MaxTurns,
    MaxBudgetUsd,
    JsonSchema,
    Resume,
    Fork,
}

impl SpecOption {
    /// Every option.
    pub const ALL: [Self; 19] = [
        Self::Cwd,
        Self::Prompt,
        Self::Name,
        Self::Model,
        Self::Mode,
        Self::Env,
        Self::SystemPrompt,
        Self::AllowedTools,
        Self::DisallowedTools,
        Self::McpServers,
        Self::Subagents,
        Self::Hooks,
        Self::SettingSources,
        Self::ExtraDirs,
        Self::MaxTurns,
        Self::MaxBudgetUsd,
        Self::JsonSchema,
        Self::Resume,
        Self::Fork,
    ];
}
