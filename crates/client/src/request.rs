//! Single HTTP requests outside of the native protocol: a frontend's own routes for the owner.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use portolan_core::Refusal;
use portolan_protocol::NO_SUCH_PATH;
use serde::Deserialize;
use serde_json::Value;

use crate::{Attempt, Dial, Error};

/// How long the daemon may take, including a wait for a busy disk.
const ANSWER: Duration = Duration::from_mins(1);

/// The largest answer.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

#[derive(Deserialize)]
struct Refused {
    error: Refusal,
}

/// Sends one request. `None` if the daemon has no such path.
pub async fn request(
    dial: &dyn Dial,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Option<Value>, Error> {
    let asked = tokio::time::timeout(ANSWER, request_in_time(dial, method, path, body));
    asked.await.map_err(|_| Error::Silent { what: "answer", seconds: ANSWER.as_secs() })?
}

async fn request_in_time(
    dial: &dyn Dial,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Option<Value>, Error> {
    let lost =
        |error: hyper::Error| Error::Unreachable(format!("the connection to the daemon was lost: {error}"));
    let line = dial.line(Attempt::First).await?;
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", line.prefix))
        .header(header::HOST, &line.authority)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(value) = line.authorization()? {
        request = request.header(header::AUTHORIZATION, value);
    }
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = request.body(Full::new(body)).map_err(|error| Error::Invalid(error.to_string()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(line.stream)).await.map_err(lost)?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(lost)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
    connection.abort();
    let body =
        body.map_err(|error| Error::Unreachable(format!("the answer was cut off: {error}")))?.to_bytes();
    if status.is_success() {
        let answer = serde_json::from_slice(&body).map_err(|error| Error::Unexpected(error.to_string()))?;
        return Ok(Some(answer));
    }
    match serde_json::from_slice::<Refused>(&body) {
        Ok(refused) if refused.error.message == NO_SUCH_PATH => Ok(None),
        Ok(refused) => Err(refused.error.into()),
        Err(_) if status == StatusCode::NOT_FOUND => Ok(None),
        Err(_) => Err(Error::Unexpected(status.to_string())),
    }
}
