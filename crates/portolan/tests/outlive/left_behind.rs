//! What dead holders, lost databases and earlier versions leave behind.

use std::{
    io::Read as _,
    os::unix::net::{UnixListener, UnixStream},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use rustix::process::{getpid, set_child_subreaper};

use super::*;

/// A session whose agent has left a process behind that called `setsid`.
fn with_orphan(home: &Home) -> String {
    let session = new(home, "orphans");
    home.until_status(&session, "idle");
    assert_eq!(home.agents(&session).len(), 2, "the agent, and what it left behind");
    session
}

#[test]
fn what_the_agent_of_a_killed_holder_left_behind_is_ended_at_once() {
    let home = home();
    home.up();
    let session = with_orphan(&home);
    let (_, holder) = pids(&home)[0];
    let log = home.path().join("run").join(format!("{session}.log"));
    writeln!(fs::File::options().append(true).open(log).unwrap(), "the tide was too high").unwrap();
    signal(holder, Signal::KILL);
    home.until_status(&session, "error");
    wait_for("the end of every process", || home.agents(&session).is_empty().then_some(()));
    let exit = events(&home, &session).into_iter().find(|event| event["type"] == "agent_exited").unwrap();
    let said = exit["exit"]["stderr"].as_str().unwrap();
    assert!(said.contains("the tide was too high"), "the session shows the end of the holder's log: {exit}");
    home.run(["down"]).ok();
}

#[test]
fn what_the_agent_of_a_holder_that_was_killed_without_a_daemon_left_behind_is_ended_at_the_next_start() {
    let home = home();
    home.up();
    let session = with_orphan(&home);
    let (_, holder) = pids(&home)[0];
    home.kill();
    signal(holder, Signal::KILL);
    wait_for("the end of the agent", || (home.agents(&session).len() == 1).then_some(()));
    home.up();
    assert_eq!(home.agents(&session), [0; 0]);
    home.until_status(&session, "terminated");
    home.run(["down"]).ok();
}

#[test]
fn agents_that_no_database_knows_are_ended_at_the_next_start() {
    let home = home();
    home.up();
    let session = with_orphan(&home);
    let (_, holder) = pids(&home)[0];
    home.kill();
    for file in fs::read_dir(home.path()).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("portolan.db") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    home.up();
    assert_eq!(home.json(["ls"]), json!([]), "nobody knows the session");
    assert_eq!((home.holders(), home.agents(&session)), (vec![], vec![]));
    let line = fs::read(format!("/proc/{holder}/cmdline")).unwrap_or_default();
    assert!(line.is_empty(), "the holder has ended, even if nobody has waited for it yet");
    assert_eq!(fs::read_dir(home.path().join("run")).unwrap().count(), 0, "no file is left");
    home.run(["down"]).ok();
}

/// A session whose holder is stopped, and has a prompt in its socket.
fn with_unread_prompt(home: &Home) -> (String, u64) {
    let session = new(home, "say hello");
    home.until_status(&session, "idle");
    let (_, holder) = pids(home)[0];
    signal(holder, Signal::STOP);
    home.run(["send", &session, "say goodbye"]).ok();
    assert_eq!(state(home, &session)["commands"][0]["stage"]["stage"], "sending");
    (session, holder)
}

fn prompt_arrived_once(home: &Home, session: &str) {
    wait_for("the answer", || told(home, session).iter().any(|one| one.contains("goodbye")).then_some(()));
    home.until_status(session, "idle");
    let told = told(home, session);
    assert_eq!(told.iter().filter(|one| one.contains("goodbye")).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|one| *one == "turn \"completed\"").count(), 2, "{told:?}");
    assert!(!told.contains(&"exit".to_owned()), "{told:?}");
    assert_eq!(state(home, session)["commands"], json!([]), "the prompt is settled");
    home.run(["down"]).ok();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests start the daemon itself, not an agent")]
fn a_prompt_that_a_killed_daemon_left_unread_in_the_socket_of_its_holder_arrives_once() {
    // Linux lets a stopped process go on when its parent dies, unless its next parent has the same process session:
    // here, this test.
    set_child_subreaper(Some(getpid())).unwrap();
    let home = home();
    let mut first = home.command(["up", "--no-open"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the daemon", || (home.run(["status"]).code == 0).then_some(()));
    let (session, holder) = with_unread_prompt(&home);
    first.kill().unwrap();
    first.wait().unwrap();
    let socket = format!("/{}", &session[session.len() - 12..]);
    let connections = || {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        sockets.lines().filter(|line| line.ends_with(&socket)).count()
    };
    let before = connections();
    std::thread::scope(|scope| {
        let up = scope.spawn(|| home.up());
        // The old connection has an unread prompt when the new daemon comes.
        wait_for("the new daemon", || (connections() > before).then_some(()));
        signal(holder, Signal::CONT);
        up.join().unwrap();
    });
    prompt_arrived_once(&home, &session);
}

#[test]
fn a_holder_that_was_stopped_when_its_daemon_was_killed_goes_on_with_its_prompt() {
    let home = home();
    home.up();
    let (session, _) = with_unread_prompt(&home);
    // Linux sends the holder SIGHUP, and lets it go on.
    home.kill();
    home.up();
    prompt_arrived_once(&home, &session);
}

/// A holder that speaks only what all versions understand, in the place of one that is dead.
struct OfAnotherVersion {
    /// Its agent has nothing to do.
    rests: AtomicBool,
    visits: AtomicUsize,
}

impl OfAnotherVersion {
    /// Ends when it is asked to. The thread's result: whether its agent rested then.
    fn start(home: &Home, session: &str) -> (Arc<Self>, JoinHandle<bool>) {
        let run = home.path().join("run");
        let lock = fs::File::create(run.join(format!("{session}.lock"))).unwrap();
        lock.lock().unwrap();
        let socket = run.join(&session[session.len() - 12..]);
        fs::remove_file(&socket).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let started = Arc::new(Self { rests: AtomicBool::new(false), visits: AtomicUsize::new(0) });
        let (holder, session) = (Arc::clone(&started), session.to_owned());
        let thread = std::thread::spawn(move || {
            let _lock = lock;
            for visitor in listener.incoming() {
                let rests = holder.rests.load(Ordering::SeqCst);
                if Self::asks_to_stop(visitor.unwrap(), &session, rests) {
                    return rests;
                }
                holder.visits.fetch_add(1, Ordering::SeqCst);
            }
            unreachable!("a listener has no end")
        });
        (started, thread)
    }

    fn asks_to_stop(mut visitor: UnixStream, session: &str, rests: bool) -> bool {
        let status = json!({ "status": {
            "protocol": 0, "version": "0.0.1", "session": session, "holder_pid": 0, "generation": 1,
            "state": "running", "since_ms": 0, "idle": rests,
        } });
        let body = status.to_string();
        visitor.write_all(&u32::try_from(body.len()).unwrap().to_le_bytes()).unwrap();
        visitor.write_all(body.as_bytes()).unwrap();
        let mut said = Vec::new();
        // A visitor that has left wants nothing.
        let _ = visitor.read_to_end(&mut said);
        said.windows(6).any(|window| window == b"\"stop\"")
    }
}

#[test]
fn a_holder_of_another_version_ends_at_rest_and_the_next_prompt_resumes_the_conversation() {
    let home = home();
    home.up();
    let session = new(&home, "say hello");
    let before = home.until_status(&session, "idle");
    let (_, holder) = pids(&home)[0];
    home.kill();
    signal(holder, Signal::KILL);
    wait_for("the end of the agent", || home.agents(&session).is_empty().then_some(()));
    let (holder, ended) = OfAnotherVersion::start(&home, &session);

    home.up();
    let is_remark = |one: &String| one.contains("version 0.0.1 of Portolan");
    wait_for("the remark", || warnings(&home, &session).iter().any(is_remark).then_some(()));
    home.run(["send", &session, "say nothing"]).ok();
    // The daemon took it over, and asked it once whether its agent rests.
    wait_for("the question", || (holder.visits.load(Ordering::SeqCst) >= 2).then_some(()));
    holder.rests.store(true, Ordering::SeqCst);
    let state = home.until_status(&session, "terminated");
    assert!(ended.join().unwrap(), "it was left alone as long as its agent worked");
    assert_eq!(state["commands"][0]["stage"]["stage"], "uncertain", "never lost in silence");

    home.run(["send", &session, "say again"]).ok();
    wait_for("the answer", || told(&home, &session).iter().any(|one| one.contains("again")).then_some(()));
    let after = home.until_status(&session, "idle");
    assert_eq!(after["summary"]["agent_session"], before["summary"]["agent_session"]);
    let resets = events(&home, &session).into_iter().filter(|event| event["type"] == "conversation_reset");
    assert_eq!(resets.count(), 0, "the same conversation");
    assert!(!told(&home, &session).iter().any(|one| one.contains("nothing")), "nobody sent it again");
    home.run(["down"]).ok();
}
