//! Portolan inside another program.
//!
//! [`Portolan`] is everything behind the door: a store, agents, the registry of sessions, tokens and the native
//! protocol. A program mounts [`Portolan::router`] in its own axum server, creates [`Session`]s, reads their typed
//! [`Event`]s, answers requests with its own code, and adds its own [`Agent`]s. docs/embedding.md is the guide and
//! `examples/own_server.rs` is a whole program.
//!
//! ```
//! # use std::{path::PathBuf, sync::Arc, time::Duration};
//! # use portolan_embed::{Agent, Event, Portolan, Seq, SessionSpec, Settings, Start};
//! # async fn program(my_agent: Arc<dyn Agent>, cwd: PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//! let portolan = Portolan::open(Settings::in_memory(vec![my_agent])).await?;
//! let me = portolan.client("my program");
//! let session = me.create(SessionSpec { agent: "parrot".into(), cwd, ..SessionSpec::default() }).await?;
//! let mut entries = session.entries(Start::After(Seq::ZERO)).await?;
//! session.prompt("hello").await?;
//! while let Some(told) = entries.next().await? {
//!     match told.event {
//!         Event::Message { content, .. } => println!("{content:?}"),
//!         Event::RequestOpened { request } => drop(session.allow(request.request).await?),
//!         Event::TurnEnded { .. } => break,
//!         _ => {}
//!     }
//! }
//! portolan.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # For users of other bridges
//!
//! Every method and event of two other designs, and its counterpart here. A test fails if one has no row, and the
//! documentation build checks the links.
//!
//! ## A facade with an event emitter
//!
//! | there | here |
//! |---|---|
//! | new Bridge(config) | [`Settings`] |
//! | start | [`Portolan::open`], then [`Portolan::listen`]; or [`Portolan::router`] in the program's own server |
//! | stop | [`Portolan::shutdown`] |
//! | spawnSession | [`Client::start`]; [`Client::create`] does not wait for the agent |
//! | killSession | [`Session::close`] |
//! | setActiveSession | [`Client::set_active`]; each client has its own |
//! | activeSessionId | [`Client::active`] |
//! | sendMessage | [`Session::prompt`] |
//! | approveTool | [`Session::answer`] |
//! | approveToolSimple | [`Session::allow`] |
//! | denyTool | [`Session::deny`], [`Session::deny_and_interrupt`] |
//! | sendControlRequest | [`Session::native`], [`Session::native_within`] |
//! | sendInitialize | [`Session::info`]; Portolan sends it automatically at each start |
//! | interrupt | [`Session::interrupt`] |
//! | setModel | [`Session::set_model`] |
//! | setPermissionMode | [`Session::set_mode`] |
//! | setMaxThinkingTokens | [`Session::set_thinking`] |
//! | getMcpStatus | [`Session::mcp_status`] |
//! | mcpReconnect | [`Session::mcp_reconnect`] |
//! | mcpToggle | [`Session::mcp_toggle`] |
//! | mcpSetServers | [`Session::mcp_set`] |
//! | mcpMessage | [`Session::mcp_message`] |
//! | rewindFiles | [`Session::rewind`] |
//! | updateEnvironmentVariables | [`Session::set_environment`] |
//! | getCapabilities | [`Session::capabilities`], [`Session::info`] |
//! | getInitData | [`Session::info`] |
//! | getSessionIds | [`Client::sessions`] |
//! | getSessionInfo | [`Session::state`] |
//! | getRequestHandler | [`Portolan::router`] |
//! | runtimeUrl | [`Portolan::url`] |
//! | autoInitialize | - (always) |
//! | event session:status | [`Session::news`]: [`Item::Status`]; of all sessions [`Client::changes`] |
//! | event session:message | [`Session::entries`]: [`Event`]; [`Session::raw`] |
//! | event session:capabilities | [`Session::news`]: [`Item::Capabilities`] |
//! | event ports | [`Client::changes`]: [`DaemonEvent::DoorOpened`] |
//!
//! ## An adapter that makes sessions
//!
//! | there | here |
//! |---|---|
//! | BackendAdapter | [`Agent`] |
//! | BackendAdapter.backendType | [`Agent::kind`] |
//! | BackendAdapter.getCapabilities | [`Agent::capabilities`] |
//! | BackendAdapter.createSession | [`Client::create`]; the agent's side of it is [`Agent::start`] |
//! | BackendAdapter.resumeSession | [`Client::create`] with [`SessionSpec::resume`], [`Session::resume`] |
//! | BackendAdapter.dispose | [`Portolan::shutdown`]; an agent whose link is dropped ends |
//! | BackendSession.sessionId | [`Session::id`]; the agent's own is in [`Session::info`] |
//! | BackendSession.backendType | [`Summary::agent`](portolan_core::session::state::Summary::agent) |
//! | BackendSession.isConnected | [`BridgeStatus::is_connected`] |
//! | BackendSession.messages | [`Session::entries`] |
//! | BackendSession.send | [`Session::send`] |
//! | BackendSession.respondToPermission | [`Session::answer`] |
//! | BackendSession.interrupt | [`Session::interrupt`] |
//! | BackendSession.setModel | [`Session::set_model`] |
//! | BackendSession.setPermissionMode | [`Session::set_mode`] |
//! | BackendSession.initializationResult | [`Session::info`] |
//! | BackendSession.supportedCommands | [`Session::commands`] |
//! | BackendSession.supportedModels | [`Session::models`] |
//! | BackendSession.mcpServerStatus | [`Session::mcp_status`] |
//! | BackendSession.accountInfo | [`Session::account`] |
//! | BackendSession.executeCommand | [`Session::execute`] |
//! | BackendSession.rewindFiles | [`Session::rewind`] |
//! | BackendSession.capabilities | [`Session::capabilities`] |
//! | BackendSession.close | [`Session::close`] |
//! | BackendSession.asyncDispose | [`Session::close`]; a session outlives its handle, and [`Portolan::shutdown`] ends all |

