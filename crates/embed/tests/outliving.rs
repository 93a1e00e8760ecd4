//! The example is a working program: its agent outlives a kill of the program and an orderly end, and ends with it when
//! the program wants that.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "the test starts the example as a user would")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// The example, which cargo builds together with this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples/outliving");
    assert!(built.exists(), "`{}` is missing; build the examples too", built.display());
    built
}

struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(example());
        command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output };
        assert_eq!(program.line(), "ready\n");
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn say(&mut self, text: &str) {
        writeln!(self.input.as_mut().unwrap(), "{text}").unwrap();
    }

    /// Prompts the agent. Returns its process and what it says.
    fn prompt(&mut self, text: &str) -> (u32, String) {
        self.say(text);
        let line = self.line();
        let (pid, said) = line.trim_end().split_once(": ").expect("no answer");
        (pid.parse().unwrap(), said.to_owned())
    }

    fn ends(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

// covers: 003-156
#[test]
fn an_embedded_agent_outlives_a_kill_and_an_orderly_end_of_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path());
    let (agent, said) = program.prompt("one");
    assert_eq!(said, "one");
    drop(program);

    let mut program = Program::start(folder.path());
    assert_eq!(program.prompt("two"), (agent, "two".to_owned()), "the same process after a kill");
    program.say("leave");
    program.ends();
    assert!(runs(agent), "the program left its agent running");

    let mut program = Program::start(folder.path());
    assert_eq!(program.prompt("three"), (agent, "three".to_owned()), "the same process after an orderly end");
    program.ends();
    let deadline = Instant::now() + Duration::from_secs(20);
    while runs(agent) {
        assert!(Instant::now() < deadline, "the agent is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}
