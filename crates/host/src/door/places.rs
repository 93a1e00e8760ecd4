//! Places: how many connections there are, in all and per address. A place is held while its stream exists.

use std::{
    collections::HashMap,
    io::{self, IoSlice},
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{lockout::network, settings::DoorLimits};

/// Counts connections.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: usize,
    per_address: usize,
    unix: usize,
    /// Many people are behind each of these addresses.
    proxies: Vec<IpAddr>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    unix: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    inner: Arc<Inner>,
    whose: Whose,
}

#[derive(Debug, Clone, Copy)]
enum Whose {
    Unix,
    Address(IpAddr),
}

impl Places {
    pub(super) fn new(limits: &DoorLimits, proxies: Vec<IpAddr>) -> Self {
        Self(Arc::new(Inner {
            total: limits.connections,
            per_address: limits.connections_per_address,
            unix: limits.unix_connections,
            proxies: proxies.into_iter().map(network).collect(),
            taken: Mutex::default(),
        }))
    }

    /// A place for a TCP connection, if one is free.
    pub(super) fn take(&self, address: IpAddr) -> Option<Place> {
        let address = network(address);
        let mut taken = self.0.lock();
        // On loopback everyone shares one address.
        let shared = address.is_loopback() || self.0.proxies.contains(&address);
        let here = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.total >= self.0.total || (!shared && here >= self.0.per_address) {
            return None;
        }
        taken.total += 1;
        taken.by_address.insert(address, here + 1);
        Some(Place { inner: self.0.clone(), whose: Whose::Address(address) })
    }

    /// A place for a Unix connection, if one is free.
    pub(super) fn take_unix(&self) -> Option<Place> {
        let mut taken = self.0.lock();
        if taken.unix >= self.0.unix {
            return None;
        }
        taken.unix += 1;
        Some(Place { inner: self.0.clone(), whose: Whose::Unix })
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.inner.lock();
        match self.whose {
            Whose::Unix => taken.unix -= 1,
            Whose::Address(address) => {
                taken.total -= 1;
                if let Some(count) = taken.by_address.get_mut(&address) {
                    *count -= 1;
                    if *count == 0 {
                        taken.by_address.remove(&address);
                    }
                }
            }
        }
    }
}

/// A stream with its place.
#[derive(Debug)]
pub(super) struct Counted<S> {
    stream: S,
    _place: Place,
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S, place: Place) -> Self {
        Self { stream, _place: place }
    }

    pub(super) fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_every_place_and_dropping_frees_them() {
        let limits = DoorLimits {
            connections: 3,
            connections_per_address: 2,
            unix_connections: 1,
            ..DoorLimits::default()
        };
        let places = Places::new(&limits, vec![]);
        let (a, b) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let first = places.take(a).unwrap();
        let _second = places.take(a).unwrap();
        assert!(places.take(a).is_none());
        let _third = places.take(b).unwrap();
        assert!(places.take(b).is_none(), "all are taken");
        let _unix = places.take_unix().expect("counted apart");
        assert!(places.take_unix().is_none());
        drop(first);
        assert!(places.take(a).is_some());
    }

    #[test]
    fn loopback_and_proxies_are_not_counted_as_one_person() {
        let limits = DoorLimits { connections_per_address: 1, ..DoorLimits::default() };
        let proxy = IpAddr::from([192, 0, 2, 9]);
        let places = Places::new(&limits, vec![proxy]);
        let held: Vec<_> =
            (0..10).map(|_| (places.take([127, 0, 0, 1].into()), places.take(proxy))).collect();
        assert!(held.iter().all(|(a, b)| a.is_some() && b.is_some()));
    }
}
