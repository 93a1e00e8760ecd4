//! A request that was let in before its body is complete: its access may end meanwhile.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Long enough for a slow machine, short enough for a test that fails.
const SOON: Duration = Duration::from_secs(20);

/// A request with an incomplete body.
#[derive(Debug)]
pub struct Armed {
    stream: TcpStream,
    body: String,
}

impl Armed {
    /// Sends the head and the first byte of the body. Returns when the route has asked for the body.
    pub async fn new(address: SocketAddr, path: &str, lines: &[&str], body: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        for line in lines.iter().chain(&["Expect: 100-continue", "Connection: close"]) {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(&body.as_bytes()[..1]).await.unwrap();
        Self { stream, body: body.to_owned() }
    }

    /// Sends the rest; returns the status and the whole response.
    pub async fn finish(mut self) -> (u16, String) {
        // The answer may already be there, and the connection closed.
        let _ = self.stream.write_all(&self.body.as_bytes()[1..]).await;
        let mut bytes = Vec::new();
        // A reset after the answer is an end too.
        let _ = tokio::time::timeout(SOON, self.stream.read_to_end(&mut bytes)).await.expect("no answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {text:?}")).parse().unwrap();
        (status, text)
    }
}
