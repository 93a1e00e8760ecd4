//! The insights dashboard on the main listener, and on one of its own where the configuration asks for it.

use std::sync::Arc;

use portolan_core::{DaemonEvent, ports::Clock};
use portolan_frontends::{
    insights::{self, Anonymous, Insights},
    native::Native,
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Settings,
    failure::{Failure, Outcome},
};
use portolan_host::door::{self, Door, DoorSettings, Keeper, ListenAddress, Listening, Reporter, Serving};

/// The dashboard, as each listener serves it.
#[derive(Debug)]
pub(crate) struct Dashboard {
    main: Insights,
    own: Insights,
}

/// Puts it together. Its own listener has a keeper of its own: there the root is the dashboard, not the page.
pub(super) fn build(
    settings: &Settings,
    door: &DoorSettings,
    native: &Native,
    reporter: Reporter,
) -> Outcome<Dashboard> {
    let wanted = &settings.insights;
    let keeper =
        Keeper::new(door, native.tokens.clone(), Arc::clone(native.keeper.tickets()), Clock::system())
            .map_err(|error| Failure::usage(error.to_string()))?
            .with_reporter(reporter)
            .with_late_paths(insights::is_late_on_own);
    let anonymous_loopback =
        if wanted.allow_anonymous_loopback { Anonymous::FromLoopback } else { Anonymous::Refused };
    let of = |keeper: Arc<Keeper>, anonymous_loopback| Insights {
        registry: native.registry.clone(),
        keeper,
        settings: Arc::new(insights::Settings { agent: wanted.agent.clone(), anonymous_loopback }),
        // They end with the native protocol's, and are waited for with them.
        stopping: native.stopping.clone(),
        connections: native.connections.clone(),
    };
    Ok(Dashboard {
        main: of(Arc::clone(&native.keeper), Anonymous::Refused),
        own: of(Arc::new(keeper), anonymous_loopback),
    })
}

/// Takes its own address, where it has one.
pub(super) async fn bind(settings: &Settings, main: &DoorSettings) -> Outcome<Option<Door>> {
    let Some(address) = settings.insights.listen else { return Ok(None) };
    let door = DoorSettings { listen: vec![ListenAddress::Tcp(address)], ..main.clone() };
    let bound = Door::bind(&door).await;
    bound.map(Some).map_err(|error| Failure::new(format!("[insights] {error}")))
}

impl Dashboard {
    /// On the main listener.
    pub(crate) fn routes(&self) -> axum::Router {
        insights::routes(self.main.clone())
    }

    /// How its own listener is set, for the log; `main` is the main one.
    pub(super) fn opened(&self, main: &DoorSettings, own: &Door) -> DaemonEvent {
        let mut opened = door::opened(main, &own.addresses());
        if let DaemonEvent::DoorOpened { frontend, tokenless, .. } = &mut opened {
            *frontend = Some("insights".into());
            *tokenless = self.own.settings.anonymous_loopback == Anonymous::FromLoopback;
        }
        opened
    }

    /// On its own, until `closing`.
    pub(super) fn serve(&self, door: Door, closing: CancellationToken) -> Serving {
        for url in door.addresses().iter().filter_map(Listening::url) {
            let anonymous = self.own.settings.anonymous_loopback == Anonymous::FromLoopback;
            tracing::info!(url, anonymous, "the insights dashboard has a listener of its own");
        }
        door.serve(Arc::clone(&self.own.keeper), insights::own_routes(self.own.clone()), closing)
    }
}
