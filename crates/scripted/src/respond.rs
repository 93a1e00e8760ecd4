//! From a request's bytes to the response: finds the dialect, asks the script, records, and plays the step.
//!
//! Every error is answered in the API's own form. Waiting, stalling and hanging end with the connection, so nothing
//! here outlives its client or the server.

use std::{collections::VecDeque, convert::Infallible, io, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Frame, Incoming};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    asked::{Asked, Delivery},
    dialect::{self, Beat, Dialect, Route},
    placeholder,
    record::{Answered, Credential, Recorded},
    script::Cue,
    server::Shared,
    step::{Ending, Failure, FailureKind, Message, Reply},
};

/// The largest body: the limit of the real API, for conversations full of images.
pub(crate) const MAX_BODY: usize = 32 * 1024 * 1024;
/// A body that has not arrived after this time will not come.
const BODY_WITHIN: Duration = Duration::from_mins(1);
/// Recorded besides those with a prefix of [`RECORDED_PREFIXES`].
const RECORDED: [HeaderName; 2] = [USER_AGENT, CONTENT_TYPE];
/// Prefixes of headers by which agents and libraries name themselves and their expectations.
const RECORDED_PREFIXES: [&str; 4] = ["anthropic-", "x-app", "x-claude-", "x-stainless-retry-count"];

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Answers one request.
pub(crate) async fn respond(
    shared: &Shared,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let routed = dialect::all()
        .iter()
        .find_map(|dialect| Some((*dialect, dialect.route(&head.method, head.uri.path())?)));
    let dialect = routed.map_or(dialect::all()[0], |(dialect, _)| dialect);
    let body = read_body(body).await;
    let mut visit =
        Visit::new(shared, dialect, &head.method, &head.uri, &head.headers, body.as_deref().unwrap_or(&[]));

    let (_, key) = dialect.credential(&head.headers);
    // The key protects only a script, so a comparison in constant time has no use.
    let key_fits = shared.settings.key.is_none() || shared.settings.key.as_deref() == key;
    Ok(match (routed, body) {
        (_, Err(failure)) => visit.refuse(&failure),
        (None, Ok(_)) => visit.refuse(&FailureKind::NotFound.into()),
        (Some(_), Ok(_)) if !key_fits => visit.refuse(&FailureKind::Unauthorized.into()),
        (Some((_, Route::Models)), Ok(_)) => {
            let models = dialect.models(&shared.playing().script().models);
            visit.record(Answered::Models);
            visit.json(StatusCode::OK, &models)
        }
        (Some((_, route)), Ok(body)) => match visit.read(&head.headers, &body) {
            Err(failure) => visit.refuse(&failure),
            Ok(asked) if route == Route::Count => {
                let tokens = shared.playing().script().count.unwrap_or(asked.tokens);
                visit.record(Answered::Count);
                visit.json(StatusCode::OK, &dialect.count(tokens))
            }
            Ok(asked) => {
                let cue = shared.playing().cue(&asked);
                visit.record(
                    cue.rule.map_or(Answered::Otherwise, |rule| Answered::Rule { rule, step: cue.step }),
                );
                visit.play(&asked, cue).await
            }
        },
    })
}

async fn read_body(body: Incoming) -> Result<Bytes, Failure> {
    let bad = |message: String| Failure { message: Some(message), ..FailureKind::BadRequest.into() };
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(FailureKind::TooLarge.into());
    }
    match tokio::time::timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(FailureKind::TooLarge.into()),
        Ok(Err(error)) => Err(bad(format!("the body could not be read: {error}"))),
        Err(_) => Err(bad(format!("the body did not come within {BODY_WITHIN:?}"))),
    }
}

/// One request on its way to its response.
struct Visit<'a> {
    shared: &'a Shared,
    dialect: &'static dyn Dialect,
    request_id: String,
    size: usize,
    // Taken when it is recorded: exactly once, before the response begins.
    recorded: Option<Recorded>,
}

fn mint(prefix: &str) -> String {
    format!("{prefix}{}", Uuid::now_v7().simple())
}

