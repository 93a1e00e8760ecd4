//! CopilotKit and other AG-UI clients, on the main listener and on one of their own where the configuration asks for it.

use std::sync::Arc;

use portolan_core::{DaemonEvent, ports::Clock, registry::Registry};
use portolan_frontends::{
    agui::{
        self, Agui,
        project::Approvals,
        tools::{FrontendTools, Limits},
    },
    native::Native,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::{self, Settings},
    failure::{Failure, Outcome},
};
use portolan_host::door::{self, Door, DoorSettings, Keeper, ListenAddress, Listening, Reporter, Serving};

/// The frontend, as each listener serves it.
#[derive(Debug)]
pub(crate) struct Pages {
    main: Agui,
    own: Agui,
    tools: FrontendTools,
}

/// The tools of pages. The keeper of the main listener vouches for the agents that call them.
pub(super) fn tools(registry: &Registry) -> FrontendTools {
    FrontendTools::new(registry.clone(), Limits::default())
}

/// Lets the configured pages come to the frontend on the main listener, and to nothing else there.
pub(super) fn admit(keeper: Keeper, settings: &Settings) -> Outcome<Keeper> {
    keeper
        .with_rules_below(agui::PATH, agui::rules(&settings.agui.origins))
        .map_err(|error| Failure::usage(format!("[agui] {error}")))
}

/// Puts it together. Its own listener has a keeper of its own: there the root is the frontend, not the page.
pub(super) fn build(
    settings: &Settings,
    door: &DoorSettings,
    native: &Native,
    tools: FrontendTools,
    reporter: Reporter,
) -> Outcome<Pages> {
    let wanted = &settings.agui;
    let keeper =
        Keeper::new(door, native.tokens.clone(), Arc::clone(native.keeper.tickets()), Clock::system())
            .and_then(|keeper| keeper.with_rules_below("", agui::rules(&wanted.origins)))
            .map_err(|error| Failure::usage(format!("[agui] {error}")))?
            .with_reporter(reporter);
    let folder = match &wanted.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| {
            Failure::new(format!(
                "the folder of the daemon cannot be told ({error}); set `folder` under [agui]"
            ))
        })?,
    };
    let settings = agui::Settings {
        agent: wanted.agent.clone(),
        folder,
        approvals: match wanted.approvals {
            config::Approvals::Event => Approvals::Event,
            config::Approvals::Interrupt => Approvals::Interrupt,
        },
        unknown_threads: match wanted.unknown_threads {
            config::UnknownThreads::New => agui::UnknownThreads::New,
            config::UnknownThreads::JoinActive => agui::UnknownThreads::JoinActive,
        },
        on_close: match wanted.on_close {
            config::OnClose::Auto => agui::OnClose::Auto,
            config::OnClose::Stop => agui::OnClose::Stop,
            config::OnClose::Continue => agui::OnClose::Continue,
        },
    };
    // Streams end with the native protocol's, and are waited for with them.
    let (stopping, connections) = (native.stopping.clone(), native.connections.clone());
    let keeper_of_main = Arc::clone(&native.keeper);
    let main =
        Agui::new(native.registry.clone(), keeper_of_main, settings, tools.clone(), stopping, connections);
    let own = main.behind(Arc::new(keeper));
    Ok(Pages { main, own, tools })
}

/// Takes its own address, where it has one.
pub(super) async fn bind(settings: &Settings, main: &DoorSettings) -> Outcome<Option<Door>> {
    let Some(address) = settings.agui.listen else { return Ok(None) };
    let door = DoorSettings { listen: vec![ListenAddress::Tcp(address)], ..main.clone() };
    let bound = Door::bind(&door).await;
    bound.map(Some).map_err(|error| Failure::new(format!("[agui] {error}")))
}

impl Pages {
    /// On the main listener.
    pub(crate) fn routes(&self) -> axum::Router {
        agui::routes(self.main.clone()).merge(self.tools.routes())
    }

    /// How its own listener is set, for the log; `main` is the main one, with the origins of the pages.
    pub(super) fn opened(main: &DoorSettings, own: &Door) -> DaemonEvent {
        let mut opened = door::opened(main, &own.addresses());
        if let DaemonEvent::DoorOpened { frontend, .. } = &mut opened {
            *frontend = Some("agui".into());
        }
        opened
    }

    /// On its own, until `closing`.
    pub(super) fn serve(&self, door: Door, closing: CancellationToken) -> Serving {
        for url in door.addresses().iter().filter_map(Listening::url) {
            tracing::info!(url, "AG-UI clients have a listener of their own");
        }
        door.serve(Arc::clone(self.own.keeper()), agui::own_routes(self.own.clone()), closing)
    }

    /// Agents reach the tools of pages at the main listener, where they can without a certificate.
    pub(super) fn start(&self, main: &[Listening], tasks: &TaskTracker, stopped: CancellationToken) {
        let plain = main.iter().filter(|listening| !listening.secure).find_map(Listening::url);
        if let Some(url) = plain {
            self.tools.listens_at(url);
        }
        self.main.start(tasks, stopped);
    }
}
