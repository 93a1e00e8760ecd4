//! The versions that programs have reported. Some programs take more than a second to report a version, and a program
//! reports the same version until the program changes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Versions by agent and program. Clones share the versions. The map has one entry for each program of an agent, so the
/// map needs no bound.
#[derive(Clone, Debug, Default)]
pub struct Versions(Arc<Mutex<HashMap<(String, PathBuf), Told>>>);

/// When the program was last changed, and the version that the program reported then, if any.
#[derive(Clone, Debug)]
struct Told {
    changed: Option<SystemTime>,
    version: Option<String>,
}

impl Versions {
    /// The known version of the program. Asks the program if the version is not known, and asks again after the program
    /// has changed.
    pub(crate) async fn of(
        &self,
        agent: &str,
        program: &Path,
        asking: impl Future<Output = Option<String>>,
    ) -> Option<String> {
        let changed = std::fs::metadata(program).ok().and_then(|metadata| metadata.modified().ok());
        let key = (agent.to_owned(), program.to_owned());
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(told) = told.filter(|told| told.changed == changed) {
            return told.version;
        }
        let version = asking.await;
        let told = Told { changed, version: version.clone() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, told);
        version
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, future::ready, time::Duration};

    use super::*;

    async fn told(versions: &Versions, agent: &str, program: &Path, says: &str) -> Option<String> {
        versions.of(agent, program, ready(Some(says.to_owned()))).await
    }

    #[tokio::test]
    async fn each_agent_asks_a_program_again_only_after_the_program_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent");
        let file = File::create(&program).unwrap();
        let versions = Versions::default();
        assert_eq!(told(&versions, "one", &program, "1.0.0").await.as_deref(), Some("1.0.0"));
        assert_eq!(told(&versions.clone(), "one", &program, "1.1.0").await.as_deref(), Some("1.0.0"));
        assert_eq!(told(&versions, "other", &program, "1.2.0").await.as_deref(), Some("1.2.0"));
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        assert_eq!(told(&versions, "one", &program, "1.3.0").await.as_deref(), Some("1.3.0"));
    }
}
