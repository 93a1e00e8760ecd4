//! The desk: work that Portolan does for agents. Files are read and written only inside the folders of the session:
//! links are resolved first, and the result is then opened without following any link ([`walk`]), so that a link which
//! is added in between leads nowhere. Commands begin in one of the folders, and may then do what the agent itself may
//! do.
//!
//! The desk knows nothing of the conversation and asks nobody: policy has decided before a task reaches the desk
//! ([`errands`](super::errands)).

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

/// The resource does not exist.
const NOT_FOUND: i64 = -32002;

/// The folders that a session may use.
#[derive(Clone, Debug)]
pub(super) struct Rooms {
    folder: PathBuf,
    /// All folders, with links resolved.
    roots: Arc<[PathBuf]>,
}

impl Rooms {
    /// The working folder and the extra folders.
    pub(super) fn new(folder: &Path, extra: &[PathBuf]) -> Self {
        let all = std::iter::once(folder).chain(extra.iter().map(PathBuf::as_path));
        let roots = all.filter_map(|root| root.canonicalize().ok()).collect();
        Self { folder: folder.to_owned(), roots }
    }

    fn hold(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// The real path of a path, if it is inside. This holds at the time of the check: the file is then opened by
    /// [`walk`], which follows no link that was added since.
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
        invalid(format!("`{}` is outside the folders of this session ({})", path.display(), roots.join(", ")))
    }
}

fn invalid(message: String) -> Error {
    Error { code: Error::INVALID_PARAMS, message, data: None }
}

/// The error for a file. Gemini recognises a missing file by the message alone, and ignores the code.
fn failed(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    if error.kind() == std::io::ErrorKind::NotFound {
        let message = format!("Resource not found: `{path}`: No such file or directory (ENOENT)");
        return Error { code: NOT_FOUND, message, data: None };
    }
    if walk::is_blocked(error) {
        return invalid(format!("part of `{path}` is not a folder, or is a link that was just added"));
    }
    Error { code: Error::INTERNAL, message: format!("`{path}`: {error}"), data: None }
}

/// The rules for the work of a desk.
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

/// The desk of one agent.
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

/// Whether a method is a task that Portolan runs.
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
                message: format!("`{method}` is not supported"),
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
                    return Err(invalid("`content` is missing".into()));
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
            Err(Error { code: Error::INTERNAL, message: "internal error with a file".into(), data: None })
        })
    })
}
