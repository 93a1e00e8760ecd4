//! Fifty clients answer one request at the same moment: one answer reaches the agent, the other clients learn who won.
//!
//! Each client has its own token, so that "who" means something. A witness between the agent and the daemon records
//! what reached the agent.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{Run, Tally};
use crate::{
    chance::Chance,
    link::{Door, Frame, Link},
    place::Place,
};

/// The number of clients.
const CLIENTS: usize = 50;

/// The reply to the answer of one client.
struct Got {
    name: String,
    answer: Value,
    /// The reply: a receipt, or a refusal.
    won: bool,
    body: Value,
}

/// Runs the fault.
pub async fn run(run: Run) -> Result<Tally> {
    let rounds = run.extent.of(100, 5);
    let mut chance = Chance::new(run.seed);
    let place = Place::witnessed()?;
    let (_, door) = place.up()?;
    let mut owner = Link::open(&door, "owner").await?;
    let session = owner.create("demo", place.work.path()).await?;
    owner.attach(&session, 0).await?;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let name = format!("client-{number}");
        let made = owner.call(json!({ "type": "token_create", "name": name, "role": "operator" })).await?;
        let token = made["secret"].as_str().context("a token without its secret")?.to_owned();
        let door = Door { address: door.address.clone(), token };
        let mut link = Link::open(&door, "racer").await?;
        link.attach(&session, 0).await?;
        clients.push((name, link));
    }
    for round in 0..rounds {
        owner.prompt(&session, &format!("use a tool, round {round}")).await?;
        let request = owner.until("a request", |frame| opened(frame, &session)).await?;
        let before = place.told()?.lines.iter().filter(|line| line.contains("\"answer\"")).count();
        let (back, got) = race(clients, &session, request, &mut chance).await?;
        clients = back;
        judge(&got, request).with_context(|| format!("round {round}"))?;
        owner
            .until("the end of the turn", |frame| match frame {
                Frame::Entry { entry, .. } if entry.kind() == "turn_ended" => Some(()),
                _ => None,
            })
            .await?;
        let told = place.told()?;
        let answers: Vec<_> =
            told.lines.iter().filter(|line| line.contains("\"answer\"")).skip(before).collect();
        ensure!(answers.len() == 1, "round {round}: the agent got {} answers: {answers:?}", answers.len());
        let winner = got.iter().find(|got| got.won).context("nobody won")?;
        let given: Value = serde_json::from_str(answers[0])?;
        ensure!(
            given["answer"]["answer"]["kind"] == winner.answer["kind"],
            "round {round}: {} answered {}, the agent got {given}",
            winner.name,
            winner.answer
        );
    }
    place.down()?;
    Ok(Tally {
        count: format!("{rounds} rounds"),
        found: format!("{CLIENTS} clients each, one answer each round"),
    })
}

fn opened(frame: &Frame, session: &str) -> Option<u64> {
    match frame {
        Frame::Entry { log, entry } if log == session && entry.kind() == "request_opened" => {
            entry.event["request"]["request"].as_u64()
        }
        _ => None,
    }
}

/// All clients wait for each other, then all answer. Returns the clients and their replies.
async fn race(
    clients: Vec<(String, Link)>,
    session: &str,
    request: u64,
    chance: &mut Chance,
) -> Result<(Vec<(String, Link)>, Vec<Got>)> {
    let line = Arc::new(Barrier::new(clients.len()));
    let mut racing = Vec::new();
    for (name, mut link) in clients {
        let answer = if chance.percent(50) {
            json!({ "kind": "allow" })
        } else {
            json!({ "kind": "deny", "message": format!("says {name}") })
        };
        let (line, session) = (Arc::clone(&line), session.to_owned());
        racing.push(tokio::spawn(async move {
            // A client must see the request before it answers.
            link.until("the request", |frame| opened(frame, &session).filter(|seen| *seen == request))
                .await?;
            let id = format!("{name}-{request}");
            let command = json!({ "name": "answer", "request": request, "answer": answer });
            let frame = json!({ "type": "command", "id": id, "session": session, "command": command });
            line.wait().await;
            link.send(&frame).await?;
            let (mut closed, mut reply) = (Vec::new(), None);
            link.until("the reply and the end of the request", |frame| {
                match frame {
                    Frame::Entry { entry, .. } if entry.kind() == "request_closed" => {
                        closed.push(entry.event.clone());
                    }
                    Frame::Reply { id: of, body } if *of == id => reply = Some((true, body.clone())),
                    Frame::Error { id: of, body } if *of == id => reply = Some((false, body.clone())),
                    _ => {}
                }
                (reply.is_some() && !closed.is_empty()).then_some(())
            })
            .await?;
            let (won, body) = reply.context("no reply")?;
            ensure!(closed.len() == 1, "{name} saw the request closed {} times", closed.len());
            let body = json!({ "reply": body, "closed": closed[0] });
            anyhow::Ok(((name.clone(), link), Got { name, answer, won, body }))
        }));
    }
    let (mut back, mut got) = (Vec::new(), Vec::new());
    for one in racing {
        let (client, one) = one.await??;
        back.push(client);
        got.push(one);
    }
    Ok((back, got))
}

/// One client won; the refusal of every other client names the winner; every client saw the same end.
fn judge(got: &[Got], request: u64) -> Result<()> {
    let winners: Vec<_> = got.iter().filter(|got| got.won).collect();
    ensure!(winners.len() == 1, "{} clients won", winners.len());
    let winner = &winners[0].name;
    for one in got {
        let (reply, closed) = (&one.body["reply"], &one.body["closed"]);
        ensure!(closed["request"] == request, "{}: {closed}", one.name);
        ensure!(closed["outcome"]["by"]["name"] == winner.as_str(), "{} got {closed}", one.name);
        if !one.won {
            ensure!(reply["code"] == "already_closed", "{} got {reply}", one.name);
            ensure!(reply["outcome"]["by"]["name"] == winner.as_str(), "{} got {reply}", one.name);
        }
    }
    let ends: BTreeSet<String> = got.iter().map(|got| got.body["closed"].to_string()).collect();
    ensure!(ends.len() == 1, "the clients saw different ends: {ends:?}");
    Ok(())
}
