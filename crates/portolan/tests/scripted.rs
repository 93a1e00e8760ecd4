//! `portolan scripted`: the scripted model alone.

#![expect(
    clippy::disallowed_methods,
    reason = "the program under test is started here, and ended with its test"
)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

/// Ends with the test, however the test ends.
struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_scripted_model_prints_its_address_and_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    std::fs::write(&script, r#"{"otherwise": {"text": "ahoy"}}"#).unwrap();
    let started = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args([std::ffi::OsStr::new("scripted"), script.as_os_str()])
        .stdout(Stdio::piped())
        .spawn();
    let mut model = Model(started.unwrap());
    let mut lines = BufReader::new(model.0.stdout.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    let address = url.strip_prefix("http://").unwrap();

    let body = r#"{"model": "m1", "messages": [{"role": "user", "content": "hello"}]}"#;
    let mut asked = TcpStream::connect(address).unwrap();
    write!(
        asked,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("ahoy"), "{answer}");
    assert_eq!(
        lines.next().unwrap().unwrap(),
        r#"1 POST /v1/chat/completions Otherwise Some(("m1", "hello", 0, 0))"#
    );
}

#[test]
fn the_error_for_an_invalid_script_names_the_file_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    std::fs::write(&script, r#"{"rules": 3}"#).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_portolan"))
        .args([std::ffi::OsStr::new("scripted"), script.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8(ended.stderr).unwrap();
    let wanted = format!("portolan: `{}`: not a valid script: invalid type: integer `3`", script.display());
    assert!(said.starts_with(&wanted), "{said}");
}
