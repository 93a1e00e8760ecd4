//! Passes a one-time link to the user's browser.
//!
//! Every user of the machine can read the arguments of a program, and whoever opens the link first becomes the owner.
//! So the browser gets the name of a file that only this user can read, and the file redirects to the link.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use portolan_host::door::TICKET_MS;

use crate::{home::Home, output};

/// After this time the link in a file is invalid, and the file is removed.
const USELESS: Duration = Duration::from_millis(TICKET_MS as u64);

/// Opens a browser if there is a desktop. `false` if there is none, or if other users could see the link.
pub(super) fn browse(home: &Home, link: &str) -> bool {
    let screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !screen || std::env::var_os("SSH_CONNECTION").is_some() || !output::is_terminal() {
        return false;
    }
    let Ok(program) = which::which("xdg-open") else { return false };
    let file = match write(&home.links(), link) {
        Ok(file) => file,
        Err(error) => {
            output::note(format!("the link cannot be passed to a browser: {error}"));
            return false;
        }
    };
    let mut opener = std::process::Command::new(program);
    opener.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Start the browser before this process ends, which is soon.
    #[expect(
        clippy::disallowed_methods,
        reason = "the user's browser, not an agent: it outlives this process"
    )]
    let Ok(mut opener) = opener.spawn() else { return false };
    // Some browsers keep `xdg-open` waiting until they are closed.
    std::thread::spawn(move || drop(opener.wait()));
    true
}

/// Removes files with invalid links. A file with a valid link stays, because a browser may read it later.
pub(crate) fn sweep(home: &Home) {
    let Ok(files) = fs::read_dir(home.links()) else { return };
    for file in files.flatten() {
        let age = file.metadata().and_then(|found| found.modified()).map(|at| {
            // A file from the future was created before the clock was set back.
            SystemTime::now().duration_since(at).unwrap_or(USELESS)
        });
        if age.is_ok_and(|age| age >= USELESS) {
            // The file may be gone already.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Writes a page that redirects to `link` into `folder`, for this user alone.
fn write(folder: &Path, link: &str) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(format!("{}.html", uuid::Uuid::new_v4().simple()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(page(link).as_bytes())?;
    Ok(path)
}

fn page(link: &str) -> String {
    let link = link.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>Portolan</title>\n\
         <a href=\"{link}\">Open Portolan</a>\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_this_user_can_read_the_file_of_a_link_and_it_is_removed_with_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let file = write(&home.links(), "http://127.0.0.1:7420/#ticket=ptt_1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&home.links()), mode(&file)), (0o700, 0o600));
        sweep(&home);
        assert!(file.exists(), "the browser has not read it yet");
        let then = SystemTime::now() - USELESS;
        fs::File::options().write(true).open(&file).unwrap().set_modified(then).unwrap();
        sweep(&home);
        assert!(!file.exists());
    }

    #[test]
    fn a_link_cannot_inject_html_into_the_page() {
        let page = page("http://a/?\"><script>&x");
        assert!(
            !page.contains("<script>") && page.contains("url=http://a/?&quot;>&lt;script>&amp;x\""),
            "{page}"
        );
    }
}
