//! past: lists, imports and archives past conversations of agents.

use std::path::Path;

use portolan_core::{
    Action, CommandId, Millis, Seq, SessionSpec,
    log::delivery,
    ports::PastPlace,
    registry::{self, PastDescription},
};
use serde_json::json;

use super::{
    Context, attach, create, inputs,
    sessions::{age, shortened},
};
use crate::{
    arguments::{Past, PastVerb, TakeUp},
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::{
        clean,
        style::{Line, Style},
    },
};

/// Titles and folders longer than this are cut in tables.
const COLUMNS: usize = 48;

pub(super) async fn past(context: &Context, asked: Past) -> Outcome {
    match asked.verb {
        Some(PastVerb::Resume(take_up)) => resume(context, *take_up).await,
        Some(PastVerb::Archive { id, agent, undo }) => {
            let place = PastPlace::when_archived(!undo);
            let agent = agent.unwrap_or_default();
            put(context, registry::PastMove { agent, past: id, place }).await
        }
        None => list(context, asked).await,
    }
}

async fn list(context: &Context, asked: Past) -> Outcome {
    let cwd = asked.cwd.map(|folder| {
        folder.canonicalize().map_err(|error| Failure::usage(format!("`{}`: {error}", folder.display())))
    });
    let mut client = context.client().await?;
    let place = PastPlace::when_archived(asked.archived);
    let past = client.past(asked.agent, cwd.transpose()?, place, asked.limit.max(1)).await?;
    client.close().await;
    match context.format() {
        Format::Json => output::json(&past),
        Format::Plain if past.is_empty() => {
            output::note(match place {
                PastPlace::Listed => "no past conversations",
                PastPlace::Archived => "no archived conversations",
            });
            Ok(())
        }
        Format::Plain => {
            let home = std::env::var_os("HOME");
            output::raw(table(&past, Millis::now(), home.as_deref().map(Path::new)).as_bytes())
        }
    }
}

fn table(past: &[PastDescription], now: Millis, home: Option<&Path>) -> String {
    let ids = shortened(&past.iter().map(|one| clean::line(&one.past.past)).collect::<Vec<_>>());
    let here: Vec<String> =
        past.iter().filter_map(|one| one.session).map(|session| session.to_string()).collect();
    let mut sessions = shortened(&here).into_iter();
    let cut = |text: String| Line::new(Style::Plain, text).cut(COLUMNS).plain();
    let mut rows = vec![["ID", "AGENT", "AGE", "SESSION", "FOLDER", "TITLE"].map(str::to_owned).to_vec()];
    for (one, id) in past.iter().zip(ids) {
        let session = one.session.and_then(|_| sessions.next());
        rows.push(vec![
            id,
            clean::line(&one.agent),
            age(now.0 - one.past.updated_at.0),
            session
                .or_else(|| Some(format!("open in process {}", one.past.held_by?)))
                .unwrap_or_else(|| "-".into()),
            one.past.cwd.as_deref().map_or_else(|| "-".into(), |cwd| cut(shown(cwd, home))),
            cut(clean::line(&one.past.title)),
        ]);
    }
    output::table(&rows)
}

/// A folder with `~` for the home folder.
fn shown(folder: &Path, home: Option<&Path>) -> String {
    let below = home.filter(|home| home.is_absolute()).and_then(|home| folder.strip_prefix(home).ok());
    clean::line(&match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.display().to_string(),
    })
}

async fn put(context: &Context, asked: registry::PastMove) -> Outcome {
    let place = asked.place;
    let mut client = context.client().await?;
    let moved = client.move_past(asked).await?;
    client.close().await;
    match context.format() {
        Format::Json => output::json(&moved),
        Format::Plain => {
            for one in &moved {
                let title = clean::line(&one.past.title);
                output::note(match place {
                    PastPlace::Archived => format!("archived: {title}"),
                    PastPlace::Listed => format!("taken out of the archive: {title}"),
                });
            }
            Ok(())
        }
    }
}

async fn resume(context: &Context, asked: TakeUp) -> Outcome {
    let prompt = inputs::prompt(&asked.prompt, &asked.images)?;
    let spec = SessionSpec {
        agent: asked.agent.unwrap_or_default(),
        prompt: prompt.clone(),
        name: asked.name,
        model: asked.model,
        mode: asked.mode,
        ..SessionSpec::default()
    };
    let mut client = context.client().await?;
    let taken = client.take_up(registry::TakeUp { past: asked.id, copy: asked.fork, spec }).await?;
    let session = taken.session.session;
    if taken.already {
        output::note(format!("this conversation is already session {session}; `--fork` continues in a copy"));
        if !prompt.is_empty() {
            client.submit(session, CommandId::random(), Action::Prompt { content: prompt }).await?;
        }
    }
    if asked.attach {
        let start = delivery::Start::After(Seq::ZERO);
        return attach::join(context, client, session, start).await;
    }
    client.close().await;
    match context.format() {
        Format::Json => output::json(&json!({"session": taken.session, "already": taken.already})),
        Format::Plain => create::created(context, &taken.session),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use portolan_core::{SessionId, ports::PastSession};

    use super::*;
    use crate::arguments::{Arguments, Verb};

    fn parse(line: &str) -> Past {
        let words = std::iter::once("portolan").chain(line.split(' '));
        let Verb::Past(past) = Arguments::try_parse_from(words).unwrap().verb else { panic!("not past") };
        past
    }

    #[test]
    fn the_verb_lists_imports_or_archives() {
        let listed = parse("past claude --limit 5 -C /tmp");
        assert_eq!((listed.agent.as_deref(), listed.limit), (Some("claude"), 5));
        assert!(listed.verb.is_none());
        assert!(!listed.archived && parse("past --archived").archived);
        let Some(PastVerb::Archive { id, agent, undo }) = parse("past archive 0aaa --undo").verb else {
            panic!("not archive")
        };
        assert_eq!((id.as_str(), agent, undo), ("0aaa", None, true));
        let Some(PastVerb::Resume(taken)) = parse("past resume 0aaa go on --fork").verb else {
            panic!("not resume")
        };
        assert_eq!(
            (taken.id.as_str(), taken.prompt, taken.fork),
            ("0aaa", vec!["go".into(), "on".into()], true)
        );
    }

    #[test]
    fn the_list_has_a_line_per_conversation() {
        let one = |past: &str, cwd: &str, session| PastDescription {
            agent: "claude".into(),
            past: PastSession {
                past: past.into(),
                title: "fix the \u{1b}[31mmast".into(),
                cwd: Some(cwd.into()),
                started_at: None,
                updated_at: Millis(0),
                version: None,
                held_by: None,
            },
            session,
        };
        let here = Some(SessionId::from_u128(0x10));
        let past =
            [one("4000-0000-0aaaaaaa", "/home/ada/boat", None), one("4000-1111-0aaaaaaa", "/srv", here)];
        assert_eq!(
            table(&past, Millis(7_200_000), Some(Path::new("/home/ada"))),
            "ID          AGENT   AGE  SESSION   FOLDER  TITLE\n\
             0-0aaaaaaa  claude  2h   -         ~/boat  fix the mast\n\
             1-0aaaaaaa  claude  2h   00000010  /srv    fix the mast\n"
        );
    }
}
