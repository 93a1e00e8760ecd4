//! The page: TypeScript in web/. npm builds the page into web/built, and the build script of the program embeds it.
//!
//! An unchanged page is not built again, so that a second `up` costs nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context as _, Result, bail};

use crate::project::{self, root, run, works};

/// The oldest Node that the build tools support.
const NODE: (u32, u32) = (20, 19);
/// The sources of the page, below web/.
const SOURCES: [&str; 13] = [
    "client/src",
    "client/package.json",
    "client/tsconfig.json",
    "page/src",
    "page/public",
    "page/index.html",
    "page/vite.config.ts",
    "page/svelte.config.js",
    "page/package.json",
    "page/tsconfig.json",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
];
/// The largest compressed size of everything that the page loads before it can be used. The rest is loaded when needed.
const TO_INTERACTIVE: u64 = 250 * 1024;

/// Builds the page, unless it is up to date.
pub(crate) fn build() -> Result<()> {
    let Some(version) = node() else {
        bail!(
            "the page needs Node {}.{} or newer, with npm; without Node the program works, but has no page",
            NODE.0,
            NODE.1
        );
    };
    if is_fresh()? {
        println!("the page is up to date");
        return Ok(());
    }
    println!("building the page with Node {version}");
    install()?;
    run(npm().args(["run", "build"]))?;
    weigh()
}

/// Builds the page if Node is installed; otherwise prints a note.
pub(crate) fn build_where_possible() -> Result<()> {
    if node().is_some() {
        return build();
    }
    println!("Node {}.{} or newer is not installed: the program is built without its page", NODE.0, NODE.1);
    Ok(())
}

/// Checks types, and runs the tests that need no browser.
pub(crate) fn test() -> Result<()> {
    install()?;
    run(npm().args(["run", "check"]))?;
    run(npm().arg("test"))
}

fn web() -> PathBuf {
    root().join("web")
}

fn npm() -> Command {
    let mut command = Command::new("npm");
    command.current_dir(web());
    command
}

/// Installs the packages of the lock file, unless they are installed and the file has not changed.
fn install() -> Result<()> {
    let stamp = web().join("node_modules/.package-lock.json");
    let lock = web().join("package-lock.json");
    if newest(&stamp)? > newest(&lock)? {
        return Ok(());
    }
    // Not `npm ci`: the lock file names the bundler's binary for the platforms it was written on, and `ci` requires all
    // platforms. This installs exactly the locked versions, and writes only the packages.
    run(npm().args(["install", "--no-save", "--no-audit", "--no-fund"]))
}

fn node() -> Option<String> {
    if !works(Command::new("npm").arg("--version")) {
        return None;
    }
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?.trim().trim_start_matches('v').to_owned();
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    (parts.next()?, parts.next()?).ge(&NODE).then_some(version)
}

fn is_fresh() -> Result<bool> {
    let built = newest(&web().join("built/page/index.html"))?;
    if built.is_none() {
        return Ok(false);
    }
    for source in SOURCES {
        if newest(&web().join(source))? >= built {
            return Ok(false);
        }
    }
    Ok(true)
}

/// When a file, or the newest file below a folder, was changed; `None` if there is no file.
fn newest(path: &Path) -> Result<Option<SystemTime>> {
    let told = || format!("cannot read `{}`", path.display());
    if path.is_dir() {
        let mut newest_of_all = None;
        for entry in fs::read_dir(path).with_context(told)? {
            newest_of_all = newest_of_all.max(newest(&entry.with_context(told)?.path())?);
        }
        return Ok(newest_of_all);
    }
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(fs::metadata(path).and_then(|found| found.modified()).with_context(told)?))
}

/// Fails if the page has become too large to open on a phone.
fn weigh() -> Result<()> {
    let page = web().join("built/page");
    let index = project::read(&page.join("index.html"))?;
    let mut bytes = size(&page.join("index.html.br"))?;
    // The browser loads the files that the document names before it shows anything.
    for part in index.split('"').filter(|part| part.starts_with("/assets/")) {
        bytes += size(&page.join(format!("{}.br", &part[1..])))?;
    }
    println!("the page: {} KB compressed until it can be used", bytes / 1024);
    if bytes > TO_INTERACTIVE {
        bail!("the limit is {} KB", TO_INTERACTIVE / 1024);
    }
    Ok(())
}

fn size(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| format!("cannot read `{}`", path.display()))?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_the_page_exists_and_is_checked_for_changes() {
        for source in SOURCES {
            assert!(web().join(source).exists(), "`web/{source}` does not exist");
        }
        // Every file in web/ that affects the build is a source.
        for folder in ["", "client", "page"] {
            for entry in fs::read_dir(web().join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let is_json = Path::new(&name).extension().is_some_and(|extension| extension == "json");
                let steers = is_json || name.contains(".config.") && !name.starts_with("vitest");
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                assert!(!steers || SOURCES.contains(&path.as_str()), "`web/{path}` is not among the sources");
            }
        }
    }
}
