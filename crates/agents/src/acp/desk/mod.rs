//! The desk: what agents may have done by us. Files are read and written inside the folders of the session and nowhere else:
//! links are followed first, and what that gave is then opened without following any ([`walk`]), so that a link which is
//! put there meanwhile leads nowhere. Commands begin in one of the folders, and may then do what the agent itself may.
//!
//! Knows nothing of the conversation, and asks nobody: it is for the agent to ask before.

mod files;
mod terminals;
mod walk;

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use portolan_core::{SessionId, ports::Boxed};
use portolan_wire::jsonrpc::Error;
use serde_json::{Value, json};

use self::terminals::Terminals;
use super::{
    Serves,
    wire::{list, some_text, text},
};
use crate::{
    Environment,
    driver::{self, Done},
};

/// There is no such thing.
const NOT_FOUND: i64 = -32002;

/// Where a session may work.
#[derive(Clone, Debug)]
pub(super) struct Rooms {
    folder: PathBuf,
    /// All of them, with links followed.
    roots: Arc<[PathBuf]>,
}

impl Rooms {
    /// The working folder and those beside it.
    pub(super) fn new(folder: &Path, extra: &[PathBuf]) -> Self {
        let all = std::iter::once(folder).chain(extra.iter().map(PathBuf::as_path));
        let roots = all.filter_map(|root| root.canonicalize().ok()).collect();
        Self { folder: folder.to_owned(), roots }
    }

    fn hold(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Where a path really leads, if that is inside. True when it was looked at: what is to be touched is opened by
    /// [`walk`], which follows no link that is there since.
    fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        if !path.is_absolute() {
            return Err(invalid(format!("`{}` is not an absolute path", path.display())));
        }
        let real = path.canonicalize().map_err(|error| failed(path, &error))?;
        if self.hold(&real) { Ok(real) } else { Err(self.outside(path)) }
    }

    /// Opens a folder that is inside.
    fn open_folder(&self, path: &Path) -> Result<OwnedFd, Error> {
        let real = self.resolve(path)?;
        walk::folder(&real).map_err(|error| failed(path, &error))
    }

    fn outside(&self, path: &Path) -> Error {
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        invalid(format!(
            "`{}` is outside the folders of this session ({}); it is not touched",
            path.display(),
            roots.join(", ")
        ))
    }
}

fn invalid(message: String) -> Error {
    Error { code: Error::INVALID_PARAMS, message, data: None }
}

/// What went wrong with a file. Gemini knows a file that is not there by the words alone, and tries no code.
fn failed(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    if error.kind() == std::io::ErrorKind::NotFound {
        let message = format!("Resource not found: `{path}`: No such file or directory (ENOENT)");
        return Error { code: NOT_FOUND, message, data: None };
    }
    if walk::is_blocked(error) {
        return invalid(format!(
            "`{path}` does not lead through folders alone, or a link was just put on its way"
        ));
    }
    Error { code: Error::INTERNAL, message: format!("`{path}`: {error}"), data: None }
}

/// What holds for what is done.
#[derive(Clone, Debug)]
pub(super) struct House {
    pub(super) agent: String,
    pub(super) session: SessionId,
    pub(super) home_key: String,
    /// What commands find in their environment.
    pub(super) environment: Environment,
    pub(super) rooms: Rooms,
    pub(super) serves: Serves,
}

/// Where errands of one agent are done.
#[derive(Debug)]
pub(super) struct Desk {
    house: House,
    terminals: Terminals,
}

impl Desk {
    pub(super) fn new(house: House) -> Self {
        let terminals = Terminals::new(house.clone());
        Self { house, terminals }
    }
}

/// Which errand of ours a method is.
pub(super) fn is_errand(method: &str, serves: Serves) -> bool {
    match method {
        "fs/read_text_file" | "fs/write_text_file" => serves.files,
        "terminal/create"
        | "terminal/output"
        | "terminal/wait_for_exit"
        | "terminal/kill"
        | "terminal/release" => serves.terminals,
        _ => false,
    }
}

impl driver::Desk for Desk {
    fn begin(&mut self, method: &str, params: Value) -> Boxed<'static, Done> {
        if !is_errand(method, self.house.serves) {
            let error = Error {
                code: Error::METHOD_NOT_FOUND,
                message: format!("`{method}` is not done here"),
                data: None,
            };
            return Box::pin(std::future::ready(Err(error)));
        }
        let rooms = self.house.rooms.clone();
        match method {
            "fs/read_text_file" => {
                let window = files::Window { line: params["line"].as_u64(), limit: params["limit"].as_u64() };
                on_disk(move || {
                    let content = files::read(&rooms, Path::new(&text(&params, "path")), window)?;
                    Ok(json!({ "content": content }))
                })
            }
            "fs/write_text_file" => on_disk(move || {
                let Some(content) = params["content"].as_str() else {
                    return Err(invalid("there is no `content` to write".into()));
                };
                files::write(&rooms, Path::new(&text(&params, "path")), content)?;
                Ok(json!({}))
            }),
            "terminal/create" => {
                let env = list(&params, "env").iter();
                let env =
                    env.filter_map(|pair| Some((some_text(pair, "name")?, text(pair, "value")))).collect();
                let args =
                    list(&params, "args").iter().filter_map(Value::as_str).map(str::to_owned).collect();
                let wanted = terminals::Wanted {
                    command: text(&params, "command"),
                    args,
                    env,
                    folder: some_text(&params, "cwd").map(PathBuf::from),
                    kept: params["outputByteLimit"].as_u64(),
                };
                self.terminals.create(wanted)
            }
            _ => {
                let terminal = text(&params, "terminalId");
                match method {
                    "terminal/output" => self.terminals.output(&terminal),
                    "terminal/wait_for_exit" => self.terminals.wait(&terminal),
                    "terminal/kill" => self.terminals.kill(&terminal),
                    _ => self.terminals.release(&terminal),
                }
            }
        }
    }

    fn close(self: Box<Self>) -> Boxed<'static, ()> {
        self.terminals.close()
    }
}

/// Disks can be slow; the runtime does not wait for them.
fn on_disk(work: impl FnOnce() -> Done + Send + 'static) -> Boxed<'static, Done> {
    Box::pin(async {
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
            Err(Error { code: Error::INTERNAL, message: "a fault of ours with a file".into(), data: None })
        })
    })
}
