//! Serves a JSON script until interrupted, and tells what is asked: `cargo run -p portolan-scripted --example serve --
//! script.json [port]`. For trying an agent by hand against a script.

use std::{
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use portolan_scripted::{Script, Server, ServerSettings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let script = match arguments.next() {
        Some(path) => Script::from_json(&std::fs::read_to_string(path)?)?,
        None => Script::new(),
    };
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = Server::start_with(script, ServerSettings { address, ..ServerSettings::default() }).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.base_url())?;
    for number in 1.. {
        let request = loop {
            if let Ok(request) =
                server.wait_until(Duration::from_hours(1), |request| request.number == number).await
            {
                break request;
            }
        };
        writeln!(
            out,
            "{number} {} {}{} {:?} {:?}",
            request.method,
            request.path,
            request.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default(),
            request.answered,
            request.asked.as_ref().map(|asked| (
                &asked.model,
                asked.prompt(),
                asked.tools.len(),
                asked.results.len()
            )),
        )?;
        if std::env::var_os("SHOW_BODIES").is_some() {
            writeln!(out, "  {:?}\n  {}", request.headers, request.body)?;
        }
    }
    Ok(())
}
