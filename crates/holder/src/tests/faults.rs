//! What hangs, is full, is damaged, or is of another version.

use super::*;

#[test]
fn those_who_only_look_do_not_make_a_dead_holder_look_alive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    drop(Lock::take(&path).unwrap().unwrap());
    let looker = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&looker, rustix::fs::FlockOperation::LockShared).unwrap();
    assert!(!Lock::is_held(&path));
    let waits = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        drop(looker);
    });
    assert!(matches!(Lock::attempt(&path).unwrap(), Attempt::Ours(_)));
    waits.join().unwrap();
}

/// A request that policy has not decided yet.
fn unasked(key: &str) -> Report {
    let ask = Box::new(portolan_core::request::Ask::permission("Write", serde_json::json!({})));
    let doer = portolan_core::ports::Doer::Portolan;
    Report::Unasked { key: key.into(), ask, parent: None, tool: None, doer, raw: None }
}

#[tokio::test]
async fn what_needs_policy_waits_for_a_daemon_and_is_asked_again_until_it_is_decided() {
    let rig = Rig::with(Linger { idle: Duration::from_millis(20), at_most: Duration::from_hours(1) });
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(unasked("w")).await;
    reports(&mut link, |report| *report == unasked("w")).await;
    // The daemon recorded the report and was killed before it decided.
    link.recorded.as_ref().unwrap().send_replace(3);
    drop(link);
    until_alone(&rig).await;
    tokio::time::sleep(Duration::from_millis(80)).await;
    let mut rejoined = rig.rejoin(3, &[]).await.unwrap();
    assert_eq!(reports(&mut rejoined.link, |_| true).await, [unasked("w")], "not idle, and asked again");
    let decision = portolan_core::policy::Decision::Allow;
    let order = Order::Checked { key: "w".into(), decision };
    let decided = Instruction { id: InstructionId::UNRECORDED, order };
    rejoined.link.instructions.send(decided).await.unwrap();
    until(|| rig.played.told() == [0]).await;
    rejoined.link.recorded.as_ref().unwrap().send_replace(4);
    rig.played.say(Report::TurnStarted { origin: TurnOrigin::Agent }).await;
    drop(rejoined);
    until_alone(&rig).await;
    let mut again = rig.rejoin(4, &[]).await.unwrap();
    rig.played.say(notice("next")).await;
    let rest = reports(&mut again.link, is_notice("next")).await;
    assert!(!rest.contains(&unasked("w")), "decided once: {rest:?}");
    holder.kill();
}

#[tokio::test]
async fn a_holder_whose_spool_is_full_ends_its_agent_when_it_is_asked_to() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    until_alone(&rig).await;
    let (agent, large) = (rig.played.clone(), "x".repeat(1 << 20));
    let talking = tokio::spawn(async move {
        let reporter = agent.reporter.lock().unwrap().clone().unwrap();
        while reporter.send(notice(&large)).await.is_ok() {}
    });
    while rig.status().await.unrecorded_bytes < 64 << 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rig.holders.end_all().await, [rig.session]);
    holder.ended().await;
    talking.abort();
    let mut rejoined = rig.rejoin(2, &[]).await.unwrap();
    let mut last = Vec::new();
    while let Some(report) = rejoined.link.reports.recv().await {
        last.push(report);
        last.drain(..last.len().saturating_sub(2));
        if matches!(last.last(), Some(Report::Exited(_))) {
            break;
        }
    }
    assert_eq!(last[1], Report::Exited(exit(ExitReason::Stopped, "stopped")), "its own last report");
    let Report::Event { event: Event::Notice { text, .. }, .. } = &last[0] else { panic!("{last:?}") };
    assert!(text.ends_with("reports of the agent had no room and are missing") || text.starts_with("xxx"));
}

#[tokio::test]
async fn a_daemon_may_ask_for_the_same_stop_again() {
    let mut rig = Rig::new();
    rig.played.stubborn = true;
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    reports(&mut link, |report| *report == Report::Ready).await;
    link.stop.cancel();
    drop(link);
    until_alone(&rig).await;
    let mut rejoined = rig.rejoin(2, &[]).await.unwrap();
    rejoined.link.stop.cancel();
    rig.played.say(notice("on its way")).await;
    reports(&mut rejoined.link, is_notice("on its way")).await;
    assert_eq!(rig.status().await.state, State::Running);
    assert!(!rig.played.kill.lock().unwrap().as_ref().unwrap().is_cancelled(), "the stop ladder goes on");
    rejoined.link.kill.cancel();
    reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    rejoined.link.recorded.as_ref().unwrap().send_replace(4);
    holder.ended().await;
}

#[tokio::test]
async fn the_time_without_a_daemon_adds_up_until_a_daemon_has_recorded_it() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    until_alone(&rig).await;
    let away = Duration::from_millis(80);
    tokio::time::sleep(away).await;
    // This daemon is killed before its first commit.
    let first = rig.rejoin(0, &[]).await.unwrap();
    assert!(first.away >= away);
    drop(first);
    until_alone(&rig).await;
    tokio::time::sleep(away).await;
    let second = rig.rejoin(0, &[]).await.unwrap();
    assert!(second.away >= 2 * away, "{:?}", second.away);
    second.link.recorded.as_ref().unwrap().send_replace(2);
    while rig.status().await.unrecorded_bytes > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let alone = tokio::time::Instant::now();
    drop(second);
    until_alone(&rig).await;
    let third = rig.rejoin(2, &[]).await.unwrap();
    assert!(third.away <= alone.elapsed(), "{:?}", third.away);
    holder.kill();
}

