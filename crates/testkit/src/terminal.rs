//! A terminal for the real binary: a pseudo-terminal whose other end the test holds.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::daemon::wait_for;

/// A program at a terminal.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    /// The program's end, kept open so that its settings can be read.
    screen: File,
    before: Termios,
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program at a terminal of 80 columns and 24 rows.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    #[expect(clippy::unwrap_used, reason = "a test without its terminal has failed")]
    #[expect(clippy::disallowed_methods, reason = "tests start the program itself, not an agent")]
    pub fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let screen = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&screen, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&screen).unwrap();
        let theirs = |file: &File| Stdio::from(OwnedFd::from(file.try_clone().unwrap()));
        command
            .stdin(theirs(&screen))
            .stdout(theirs(&screen))
            .stderr(theirs(&screen))
            .env("TERM", "xterm-256color");
        let child = command.spawn().unwrap();
        let keyboard = File::from(ours);
        let mut from = keyboard.try_clone().unwrap();
        let output: Arc<Mutex<Vec<u8>>> = Arc::default();
        let written = Arc::clone(&output);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                written.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            }
        });
        Self { keyboard, screen, before, child, output }
    }

    /// Everything that the program has written, including escape sequences.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until this is the last text that the program has written. Text from just before its end is read a little
    /// later.
    ///
    /// # Panics
    /// When it is not.
    pub fn see_last(&self, text: &str) {
        wait_for(&format!("`{text}` at the end"), || self.output().ends_with(text).then_some(()));
    }

    /// Waits until the program has written this.
    ///
    /// # Panics
    /// When it does not.
    pub fn see(&self, text: &str) {
        wait_for(&format!("`{text}` on the terminal"), || self.output().contains(text).then_some(()));
    }

    /// Types.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[expect(clippy::unwrap_used, reason = "a test without its terminal has failed")]
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program has ended.
    ///
    /// # Panics
    /// When it does not.
    #[expect(clippy::unwrap_used, reason = "a test without its program has failed")]
    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the end of the program", || self.child.try_wait().unwrap())
    }

    /// Whether the terminal has the same settings as before the program.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[expect(clippy::unwrap_used, reason = "a test without its terminal has failed")]
    pub fn is_as_before(&self) -> bool {
        let now = tcgetattr(&self.screen).unwrap();
        let modes = |settings: &Termios| {
            (settings.input_modes, settings.output_modes, settings.control_modes, settings.local_modes)
        };
        modes(&now) == modes(&self.before)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
