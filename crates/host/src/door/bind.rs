//! Binding: takes the addresses before anything is served, or reports why not.

use std::{
    io,
    net::SocketAddr,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
            net::UnixStream as BlockingUnixStream,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};

use super::{
    settings::{DoorSettings, ListenAddress},
    tls::{TlsError, configure, is_local},
};

/// How many connections wait to be accepted, per listener; the usual number.
const BACKLOG: i32 = 128;

/// Why the door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Others could read the traffic.
    #[error(
        "other machines can reach `{0}`, so it needs TLS: set `tls_cert` and `tls_key`, or `self_signed = true`, under [listen]; or listen on 127.0.0.1 behind a TLS proxy (`behind_proxy = true`)"
    )]
    PlainBeyondLoopback(SocketAddr),
    /// Another program has the address.
    #[error("`{0}` is taken, perhaps by another Portolan")]
    Taken(ListenAddress),
    /// The system does not allow listening there.
    #[error("cannot listen on `{address}`: {source}")]
    Io {
        /// The address.
        address: ListenAddress,
        /// The reason.
        source: io::Error,
    },
    /// The socket's path exists and is not a socket.
    #[error("`{}` exists and is not a socket; remove it", .0.display())]
    InTheWay(PathBuf),
    /// There is no address to listen on.
    #[error("there is no address to listen on; set `address` under [listen]")]
    Nowhere,
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The address, with the port that was picked.
    pub address: ListenAddress,
    /// Over TLS.
    pub secure: bool,
}

impl Listening {
    /// The URL for a browser; `None` for a Unix socket. An address that means "all" is reached over loopback from here.
    pub fn url(&self) -> Option<String> {
        let ListenAddress::Tcp(mut address) = self.address else { return None };
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let scheme = if self.secure { "https" } else { "http" };
        Some(format!("{scheme}://{address}"))
    }
}

/// The door, bound but not yet open: connections wait.
#[derive(Debug)]
pub struct Door {
    pub(super) tcp: Vec<(TcpListener, SocketAddr)>,
    pub(super) unix: Vec<(UnixListener, SocketFile)>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) settings: DoorSettings,
}

/// A Unix socket's file, which is removed when the door closes.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The file's identity: another door may have put a newer file there.
    file: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            // A missing file is fine.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// The longest path that certainly fits into a socket's address: 108 bytes on Linux, 104 elsewhere, with an end mark.
const ADDRESS: usize = 100;

/// A path to a socket's file that fits into an address, however deep its folder is: if the path is too long, the folder
/// is opened and named by its descriptor.
#[derive(Debug)]
pub struct Reach {
    path: PathBuf,
    /// Open for as long as the path is used.
    _folder: Option<OwnedFd>,
}

impl Reach {
    /// The path to this socket. Only Linux can shorten a path; elsewhere a long path stays as it is.
    pub fn to(socket: &Path) -> io::Result<Self> {
        let long = socket.as_os_str().len() > ADDRESS;
        let (Some(folder), Some(name), true, true) =
            (socket.parent(), socket.file_name(), long, cfg!(target_os = "linux"))
        else {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// The path, valid while this value exists.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Door {
    /// Takes every address, or none.
    pub async fn bind(settings: &DoorSettings) -> Result<Self, DoorError> {
        if settings.listen.is_empty() {
            return Err(DoorError::Nowhere);
        }
        let tls = settings.tls.as_ref().map(configure).transpose()?;
        for address in &settings.listen {
            if let ListenAddress::Tcp(address) = address
                && tls.is_none()
                && !is_local(address.ip())
            {
                return Err(DoorError::PlainBeyondLoopback(*address));
            }
        }
        let mut door = Self { tcp: Vec::new(), unix: Vec::new(), tls, settings: settings.clone() };
        for address in &settings.listen {
            let io = |source: io::Error| match source.kind() {
                io::ErrorKind::AddrInUse => DoorError::Taken(address.clone()),
                _ => DoorError::Io { address: address.clone(), source },
            };
            match address {
                ListenAddress::Tcp(wanted) => {
                    let listener = TcpListener::bind(wanted).await.map_err(io)?;
                    let bound = listener.local_addr().map_err(io)?;
                    door.tcp.push((listener, bound));
                }
                ListenAddress::Unix(path) => {
                    make_way(path, address)?;
                    let listener = bind_unix(path).map_err(io)?;
                    door.unix.push((listener, SocketFile::at(path).map_err(io)?));
                }
            }
        }
        Ok(door)
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Vec<Listening> {
        let secure = self.tls.is_some();
        let tcp = self.tcp.iter().map(|(_, bound)| Listening { address: ListenAddress::Tcp(*bound), secure });
        let unix = self
            .unix
            .iter()
            .map(|(_, file)| Listening { address: ListenAddress::Unix(file.path.clone()), secure: false });
        tcp.chain(unix).collect()
    }
}

/// Removes the socket that a killed daemon left behind, and nothing else.
fn make_way(path: &Path, address: &ListenAddress) -> Result<(), DoorError> {
    let io = |source| DoorError::Io { address: address.clone(), source };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    if !meta.file_type().is_socket() {
        return Err(DoorError::InTheWay(path.to_owned()));
    }
    let connected = Reach::to(path).and_then(|reach| BlockingUnixStream::connect(reach.path()));
    match connected {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(io)
        }
        Ok(_) => Err(DoorError::Taken(address.clone())),
        Err(error) => Err(io(error)),
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Before `bind`: on Linux the file is then created with this mode, and others can never connect. Elsewhere the
    // second call sets the mode, and the check of the peer's uid protects the time between.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(Reach::to(path)?.path())?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}
