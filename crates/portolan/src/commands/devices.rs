//! devices list, approve, revoke: which devices may connect to the handheld's listener.

use http::Method;
use portolan_frontends::handheld::{DeviceInfo, DeviceState};

use super::{Context, handheld::ask};
use crate::{
    arguments::Devices,
    failure::Outcome,
    home::rfc3339,
    output::{self, Format},
};

pub(super) async fn run(context: &Context, verb: Devices) -> Outcome {
    match verb {
        Devices::List => {
            let devices: Vec<DeviceInfo> = ask(context, Method::GET, "/api/v1/devices", None).await?;
            match context.format() {
                Format::Json => output::json(&devices),
                Format::Plain => output::raw(list(&devices).as_bytes()),
            }
        }
        Devices::Approve { address } => {
            let path = format!("/api/v1/devices/{address}/approve");
            decided(context, ask(context, Method::POST, &path, None).await?)
        }
        Devices::Revoke { address } => {
            let path = format!("/api/v1/devices/{address}");
            decided(context, ask(context, Method::DELETE, &path, None).await?)
        }
    }
}

fn decided(context: &Context, device: DeviceInfo) -> Outcome {
    match context.format() {
        Format::Json => output::json(&device),
        Format::Plain => {
            output::note(format!("{} is {}", device.address, word(device.state)));
            Ok(())
        }
    }
}

fn word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Approved => "approved",
        DeviceState::Allowed => "allowed by portolan.toml",
        DeviceState::Held => "waits for approval",
        DeviceState::Revoked => "revoked",
    }
}

fn list(devices: &[DeviceInfo]) -> String {
    let mut rows = vec![["ADDRESS", "STATE", "SINCE", "LAST SEEN"].map(str::to_owned).to_vec()];
    for device in devices {
        rows.push(vec![
            device.address.to_string(),
            word(device.state).to_owned(),
            rfc3339(device.since),
            device.seen.map_or_else(|| "-".into(), rfc3339),
        ]);
    }
    output::table(&rows)
}
