//! What agents and other users cannot get from a holder.

use super::*;

#[test]
fn an_agent_cannot_hold_or_reach_a_holder() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    // A process with the marker of an agent of this home, as every process has that an agent starts.
    let identity: Value =
        serde_json::from_slice(&fs::read(home.path().join("identity.json")).unwrap()).unwrap();
    let marker = format!("{}.{session}.x", identity["key"].as_str().unwrap());
    for arguments in [vec!["hold", &session], vec!["ps"], vec!["down", "--end"]] {
        let mut command = home.command(&arguments);
        let ran = command.env("PORTOLAN_CHILD", &marker).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            !ran.status.success() && said.contains("agents may not use Portolan"),
            "{arguments:?}: {said}"
        );
    }
    // Nor by the socket itself: neither with the marker, nor below a process that has it.
    let socket = home.path().join("run").join(&session[session.len() - 12..]);
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  b=b'{\"hello\":{\"protocol\":1,\"version\":\"x\"}}'\n\
                  s.sendall(len(b).to_bytes(4,'little')+b)\nprint(len(s.recv(100)))";
    let ask = |marker: &str, words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["python3", "-c", script]).arg(&socket).env("PORTOLAN_CHILD", marker);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        said.trim().parse::<usize>().is_ok_and(|bytes| bytes > 0)
    };
    // The shell waits for the program, which has no marker of its own.
    let below = ["sh", "-c", "env -u PORTOLAN_CHILD \"$@\"; true", "sh"];
    assert!(!ask(&marker, &["env"]), "an agent gets no answer");
    assert!(!ask(&marker, &below), "what an agent started gets no answer");
    assert!(ask("of.another.home", &["env"]) && ask("of.another.home", &below));
    // The holder wrote it down.
    let log = fs::read_to_string(home.path().join("run").join(format!("{session}.log"))).unwrap();
    assert!(log.contains("an agent connected"), "{log}");
    home.run(["down"]).ok();
}

/// The links of a process' open files.
fn open_files(pid: i32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| Some(fs::read_link(link.path()).ok()?.display().to_string())).collect()
}

#[test]
fn an_agent_inherits_no_file_of_its_holder() {
    let home = home();
    home.up();
    let session = new(&home, "tool");
    asked(&home, &session);
    let (_, holder) = pids(&home)[0];
    let held = open_files(i32::try_from(holder).unwrap());
    for kind in [".lock", ".spool", ".log"] {
        assert!(held.iter().any(|file| file.ends_with(kind)), "{held:?}");
    }
    let agents = home.agents(&session);
    assert!(!agents.is_empty());
    for pid in agents {
        let files = open_files(pid);
        assert!(!files.is_empty());
        let run = home.path().join("run");
        assert!(!files.iter().any(|file| Path::new(file).starts_with(&run)), "{files:?}");
        // The number of a socket is the same in every process that has it.
        let shared = files.iter().filter(|file| file.starts_with("socket:") && held.contains(file));
        assert_eq!(shared.count(), 0, "{files:?} and {held:?}");
    }
    home.run(["down"]).ok();
}

#[test]
fn no_secret_is_on_a_holders_command_line_or_in_its_environment_and_nobody_can_read_its_memory() {
    let (_folder, program) = installed();
    let home = Home::new(program);
    home.configure("[agents]\noutlive = true\n[agents.demo.env]\nHARBOUR_TOKEN = \"tide-of-the-table\"");
    // The system user owns every process of its own: only another user shows whose memory it is.
    let is_root = rustix::process::getuid().is_root();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("HARBOUR_SECRET", "tide-of-the-daemon").env("HOME", home.path());
        if is_root {
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    if is_root {
        std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
    }
    run(&["up", "--detach", "--no-open"]);
    let session = run(&["new", "demo", "tool"]);
    let running = wait_for("the agent", || {
        let running: Value = serde_json::from_str(&run(&["--json", "ps"])).unwrap();
        (running[0]["state"] == "running").then_some(running)
    });
    let (agent, holder) = (&running[0]["agent_pid"], &running[0]["holder_pid"]);
    let read = |pid: &Value, name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let has = |text: String| text.contains("tide-of-the-table") || text.contains("tide-of-the-daemon");
    assert!(read(agent, "environ").contains("tide-of-the-table"), "the agent has it");
    assert!(read(agent, "environ").contains("tide-of-the-daemon"), "the agent has it");
    assert!(read(holder, "cmdline").contains(&session));
    assert!(!has(read(holder, "cmdline")) && !has(read(holder, "environ")));
    let owner = |pid: &Value| fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
    assert_ne!(owner(agent), 0);
    assert_eq!(owner(holder), 0, "its memory holds the secrets: only the system user may look into it");
    run(&["down"]);
}