#[tokio::test]
async fn a_report_that_the_disk_changed_is_shown_as_missing_and_the_others_arrive() {
    for dies in [false, true] {
        let rig = Rig::new();
        let holder = rig.holder();
        let mut link = rig.launch().await;
        rig.played.ready().await;
        reports(&mut link, |report| *report == Report::Ready).await;
        link.recorded.as_ref().unwrap().send_replace(2);
        drop(link);
        until_alone(&rig).await;
        for text in ["one", "two-to-change", "three"] {
            rig.played.say(notice(text)).await;
        }
        while rig.status().await.reports < 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let path = rig.run.spool(rig.session);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(13).position(|window| window == b"two-to-change").unwrap();
        bytes[at] ^= 1;
        // In place: the holder has the file open.
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        let mut holder = Some(holder);
        if dies {
            holder.take().unwrap().kill();
        }
        let mut rejoined = rig.rejoin(2, &[]).await.unwrap();
        let rest = reports(&mut rejoined.link, is_notice("three")).await;
        assert_eq!(rest, [notice("one"), Report::Missing { reports: 1 }, notice("three")], "dies: {dies}");
        assert_eq!(rest.iter().map(Report::count).sum::<u64>(), 3, "the numbers of the others stay");
        if let Some(holder) = holder {
            holder.kill();
        }
    }
}

#[tokio::test]
async fn after_a_restore_of_the_database_the_agent_ends_with_everything_it_reported() {
    let rig = Rig::new();
    let holder = rig.holder();
    let mut link = rig.launch().await;
    rig.played.ready().await;
    rig.played.say(notice("recorded")).await;
    reports(&mut link, is_notice("recorded")).await;
    drop(link);
    until_alone(&rig).await;
    let restored = Settings { incarnation: "second".into(), ..rig.holders.settings().clone() };
    let held = Holders::new(restored).held(Arc::new(Kind), Place::Holder);
    let left =
        LeftRunning { session: rig.session, generation: Generation(1), recorded: 2, unsettled: Vec::new() };
    let mut rejoined = held.rejoin(left).await.unwrap();
    let rest = reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    assert_eq!(rest[0], notice("recorded"));
    assert_eq!(rest[1], Report::Exited(exit(ExitReason::Stopped, "stopped")));
    holder.ended().await;
}

#[tokio::test]
async fn an_agent_that_no_longer_outlives_the_daemon_is_still_taken_over() {
    let rig = Rig::new();
    let holder = rig.holder();
    let link = rig.launch().await;
    rig.played.ready().await;
    drop(link);
    until_alone(&rig).await;
    let left =
        LeftRunning { session: rig.session, generation: Generation(1), recorded: 0, unsettled: Vec::new() };
    let mut rejoined = rig.holders.taken_over(Arc::new(Kind)).rejoin(left).await.unwrap();
    rig.played.say(notice("here")).await;
    reports(&mut rejoined.link, is_notice("here")).await;
    holder.kill();
}

/// A holder of another version: it has the lock, and says only what never changes.
struct Stranger {
    rests: Arc<std::sync::atomic::AtomicBool>,
    ended: std::thread::JoinHandle<()>,
}

impl Stranger {
    fn start(rig: &Rig) -> Self {
        use std::sync::atomic::{AtomicBool, Ordering};

        let rests = Arc::new(AtomicBool::new(false));
        let (run, session, idle) = (rig.run.clone(), rig.session, Arc::clone(&rests));
        let lock = Lock::take(&run.lock(session)).unwrap().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(run.socket(session)).unwrap();
        let ended = std::thread::spawn(move || {
            let _lock = lock;
            for visitor in listener.incoming() {
                let mut visitor = visitor.unwrap();
                let status = crate::Status {
                    protocol: 0,
                    version: "0.0.1".into(),
                    generation: Some(Generation(1)),
                    state: State::Running,
                    idle: idle.load(Ordering::SeqCst),
                    ..crate::Status::unknown(session)
                };
                let mut out = bytes::BytesMut::new();
                crate::frames::put_message(&mut out, &crate::frames::FromHolder::Status(status)).unwrap();
                std::io::Write::write_all(&mut visitor, &out).unwrap();
                let mut said = Vec::new();
                let _ = std::io::Read::read_to_end(&mut visitor, &mut said);
                if said.windows(6).any(|window| window == b"\"stop\"") {
                    return;
                }
            }
        });
        Self { rests, ended }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_another_version_is_ended_only_when_its_agent_rests() {
    let rig = Rig::new();
    let stranger = Stranger::start(&rig);
    let mut rejoined = rig.rejoin(0, &[5]).await.unwrap();
    assert_eq!(rejoined.taken, [InstructionId(5)].into(), "nothing is sent to it");
    let Some(Report::Remark { text, .. }) = rejoined.link.reports.recv().await else { panic!("a remark") };
    assert!(text.contains("version 0.0.1"), "{text}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!stranger.ended.is_finished(), "its agent works");
    stranger.rests.store(true, std::sync::atomic::Ordering::SeqCst);
    let rest = reports(&mut rejoined.link, |report| matches!(report, Report::Exited(_))).await;
    let why = "another version of Portolan ran the agent, so that it ended at rest";
    assert_eq!(rest, [Report::Exited(exit(ExitReason::Stopped, why))]);
    stranger.ended.join().unwrap();
}
