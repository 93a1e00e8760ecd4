//! The schema that Codex writes itself, compared with the messages that the adapter sends and reads.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::installed;

/// Notifications of Codex that Portolan does not use: they are kept as unknown. Most belong to methods that Portolan
/// does not use (voice, its own file search, Windows, a desktop app).
const UNUSED: &[&str] = &[
    "account/gatewayOAuth/changed",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "command/exec/outputDelta",
    "externalAgentConfig/import/completed",
    "externalAgentConfig/import/progress",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "mcpServer/event/stream/notification",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "thread/attachment/updated",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/item/completed",
    "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "turn/moderationMetadata",
    "windows/worldWritableWarning",
    "windowsSandbox/setupCompleted",
];

/// The methods that a file of the schema names.
fn methods(folder: &Path, file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let name = |variant: &Value| variant["properties"]["method"]["enum"][0].as_str().map(str::to_owned);
    schema["oneOf"].as_array().into_iter().flatten().filter_map(name).collect()
}

/// The methods in the adapter's sources: every string that has the form of a method.
fn named() -> BTreeSet<String> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../agents/src/codex")];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !matches!(name.as_str(), "tests" | "transcripts") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.extend(source.split('"').filter(|text| is_method(text)).map(str::to_owned));
            }
        }
    }
    found
}

fn is_method(text: &str) -> bool {
    let mut parts = text.split('/').peekable();
    let is_word =
        |part: &str| part.starts_with(char::is_alphabetic) && part.bytes().all(|c| c.is_ascii_alphabetic());
    let single = [
        "error",
        "warning",
        "guardianWarning",
        "configWarning",
        "deprecationNotice",
        "initialize",
        "initialized",
    ];
    // The paths of the native program that npm's script starts look the same.
    let is_path = text.contains("codex");
    single.contains(&text) || text.contains('/') && !is_path && parts.all(is_word)
}

// covers: 003-053
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_messages_of_the_adapter_are_in_the_schema_that_codex_writes() {
    let (program, folder) = (installed().await, tempfile::tempdir().unwrap());
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let mut command = std::process::Command::new(program);
    command.args(["app-server", "generate-json-schema", "--experimental", "--out"]).arg(folder.path());
    command
        .env_clear()
        .env("HOME", &home)
        .env("CODEX_HOME", &home)
        .env("PATH", std::env::var_os("PATH").unwrap());
    let written = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let told = methods(folder.path(), "ServerNotification.json");
    let mut known = methods(folder.path(), "ClientRequest.json");
    known.extend(methods(folder.path(), "ClientNotification.json"));
    known.extend(methods(folder.path(), "ServerRequest.json"));
    known.extend(told.iter().cloned());
    let named = named();
    assert!(named.len() > 40, "the sources name only {named:?}");
    let gone: Vec<_> = named.difference(&known).collect();
    assert_eq!(gone, [""; 0], "this version of Codex does not know them");
    let unused: BTreeSet<String> = UNUSED.iter().map(|name| (*name).to_owned()).collect();
    let new: Vec<_> = told.difference(&named).filter(|name| !unused.contains(*name)).collect();
    assert_eq!(new, [""; 0], "this version of Codex has new methods: use them, or list them here as unused");
}
