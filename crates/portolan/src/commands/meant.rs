//! Finds the request that an answer is for, if the number may be left out.
//!
//! Without a number, the answer is for the only open request, which is shown before it is answered. A request that
//! opened just now is excluded: nobody can have read it, and the command is then a repeated answer to the request
//! before it.

use std::io::IsTerminal as _;

use portolan_client::Client;
use portolan_core::{Millis, Refusal, RefusalCode, SessionId, request::Request};

use super::Context;
use crate::{
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::{clean, requests, style::Colours},
};

/// How long a request must be open before it can be answered without its number: longer than the pause between two key
/// presses of a person in a hurry.
const READ: i64 = 2_000;

/// The verb of the answer, for the hint that names the request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Approve,
    Deny,
    Answer,
}

impl Verb {
    /// The command that answers only this request.
    fn naming(self, session: SessionId, request: &Request) -> String {
        let number = request.request;
        match self {
            Self::Approve => format!("portolan approve {session} {number}"),
            Self::Deny => format!("portolan deny {session} {number}"),
            Self::Answer => format!("portolan answer {session} --request {number} ..."),
        }
    }
}

/// The named request, otherwise the only open request that somebody can have read.
pub(super) async fn request(
    context: &Context,
    client: &mut Client,
    session: SessionId,
    named: Option<u64>,
    verb: Verb,
) -> Outcome<Request> {
    let (_, state) = client.state(session).await?;
    let named = match named {
        None if state.requests.len() > 1 => ask_which(&state.requests),
        named => named,
    };
    let request = pick(state.requests, named)?;
    if named.is_none() {
        read(session, &request, client.now(), verb)?;
        if context.format() == Format::Plain {
            output::note(shown(&request));
        }
    }
    Ok(request)
}

/// Refuses to answer a request that nobody can have read.
fn read(session: SessionId, request: &Request, now: Millis, verb: Verb) -> Outcome {
    let open_for = now.0.saturating_sub(request.opened_at.0);
    if open_for >= READ {
        return Ok(());
    }
    Err(Failure::new(format!(
        "nothing was answered: request {} opened just now, nobody can have read it; `{}` answers it\n{}",
        request.request,
        verb.naming(session, request),
        shown(request)
    )))
}

/// A request in full, for stderr.
fn shown(request: &Request) -> String {
    let colours = Colours::when(output::colours_on_stderr());
    let lines = requests::in_full(request);
    lines.iter().map(|line| line.paint(colours)).collect::<Vec<_>>().join("\n")
}

/// One line per request.
fn list(waiting: &[Request]) -> String {
    let line =
        |request: &Request| format!("\n  {}  {}", request.request, clean::visible(&request.ask.title()));
    waiting.iter().map(line).collect::<Vec<_>>().concat()
}

/// Asks which of several requests to answer; `None` if there is no terminal to ask.
fn ask_which(waiting: &[Request]) -> Option<u64> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    output::note(format!("which request?{}", list(waiting)));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    line.trim().parse().ok()
}

/// The named request, otherwise the only open request. An error lists several open requests.
fn pick(mut waiting: Vec<Request>, named: Option<u64>) -> Outcome<Request> {
    match named {
        Some(id) => match waiting.iter().position(|request| request.request.0 == id) {
            Some(found) => Ok(waiting.swap_remove(found)),
            None if waiting.is_empty() => Err(Refusal::new(
                RefusalCode::NotFound,
                format!("request {id} is not open; this session has no open request"),
            )
            .into()),
            None => Err(Failure::not_found(format!(
                "request {id} is not open; the open requests are:{}",
                list(&waiting)
            ))),
        },
        None if waiting.len() > 1 => Err(Failure::usage(format!(
            "several requests are open; give the number of one:{}",
            list(&waiting)
        ))),
        None => waiting.pop().ok_or_else(|| Failure::not_found("this session has no open request")),
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::{Generation, RequestId, request::Ask};

    use super::*;
    use crate::failure::Exit;

    fn request(id: u64, name: &str) -> Request {
        Request {
            request: RequestId(id),
            generation: Generation(1),
            ask: Ask::Permission {
                tool_name: name.into(),
                input: serde_json::json!({"command": "ls"}),
                description: None,
                changes: vec![],
                reason: None,
                blocked_path: None,
                folder: None,
                suggestions: vec![],
                options: vec![],
            },
            parent: None,
            tool: None,
            digest: String::new(),
            opened_at: Millis(10_000),
            shortened: false,
            policy: None,
            suggested_rule: None,
            deadline: None,
        }
    }

    #[test]
    fn the_only_open_request_needs_no_number() {
        assert_eq!(pick(vec![request(3, "Bash")], None).unwrap().request, RequestId(3));
        assert_eq!(
            pick(vec![request(3, "Bash"), request(5, "Edit")], Some(5)).unwrap().request,
            RequestId(5)
        );
    }

    #[test]
    fn several_open_requests_are_listed_if_no_number_is_given() {
        let error = pick(vec![request(3, "Bash"), request(5, "Edit")], None).unwrap_err();
        assert_eq!(
            error.message,
            "several requests are open; give the number of one:\n  3  Bash: ls\n  5  Edit: ls"
        );
        assert_eq!(error.exit, Exit::Usage);
        let error = pick(vec![request(3, "Bash")], Some(4)).unwrap_err();
        assert_eq!(error.message, "request 4 is not open; the open requests are:\n  3  Bash: ls");
        assert_eq!(pick(vec![], None).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn a_request_that_opened_just_now_needs_its_number() {
        let session = SessionId::from_u128(7);
        let fresh = |now, verb| read(session, &request(3, "Bash"), Millis(now), verb);
        for verb in [Verb::Approve, Verb::Deny, Verb::Answer] {
            assert!(fresh(12_000, verb).is_ok());
            // A clock that was set back does not show how long the request was open.
            for now in [11_999, 10_000, 0] {
                let refused = fresh(now, verb).unwrap_err();
                assert_eq!(refused.exit, Exit::Failed);
                assert!(refused.message.contains("command: ls"), "the request is shown: {}", refused.message);
            }
        }
        let named = |verb| fresh(10_000, verb).unwrap_err().message;
        assert!(named(Verb::Approve).contains(&format!("`portolan approve {session} 3`")));
        assert!(named(Verb::Deny).contains(&format!("`portolan deny {session} 3`")));
        assert!(named(Verb::Answer).contains(&format!("`portolan answer {session} --request 3 ...`")));
    }
}
