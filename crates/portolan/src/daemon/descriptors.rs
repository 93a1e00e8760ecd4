//! File descriptors: every connection and every pipe of an agent takes one. The default limit of the system is small
//! (often 1,024), and a process may raise it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the system allows, and returns the new limit.
pub(crate) fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            limit.current
        }
    };
    // `None` means no limit.
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// How many of `wanted` connections are allowed: half of the descriptors stay for the owner's socket, the store and the
/// agents, even if a client floods the port.
pub(crate) fn connections(wanted: usize, descriptors: usize) -> usize {
    wanted.min(descriptors / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_use_at_most_half_of_the_descriptors() {
        assert_eq!(connections(4096, usize::MAX), 4096);
        assert_eq!(connections(4096, 1024), 512);
        assert_eq!(connections(4096, 0), 1);
    }

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        let most = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |most| most as usize);
        assert_eq!(raise(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
    }
}
