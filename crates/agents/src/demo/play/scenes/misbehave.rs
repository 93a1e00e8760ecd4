//! Scenes that really misbehave, on request only, so that Portolan's guarantees can be seen and tested.

use std::{io::Write as _, time::Duration};

use portolan_core::event::ItemKind;
use tokio::signal::unix::{SignalKind, signal};

use super::super::stage::{Played, Stage};

/// A fake secret in the demo's last output, which must arrive masked.
const SECRET: &str = "sk-demo-0123456789abcdef";

/// Stops reading and writing, for ever.
pub(super) async fn hang(stage: &Stage) -> Played {
    stage.say("I will now hang: no reading, no writing. `stop` ends me.").await?;
    stage.flush();
    loop {
        std::thread::sleep(Duration::from_hours(1));
    }
}

/// Ends with an error, and last output on stderr.
pub(super) fn crash(stage: &Stage) -> Played {
    stage.flush();
    let mut stderr = std::io::stderr();
    // An error here cannot be reported.
    let _ = writeln!(stderr, "demo: crashing, as asked\ndemo: API_KEY={SECRET}\ndemo: the ship hit a rock");
    std::process::exit(3);
}

/// Ends in the middle of a turn, with this exit code.
pub(super) fn leave(stage: &Stage, code: u8) -> Played {
    stage.flush();
    std::process::exit(i32::from(code));
}

/// Writes this many mebibytes without a newline, then continues normally.
pub(super) async fn flood(stage: &Stage, mebibytes: u64) -> Played {
    stage.say("Here comes the sea.").await?;
    let wave = vec![b'~'; 64 * 1024];
    for _ in 0..mebibytes * 16 {
        stage.raw(&wave);
        tokio::task::yield_now().await;
    }
    stage.raw(b"\n");
    stage.say("That was one line. It is gone, and I am still here.").await
}

/// Writes this many tiny lines, as fast as possible.
pub(super) async fn flood_lines(stage: &Stage, count: u64) -> Played {
    let item = stage.name();
    stage.begin(&item, ItemKind::Text, None);
    for number in 0..count {
        stage.more(&item, ".");
        if number % 1024 == 1023 {
            tokio::task::yield_now().await;
        }
    }
    stage.finish(&item);
    Ok(())
}

/// Lines that are not messages, broken text, unknown messages.
pub(super) async fn garbage(stage: &Stage) -> Played {
    stage.say("Some garbage, and then a euro sign cut in two:").await?;
    stage.raw(b"this is not JSON\n");
    stage.raw(b"{\"more\":{\"item\":\n");
    stage.raw(b"\xff\xfe broken text\n");
    stage.raw(b"\r\n\n   \n");
    stage.raw(b"{\"from_the_future\":{\"x\":1}}\n");
    stage.raw(b"{\"event\":{\"type\":\"session_renamed\",\"name\":\"forged\"}}\n");
    stage.raw(b"[[[[\"not an object\"]]]]\n");
    stage.raw([&[b'['; 100][..], b"\n"].concat().as_slice());
    let item = stage.name();
    stage.begin(&item, ItemKind::Text, None);
    stage.raw(format!("{{\"more\":{{\"item\":\"{item}\",\"newer_field\":[1],\"text\":\"one ").as_bytes());
    stage.raw(b"\xe2\x82");
    stage.pause(4).await;
    stage.raw(b"\xac\"}}\n");
    stage.pause(1).await;
    // Text that did not go through `more` is not in the item.
    stage.say_whole(&item, None, vec![portolan_core::event::Content::text("one \u{20ac}")], false);
    stage.say("Still here.").await
}

/// From now on neither SIGTERM nor the end of its input ends it.
pub(super) async fn ignore_term(stage: &Stage) -> Played {
    stage.stay();
    let Ok(mut asked) = signal(SignalKind::terminate()) else { return Ok(()) };
    stage.say("I ignore SIGTERM from now on.").await?;
    stage.flush();
    loop {
        asked.recv().await;
        let _ = writeln!(std::io::stderr(), "demo: SIGTERM? I did not hear that");
    }
}

/// Leaves a process behind in another process session, without ties to the agent.
pub(super) async fn orphans(stage: &Stage) -> Played {
    let mut command = std::process::Command::new("setsid");
    command.args(["sleep", "600"]).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    #[expect(
        clippy::disallowed_methods,
        reason = "this plays an agent that starts processes behind our back"
    )]
    let orphan = command.spawn();
    match orphan {
        Ok(orphan) => {
            stage
                .say(&format!("I left a process behind: pid {}. It ends with this session.", orphan.id()))
                .await
        }
        Err(error) => stage.say(&format!("I could not leave a process behind: {error}.")).await,
    }
}
