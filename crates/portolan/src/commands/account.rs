//! account: shows the account of an agent, logs the agent in and out.

use std::{path::PathBuf, time::Duration};

use portolan_client::{Client, Probe};
use portolan_core::{
    Millis,
    ports::{LogIn, Login, LoginWay, Secret},
    registry::AccountDescription,
};

use super::{Context, inputs};
use crate::{
    arguments::AccountVerb,
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::clean,
    way_out,
};

/// How often to ask whether a login on a page has ended. The daemon itself ends a login that takes too long.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn account(context: &Context, agent: String, verb: Option<AccountVerb>) -> Outcome {
    let with = match &verb {
        Some(AccountVerb::Login { device_code, key_file }) => Some(asked(*device_code, key_file.as_ref())?),
        _ => None,
    };
    let mut client = context.client().await?;
    let told = match (verb, with) {
        (None, _) => client.account(agent).await?,
        (Some(AccountVerb::Logout), _) => client.log_out(agent).await?,
        (Some(AccountVerb::Login { .. }), with) => {
            let begun = client.log_in(agent, with.unwrap_or(LogIn::Browser)).await?;
            ended(context, &mut client, begun).await?
        }
    };
    let logins = match (context.format(), &told.state.login) {
        (Format::Plain, Some(Login::LoggedOut { .. })) => logins(&mut client, &told.agent).await?,
        _ => Vec::new(),
    };
    client.close().await;
    match context.format() {
        Format::Json => output::json(&told),
        Format::Plain => output::raw(shown(&told, &logins, Millis::now()).as_bytes()),
    }
}

/// The ways to log the agent in through Portolan.
async fn logins(client: &mut Client, agent: &str) -> Outcome<Vec<LoginWay>> {
    let known = client.agents(Probe::Known).await?.into_iter().find(|known| known.kind == agent);
    Ok(known.map(|known| known.capabilities.logins).unwrap_or_default())
}

fn asked(device_code: bool, key_file: Option<&PathBuf>) -> Outcome<LogIn> {
    Ok(match key_file {
        // Never from the command line, where every user of the machine can read the key.
        Some(file) if file.as_os_str() == "-" => LogIn::ApiKey { key: key(inputs::text("-")?) },
        Some(file) => LogIn::ApiKey { key: key(inputs::text(&format!("@{}", file.display()))?) },
        None if device_code => LogIn::DeviceCode,
        None => LogIn::Browser,
    })
}

fn key(text: String) -> Secret {
    Secret::new(text.trim())
}

/// Shows the page of a login in progress, and waits for the end of the login.
async fn ended(
    context: &Context,
    client: &mut Client,
    mut told: AccountDescription,
) -> Outcome<AccountDescription> {
    let Some(page) = told.under_way.clone() else { return Ok(told) };
    let url = clean::line(&page.url);
    match &page.code {
        Some(code) => output::note(format!("open {url} and type the code {}", clean::line(code))),
        None => output::note(format!("open {url}")),
    }
    if context.format() == Format::Plain {
        output::note("waiting for the login to end; Ctrl-C ends the wait, not the login");
    }
    while told.under_way.is_some() {
        tokio::time::sleep(LOOK).await;
        told = client.account(told.agent).await?;
    }
    match &told.failed {
        Some(why) => Err(Failure::new(clean::line(why))),
        None => Ok(told),
    }
}

fn shown(told: &AccountDescription, logins: &[LoginWay], now: Millis) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), clean::line(&value)]);
    match (&told.under_way, &told.state.login) {
        (Some(page), _) => row("login", format!("in progress: {}", page.url)),
        (None, Some(Login::LoggedIn { how })) => row("login", how.clone()),
        (None, Some(Login::LoggedOut { way_out })) => {
            row("login", format!("none; {}", way_out::of_login(&told.agent, way_out, logins)));
        }
        (None, None) => row("login", "not needed, or not reported by the agent".into()),
    }
    let account = told.state.account.clone().unwrap_or_default();
    for (name, value) in [("organization", account.organization), ("subscription", account.subscription)] {
        if let Some(value) = value {
            row(name, value);
        }
    }
    for limit in &told.state.limits {
        let span = limit.window_minutes.map(|minutes| format!(" of the {} h limit", minutes.div_ceil(60)));
        let resets = limit.resets_at.map(|at| (at.0 - now.0).max(0) / 60_000);
        let resets = resets.map(|minutes| format!(", resets in {} h {} min", minutes / 60, minutes % 60));
        let (span, resets) = (span.unwrap_or_default(), resets.unwrap_or_default());
        row("limit", format!("{:.0} %{span} used{resets}", limit.used_percent));
    }
    if let Some(why) = &told.failed {
        row("last login", why.clone());
    }
    output::table(&rows)
}

#[cfg(test)]
mod tests {
    use portolan_core::ports::{AccountState, UsageLimit};

    use super::*;

    #[test]
    fn an_account_is_shown_line_by_line_without_escape_sequences() {
        let limit =
            UsageLimit { used_percent: 12.5, window_minutes: Some(300), resets_at: Some(Millis(3_660_000)) };
        let login = Login::LoggedIn { how: "chatgpt, ada\u{1b}[31m@example.org".into() };
        let told = AccountDescription {
            agent: "codex".into(),
            state: AccountState { login: Some(login), account: None, limits: vec![limit] },
            under_way: None,
            failed: None,
        };
        let expected = "login  chatgpt, ada@example.org\n\
                        limit  12 % of the 5 h limit used, resets in 1 h 1 min\n";
        assert_eq!(shown(&told, &[], Millis(0)), expected);
    }

    #[test]
    fn a_key_comes_from_a_file_and_is_trimmed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-harbour\n").unwrap();
        let with = asked(false, Some(&file)).unwrap();
        assert_eq!(with, LogIn::ApiKey { key: Secret::new("sk-harbour") });
        assert_eq!(
            (asked(true, None).unwrap(), asked(false, None).unwrap()),
            (LogIn::DeviceCode, LogIn::Browser)
        );
        assert!(asked(false, Some(&folder.path().join("gone"))).is_err());
    }
}