impl<'a> Visit<'a> {
    fn new(
        shared: &'a Shared,
        dialect: &'static dyn Dialect,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let kept = |name: &HeaderName| {
            RECORDED.contains(name)
                || RECORDED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
        };
        let headers_kept = headers
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let (credential, _): (Credential, _) = dialect.credential(headers);
        let recorded = Recorded {
            number: 0,
            method: method.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().map(str::to_owned),
            headers: headers_kept.collect(),
            credential,
            body: serde_json::from_slice(body).unwrap_or(Value::Null),
            asked: None,
            answered: Answered::Otherwise,
        };
        Self {
            shared,
            dialect,
            request_id: mint(dialect.request_id().1),
            size: body.len(),
            recorded: Some(recorded),
        }
    }

    /// Reads the content of the body.
    fn read(&mut self, headers: &HeaderMap, bytes: &[u8]) -> Result<Asked, Failure> {
        let bad = |message| Failure { message: Some(message), ..FailureKind::BadRequest.into() };
        let recorded = self.recorded.as_mut().ok_or(FailureKind::Internal)?;
        if recorded.body.is_null()
            && let Err(error) = serde_json::from_slice::<Value>(bytes)
        {
            return Err(bad(format!("The request body is not valid JSON: {error}")));
        }
        let asked = self.dialect.read(&recorded.path, headers, &recorded.body).map_err(bad)?;
        recorded.asked = Some(asked.clone());
        Ok(asked)
    }

    fn record(&mut self, answered: Answered) {
        if let Some(mut recorded) = self.recorded.take() {
            recorded.answered = answered;
            tracing::debug!(method = recorded.method, path = recorded.path, ?answered, "request");
            self.shared.record.push(recorded, self.size);
        }
    }

    /// An error that is not from the script.
    fn refuse(&mut self, failure: &Failure) -> Response<Body> {
        self.record(Answered::Refused(self.dialect.refusal(failure, "").status.as_u16()));
        self.fail(failure)
    }

    fn fail(&self, failure: &Failure) -> Response<Body> {
        let refusal = self.dialect.refusal(failure, &self.request_id);
        let mut response = self.json(refusal.status, &refusal.body);
        if let Some(seconds) = failure.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    async fn play(&self, asked: &Asked, cue: Cue) -> Response<Body> {
        let step = cue.play;
        tokio::time::sleep(step.wait).await;
        let mut response = match step.reply {
            Reply::Hang => std::future::pending().await,
            Reply::Fail(failure) => self.fail(&failure),
            Reply::Say(mut message) => {
                placeholder::fill(&mut message, asked);
                self.say(asked, message)
            }
        };
        for (name, value) in step.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(&name), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            } else {
                tracing::warn!(name, "invalid header in the script; ignored");
            }
        }
        response
    }

    fn say(&self, asked: &Asked, message: Message) -> Response<Body> {
        match (asked.delivery, message.ending.clone()) {
            (Delivery::Streamed, ending) => {
                let stream = self.dialect.stream(asked, &message, &mut mint);
                let mut beats = VecDeque::from(stream.opening);
                let break_off = match ending {
                    Ending::Whole => {
                        beats.extend(stream.closing);
                        BreakOff::No
                    }
                    Ending::Error(failure) => {
                        let bytes = self.dialect.broken(&failure, &self.request_id);
                        beats.push_back(Beat { wait: Duration::ZERO, bytes });
                        BreakOff::No
                    }
                    Ending::Cut => BreakOff::Cut,
                    Ending::Stall => BreakOff::Stall,
                };
                let mut response = self.response(StatusCode::OK, played(beats, break_off));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                response
            }
            (Delivery::Whole, Ending::Error(failure)) => self.fail(&failure),
            (Delivery::Whole, ending) => {
                let body = self.dialect.whole(asked, &message, &mut mint);
                let break_off = match ending {
                    Ending::Cut => BreakOff::Cut,
                    Ending::Stall => BreakOff::Stall,
                    Ending::Whole | Ending::Error(_) => return self.json(StatusCode::OK, &body),
                };
                let mut bytes = Bytes::from(body.to_string());
                bytes.truncate(bytes.len() / 2);
                let half = VecDeque::from([Beat { wait: Duration::ZERO, bytes }]);
                let mut response = self.response(StatusCode::OK, played(half, break_off));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
        }
    }

    fn json(&self, status: StatusCode, body: &Value) -> Response<Body> {
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
        let mut response = self.response(status, body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn response(&self, status: StatusCode, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        if let Ok(id) = HeaderValue::try_from(&self.request_id) {
            response.headers_mut().insert(HeaderName::from_static(self.dialect.request_id().0), id);
        }
        response
    }
}

/// What comes after the last beat.
#[derive(Clone, Copy)]
enum BreakOff {
    No,
    Cut,
    Stall,
}

/// A body that plays its beats in time.
fn played(beats: VecDeque<Beat>, break_off: BreakOff) -> Body {
    let frames = stream::unfold((beats, break_off), |(mut beats, break_off)| async move {
        if let Some(beat) = beats.pop_front() {
            if !beat.wait.is_zero() {
                tokio::time::sleep(beat.wait).await;
            }
            return Some((Ok(Frame::data(beat.bytes)), (beats, break_off)));
        }
        match break_off {
            BreakOff::No => None,
            BreakOff::Cut => {
                // Once more through the runtime, so that written bytes leave before the connection ends.
                tokio::task::yield_now().await;
                Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), (beats, BreakOff::No)))
            }
            BreakOff::Stall => std::future::pending().await,
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