mod client;
mod entries;
mod host;
mod news;
pub mod outliving;
mod session;
mod status;

/// Agents, their translators and the driver of their processes.
pub use portolan_agents as agents;
pub use portolan_core::{
    Action, Capabilities, DaemonEvent, Event, Principal, Refusal, RefusalCode, RequestId, Role, Seq,
    SessionId, SessionSpec, WayOut, log::delivery::Start, ports::Agent,
};
/// The protocols that clients speak, and the list of all of them.
pub use portolan_frontends as frontends;
/// The listener of all protocols: checks users and host names.
pub use portolan_host::door;
/// The program's own accounts, instead of tokens.
pub use portolan_host::door::{Authenticator, Credential, Standing, Stay};
/// What a frontend gets, and what it returns.
pub use portolan_host::{Frontend, Host, MountError, Mounted, Place};

pub use self::{
    client::{CONNECTED_WITHIN, Client},
    entries::{Changes, Entries, Told},
    host::{ListenError, OpenError, Portolan, Settings},
    news::{Item, News},
    outliving::Outliving,
    session::{CommandOutput, CommandSource, DryRun, Reply, Session, Switch},
    status::BridgeStatus,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The methods, getters, behaviour options and events of the facade.
    const FACADE: [&str; 35] = [
        "new Bridge(config)",
        "start",
        "stop",
        "spawnSession",
        "killSession",
        "setActiveSession",
        "activeSessionId",
        "sendMessage",
        "approveTool",
        "approveToolSimple",
        "denyTool",
        "sendControlRequest",
        "sendInitialize",
        "interrupt",
        "setModel",
        "setPermissionMode",
        "setMaxThinkingTokens",
        "getMcpStatus",
        "mcpReconnect",
        "mcpToggle",
        "mcpSetServers",
        "mcpMessage",
        "rewindFiles",
        "updateEnvironmentVariables",
        "getCapabilities",
        "getInitData",
        "getSessionIds",
        "getSessionInfo",
        "getRequestHandler",
        "runtimeUrl",
        "autoInitialize",
        "event session:status",
        "event session:message",
        "event session:capabilities",
        "event ports",
    ];

    const ADAPTER: [&str; 5] =
        ["backendType", "getCapabilities", "createSession", "resumeSession", "dispose"];

    const SESSION: [&str; 19] = [
        "sessionId",
        "backendType",
        "isConnected",
        "messages",
        "send",
        "respondToPermission",
        "interrupt",
        "setModel",
        "setPermissionMode",
        "initializationResult",
        "supportedCommands",
        "supportedModels",
        "mcpServerStatus",
        "accountInfo",
        "executeCommand",
        "rewindFiles",
        "capabilities",
        "close",
        "asyncDispose",
    ];

    #[test]
    fn every_feature_of_the_other_bridges_has_a_row() {
        let rows = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("//! | "));
        let mut mapped = BTreeSet::new();
        for row in rows.filter(|row| !row.starts_with("there ")) {
            let mut cells = row.split(" | ");
            let (there, here) = (cells.next().unwrap(), cells.next().unwrap());
            assert!(mapped.insert(there.to_owned()), "`{there}` has two rows");
            let is_reason = here.starts_with("- (");
            assert!(is_reason || here.contains("[`"), "`{there}` has neither a counterpart nor a reason");
        }
        let adapter = ADAPTER.iter().map(|name| format!("BackendAdapter.{name}"));
        let session = SESSION.iter().map(|name| format!("BackendSession.{name}"));
        let all = FACADE.iter().map(|name| (*name).to_owned()).chain(adapter).chain(session);
        assert_eq!(mapped, all.chain(["BackendAdapter".to_owned()]).collect());
    }
}
