//! token create, list, revoke, rotate: who has access.

use std::{fs::File, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf, time::Duration};

use portolan_protocol::{CreateToken, TokenInfo};
use serde_json::json;

use super::{Context, inputs};
use crate::{
    arguments::Token,
    daemon::{lock::Lock, watch},
    failure::{Exit, Failure, Outcome},
    home::{Home, rfc3339},
    output::{self, Format},
    terminal::clean,
};

/// How long a running daemon may take to notice that the owner's secret was removed, on a busy machine.
const TAKEN_OVER: Duration = Duration::from_secs(20);

pub(super) async fn run(context: &Context, verb: Token) -> Outcome {
    if let Token::Rotate = verb {
        return rotate(context).await;
    }
    let mut client = context.client().await?;
    match verb {
        Token::Rotate => Ok(()),
        Token::Create { name, role, sessions, expires, output: file } => {
            let mut bound = std::collections::BTreeSet::new();
            for id in &sessions {
                bound.insert(client.resolve(id).await?);
            }
            let wanted = CreateToken {
                name,
                role,
                sessions: (!bound.is_empty()).then_some(bound),
                expires_in_seconds: expires.as_deref().map(inputs::seconds).transpose()?,
            };
            // Before the token, because a token whose secret cannot be written is lost.
            let place = file.map(Place::make).transpose()?;
            let (token, secret) = client.token_create(wanted).await?;
            client.close().await;
            created(context, &token, &secret, place)
        }
        Token::List => {
            let tokens = client.token_list().await?;
            client.close().await;
            match context.format() {
                Format::Json => output::json(&tokens),
                Format::Plain => output::raw(list(&tokens).as_bytes()),
            }
        }
        Token::Revoke { token } => {
            let tokens = client.token_list().await?;
            let found = pick(&tokens, &token)?;
            client.token_revoke(found.token.clone()).await?;
            client.close().await;
            match context.format() {
                Format::Json => output::json(&json!({"revoked": found.token})),
                Format::Plain => {
                    output::note(format!(
                        "the token `{}` is revoked; its connections are closed",
                        clean::line(&found.name)
                    ));
                    Ok(())
                }
            }
        }
    }
}

/// Removes the owner's secret; the running daemon, or the next one, creates a new secret and forgets the old one.
async fn rotate(context: &Context) -> Outcome {
    let home = Home::find()?;
    match std::fs::remove_file(home.token()) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(crate::home::unusable(&home.token(), &error)),
    }
    let deadline = tokio::time::Instant::now() + TAKEN_OVER;
    let running = Lock::holder(&home).is_some();
    while running && !home.token().exists() {
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure {
                exit: Exit::Uncertain,
                message: "the daemon has not created a new secret yet; `portolan logs` may show why".into(),
            });
        }
        tokio::time::sleep(watch::LOOK / 20).await;
    }
    match context.format() {
        Format::Json => output::json(&json!({"rotated": true, "daemon_ran": running})),
        Format::Plain => {
            output::note(if running {
                "the owner's token has a new secret; every client that used the old secret was disconnected"
            } else {
                "the daemon creates a new secret at its next start"
            });
            Ok(())
        }
    }
}

/// A new file for a secret. The file is removed if it gets no secret.
struct Place {
    path: PathBuf,
    file: File,
    filled: bool,
}

impl Place {
    fn make(path: PathBuf) -> Outcome<Self> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))?;
        Ok(Self { path, file, filled: false })
    }

    fn fill(&mut self, token: &TokenInfo, secret: &str) -> Outcome {
        self.file.write_all(format!("{secret}\n").as_bytes()).map_err(|error| {
            let (path, token) = (self.path.display(), &token.token);
            Failure::new(format!(
                "`{path}`: {error}; the token was created, `portolan token revoke {token}` revokes it"
            ))
        })?;
        self.filled = true;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.filled {
            // The file is empty, so it does no harm if it cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn created(context: &Context, token: &TokenInfo, secret: &str, mut place: Option<Place>) -> Outcome {
    if let Some(place) = &mut place {
        place.fill(token, secret)?;
    }
    match (context.format(), place.as_ref().map(|place| &place.path)) {
        (Format::Json, Some(_)) => output::json(&json!({"token": token})),
        (Format::Json, None) => output::json(&json!({"token": token, "secret": secret})),
        (Format::Plain, Some(path)) => {
            output::note(format!(
                "{} has access with the token in `{}`",
                clean::line(&token.name),
                path.display()
            ));
            Ok(())
        }
        (Format::Plain, None) => {
            output::line(secret)?;
            output::note(
                "this secret is shown once; keep it in a file of mode 0600 and name the file with --token-file",
            );
            Ok(())
        }
    }
}

fn list(tokens: &[TokenInfo]) -> String {
    let mut rows =
        vec![["TOKEN", "NAME", "ROLE", "SESSIONS", "EXPIRES", "LAST USED"].map(str::to_owned).to_vec()];
    for token in tokens {
        rows.push(vec![
            token.token.to_string(),
            clean::line(&token.name),
            token.role.to_string(),
            token.sessions.as_ref().map_or_else(|| "all".into(), |bound| bound.len().to_string()),
            token.expires_at.map_or_else(|| "never".into(), rfc3339),
            token.used_at.map_or_else(|| "never".into(), rfc3339),
        ]);
    }
    output::table(&rows)
}

/// Finds a token by id, by the beginning of its id, or by name.
fn pick<'a>(tokens: &'a [TokenInfo], given: &str) -> Outcome<&'a TokenInfo> {
    let exact: Vec<&TokenInfo> =
        tokens.iter().filter(|token| token.token.as_str() == given || token.name == given).collect();
    let found = if exact.is_empty() && given.len() >= 4 {
        tokens.iter().filter(|token| token.token.as_str().starts_with(given)).collect()
    } else {
        exact
    };
    match found.as_slice() {
        [only] => Ok(only),
        [] => Err(Failure::not_found(format!(
            "there is no token `{given}`; `portolan token list` lists the tokens"
        ))),
        _ => Err(Failure::usage(format!("`{given}` matches several tokens; give more of the id"))),
    }
}
