//! How many sent bytes have not reached the device yet: the kernel's own count of bytes that the other side has not
//! confirmed.
//!
//! The count comes from the kernel's table of connections, by the number of the socket: that needs no unsafe code,
//! keeps nothing open, and is read only while a new prompt is on its way. The count does not show whether the app has
//! drawn what it received. The app reads sixty times a second, and its protocol has no confirmation.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
};

use tokio::net::TcpStream;

/// How many bytes of the table are read at most; a line has 150. On a machine with more connections, the table is too
/// large to read several times a second.
const TABLE_BYTES: u64 = 1024 * 1024;

/// The columns of the unconfirmed bytes and of the socket number.
const QUEUES: usize = 4;
const INODE: usize = 9;

/// The unconfirmed bytes of one device.
#[derive(Debug)]
pub(super) struct InFlight(Source);

#[derive(Debug)]
enum Source {
    /// A socket in one of the kernel's tables.
    Table { table: &'static str, inode: u64 },
    /// A value from a test.
    #[cfg(test)]
    Told(std::sync::Arc<std::sync::atomic::AtomicU64>),
}

impl InFlight {
    /// The unconfirmed bytes of this connection.
    pub(super) fn of(stream: &TcpStream) -> io::Result<Self> {
        let inode = rustix::fs::fstat(stream)?.st_ino;
        // A listener for IPv4 and IPv6 has all its connections in the IPv6 table.
        let table = if stream.local_addr()?.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
        Ok(Self(Source::Table { table, inode }))
    }

    #[cfg(test)]
    pub(super) fn told(bytes: std::sync::Arc<std::sync::atomic::AtomicU64>) -> Self {
        Self(Source::Told(bytes))
    }

    /// The bytes that the kernel has accepted and the device has not confirmed. All bytes, while the connection is not
    /// in the table: it may just have moved. None, if there is no table: buttons that never work help nobody, and the
    /// wait after sending remains.
    pub(super) fn unconfirmed(&self) -> u64 {
        match &self.0 {
            Source::Table { table, inode } => match File::open(table).and_then(|table| find(table, *inode)) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => u64::MAX,
                Err(error) => {
                    tracing::debug!(%error, table, "what is on its way to a device cannot be told");
                    0
                }
            },
            #[cfg(test)]
            Source::Told(bytes) => bytes.load(std::sync::atomic::Ordering::Relaxed),
        }
    }
}

fn find(table: impl io::Read, inode: u64) -> io::Result<Option<u64>> {
    let mut table = BufReader::new(table.take(TABLE_BYTES));
    let mut line = String::new();
    let mut read = 0;
    loop {
        line.clear();
        let bytes = table.read_line(&mut line)?;
        read += bytes as u64;
        if bytes == 0 {
            let whole = read < TABLE_BYTES;
            return if whole { Ok(None) } else { Err(io::Error::other("too many connections")) };
        }
        if let Some(found) = queue_of(&line, inode) {
            return Ok(Some(found));
        }
    }
}

/// The unconfirmed bytes in a line, if it is the line of this socket.
fn queue_of(line: &str, inode: u64) -> Option<u64> {
    let mut columns = line.split_ascii_whitespace();
    let queues = columns.nth(QUEUES)?;
    let number: u64 = columns.nth(INODE - QUEUES - 1)?.parse().ok()?;
    if number != inode {
        return None;
    }
    u64::from_str_radix(queues.split_once(':')?.0, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpSocket},
    };

    use super::*;

    const TABLE: &str = "\
        sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        0: 0100007F:0D05 0100007F:D431 01 00000A1F:00000003 01:00000014 00000000  1000        0 4711 2 0000 20 4 30 10 -1\n\
        1: 0100007F:0D05 0100007F:D432 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000 20 4 30 10 -1\n";

    #[test]
    fn the_unconfirmed_bytes_of_one_socket_are_found_in_the_table() {
        let found = |inode| find(TABLE.as_bytes(), inode).unwrap();
        assert_eq!((found(4711), found(4712), found(4713)), (Some(0xA1F), Some(0), None));
        for nonsense in ["", "x", "0: a b c d e f g h i j", "\u{e4}\n", "1: a b c 7 e f g h 4711"] {
            assert_eq!(find(nonsense.as_bytes(), 4711).unwrap(), None, "{nonsense}");
        }
        let endless = io::repeat(b'\n');
        assert!(find(endless, 1).is_err(), "it is not read for ever");
    }

    #[tokio::test]
    async fn bytes_are_unconfirmed_until_the_other_side_has_room_for_them() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(1024).unwrap();
        let mut client = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let in_flight = InFlight::of(&server).unwrap();
        assert_eq!(in_flight.unconfirmed(), 0);
        let sent = 64 * 1024;
        server.write_all(&vec![7; sent]).await.unwrap();
        assert!(in_flight.unconfirmed() > 0, "it has room for less");
        client.read_exact(&mut vec![0; sent]).await.unwrap();
        let confirmed = async {
            while in_flight.unconfirmed() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), confirmed).await.expect("all of it was read");
    }
}
