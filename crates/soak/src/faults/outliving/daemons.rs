//! Ends of the daemon, by `kill -9` and in order, at random points while a turn runs and a request waits.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use anyhow::{Context as _, Result, ensure};
use portolan_scripted::{Script, Server, contains, text, tools};
use portolan_testkit::npm::{self, Pinned};
use serde_json::json;

use super::{
    ASK, Histories, RECITE, RECITED, allow, come_to_rest, conclude, count, open_request, open_requests_after,
    place, rests, said,
};
use crate::{
    chance::Chance,
    faults::{Run, Tally},
    link::{Door, Link},
    place::{Kill, Place},
    reader::Reader,
};

/// How many of a hundred ends of the daemon are orderly stops.
const IN_ORDER: u64 = 20;

/// What two sessions of an agent do while daemons come and go: one talks, one asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversation {
    agent: &'static str,
    /// The prompt of one turn of the session that only talks. Every such turn has the same text.
    talk: &'static str,
    /// The prompt of one turn with one request.
    ask: &'static str,
    /// How long a daemon lives, in milliseconds: from, to.
    life_ms: (u64, u64),
    /// The words of the text of one turn, as spaces separate them.
    words: usize,
}

pub(super) const DEMO: Conversation =
    Conversation { agent: "demo", talk: RECITE, ask: ASK, life_ms: (0, 400), words: RECITED };

/// A real agent with a scripted model: turns take about two seconds, and agents take seconds to start.
const fn real(agent: &'static str) -> Conversation {
    let (talk, ask) = ("tell a story", "run a command");
    Conversation { agent, talk, ask, life_ms: (0, 1500), words: 12 * 13 }
}

/// Beside the demo agent.
pub async fn demo(run: Run) -> Result<Tally> {
    let place = place()?;
    let beside = Beside::begin(&place, DEMO).await?;
    let times = run.extent.of(1000, 20);
    let (count, worked) = beside.kills(times, Chance::new(run.seed)).await?;
    worked.reached_the_demo(&place)?;
    Ok(Tally { count, found: worked.to_string() })
}

/// Beside Claude Code.
pub async fn claude(run: Run) -> Result<Tally> {
    beside_real(run, real("claude"), npm::claude("2.1.325")).await
}

/// Beside Codex.
pub async fn codex(run: Run) -> Result<Tally> {
    beside_real(run, real("codex"), npm::codex("0.166.0")).await
}

async fn beside_real(run: Run, conversation: Conversation, pinned: Pinned) -> Result<Tally> {
    let profile = portolan_contract::Profile::of(conversation.agent).context("an agent without a profile")?;
    let program = tokio::task::spawn_blocking(move || pinned.program()).await?.map_err(anyhow::Error::msg)?;
    let story = "Once there was a harbour, and in the harbour there was a light. ".repeat(12);
    let script = Script::new()
        .on(contains(conversation.talk))
        .reply(text(story).chunks_of(9).each_after(Duration::from_millis(20)))
        .on(contains(conversation.ask))
        .reply(tools([(profile.shell)("echo done >> ran.txt")]))
        .then(text("It ran."))
        .asides(text("scripted"));
    let model = Server::start(script).await?;
    let place = Place::new("")?;
    let agent_home = tempfile::tempdir()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let environment = (profile.environment)(&agent_home.path().canonicalize()?, &model.base_url(), path);
    let mut settings = format!(
        "[agents]\noutlive = true\n[agents.{0}]\ncommand = {1}\n[agents.{0}.env]\n",
        conversation.agent,
        json!([program])
    );
    // The daemon chooses the programs.
    for (name, value) in environment.into_iter().filter(|(name, _)| name != "PATH") {
        let value = json!(value.to_string_lossy());
        // Writing into memory cannot fail.
        let _ = writeln!(settings, "{} = {value}", name.to_string_lossy());
    }
    place.configure(&settings);
    let beside = Beside::begin(&place, conversation).await?;
    let (count, worked) = beside.kills(run.extent.of(200, 3), Chance::new(run.seed)).await?;
    model.shutdown().await;
    let ran = std::fs::read_to_string(place.work.path().join("ran.txt"))?.lines().count();
    ensure!(ran == worked.asked, "{} commands were allowed, {ran} ran", worked.asked);
    Ok(Tally { count, found: worked.to_string() })
}

/// Two sessions that work, a client that drives them, and a client that reads everything.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    place: &'a Place,
    conversation: Conversation,
    door: Door,
    link: Link,
    reader: Reader,
    talks: String,
    asks: String,
    answered: BTreeSet<u64>,
    prompts: Prompts,
}

/// How many prompts the two sessions got.
#[derive(Clone, Copy, Debug, Default)]
struct Prompts {
    talk: usize,
    ask: usize,
}

/// What the two sessions did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worked {
    talked: usize,
    asked: usize,
    /// How often the next daemon showed a request that was open when a daemon ended.
    open_after: usize,
}

impl std::fmt::Display for Worked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { talked, asked, open_after } = self;
        write!(
            f,
            "{talked} turns of text and {asked} of requests, each whole; \
             a request was open at {open_after} ends of daemons"
        )
    }
}

impl Worked {
    /// Each prompt and each answer reached the demo agent once.
    pub(super) fn reached_the_demo(self, place: &Place) -> Result<()> {
        let lines = place.told()?.lines;
        let times = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        for (what, given) in [
            (format!("\"{}\"", DEMO.talk), self.talked),
            (format!("\"{}\"", DEMO.ask), self.asked),
            ("{\"answer\":{\"id\"".to_owned(), self.asked),
        ] {
            let reached = times(&what);
            ensure!(reached == given, "`{what}`: {given} were given, the agent got {reached}");
        }
        Ok(())
    }
}

impl<'a> Beside<'a> {
    pub(super) async fn begin(place: &'a Place, conversation: Conversation) -> Result<Self> {
        let (_, door) = place.up()?;
        let mut link = Link::open(&door, "driver").await?;
        let talks = link.create(conversation.agent, place.work.path()).await?;
        let asks = link.create(conversation.agent, place.work.path()).await?;
        for session in [&talks, &asks] {
            link.until_state(session, "the start of the agent", rests).await?;
        }
        let mut reader = Reader::new("reader", &[&talks, &asks]);
        reader.start(&door);
        let (answered, prompts) = (BTreeSet::new(), Prompts::default());
        Ok(Self { place, conversation, door, link, reader, talks, asks, answered, prompts })
    }

    /// Kills the daemon so many times, and between the kills stops it in order now and then.
    async fn kills(mut self, times: usize, mut chance: Chance) -> Result<(String, Worked)> {
        let (mut kills, mut stops) = (0, 0);
        while kills < times {
            self.work(&mut chance).await?;
            let kill = if chance.percent(IN_ORDER) {
                stops += 1;
                self.place.down_and_keep()?;
                None
            } else {
                kills += 1;
                let kill = self.place.kill();
                self.place.check_database()?;
                Some(kill)
            };
            let (_, door) = self.place.up()?;
            let about = || format!("after {kills} kills and {stops} stops");
            self.go_on(kill, door).await.with_context(about)?;
        }
        Ok((format!("{kills} kills, {stops} stops"), self.end().await?))
    }

    /// Lets both sessions work for a random time.
    pub(super) async fn work(&mut self, chance: &mut Chance) -> Result<()> {
        let Conversation { talk, ask, life_ms: (from, to), .. } = self.conversation;
        if rests(&self.link.state(&self.talks).await?) {
            self.link.prompt(&self.talks, talk).await?;
            self.prompts.talk += 1;
        }
        let state = self.link.state(&self.asks).await?;
        if let Some(request) = open_request(&state, &self.answered) {
            allow(&mut self.link, &self.asks, request).await?;
            self.answered.insert(request);
        } else if rests(&state) {
            self.link.prompt(&self.asks, ask).await?;
            self.prompts.ask += 1;
        }
        tokio::time::sleep(Duration::from_millis(chance.between(from, to))).await;
        Ok(())
    }

    /// The daemon has ended, by a kill or in order, and the next one runs.
    pub(super) async fn go_on(&mut self, kill: Option<Kill>, door: Door) -> Result<()> {
        self.reader.lose(kill).await?;
        self.link = Link::open(&door, "driver").await?;
        self.reader.start(&door);
        self.door = door;
        Ok(())
    }

    /// Lets both sessions come to rest, compares everything, and ends the agents.
    pub(super) async fn end(mut self) -> Result<Worked> {
        for session in [&self.talks, &self.asks] {
            come_to_rest(&mut self.link, session, &mut self.answered).await?;
        }
        let Self { place, conversation, door, reader, talks, asks, prompts, .. } = self;
        let (histories, recordings) = conclude(place, &door, reader, &[&talks, &asks]).await?;
        completed(&histories, &talks, prompts.talk)?;
        completed(&histories, &asks, prompts.ask)?;
        same_text(&histories, &talks, prompts.talk, conversation.words)?;
        answered_by_people(&histories, &asks, prompts.ask)?;
        let open_after = open_requests_after(&recordings);
        Ok(Worked { talked: prompts.talk, asked: prompts.ask, open_after })
    }
}

/// Each prompt was one whole turn, and no agent ended.
fn completed(histories: &Histories, session: &str, prompts: usize) -> Result<()> {
    let history = histories.get(session).context("a session without a history")?;
    let completed = history.iter().filter(|entry| entry.event["result"]["outcome"] == "completed").count();
    let counts = [count(history, "prompt"), count(history, "turn_ended"), completed];
    ensure!(counts == [prompts; 3], "{prompts} prompts; prompts, turns, completed turns: {counts:?}");
    ensure!(count(history, "agent_exited") == 0, "an agent of {session} ended");
    Ok(())
}

/// Each turn said the same, and has this many words.
fn same_text(histories: &Histories, session: &str, turns: usize, words: usize) -> Result<()> {
    let history = histories.get(session).context("a session without a history")?;
    let messages = history.iter().filter(|entry| entry.kind() == "message");
    let texts: Vec<String> = messages.map(|entry| said(&entry.event)).collect();
    let first = texts.first().context("no text")?;
    ensure!(first.split_inclusive(' ').count() == words, "{words} words were expected: {first}");
    ensure!(texts.len() == turns, "{} texts for {turns} prompts", texts.len());
    for (number, text) in texts.iter().enumerate() {
        ensure!(text == first, "the text of turn {number} differs:\n{text}\nis not\n{first}");
    }
    Ok(())
}

/// There was one request for each prompt, and a client answered it: no request was withdrawn and opened again under
/// another number.
fn answered_by_people(histories: &Histories, session: &str, prompts: usize) -> Result<()> {
    let history = histories.get(session).context("a session without a history")?;
    let closed = history.iter().filter(|entry| entry.kind() == "request_closed");
    let answered = closed.filter(|entry| entry.event["outcome"]["how"] == "answered").count();
    let opened = count(history, "request_opened");
    ensure!(
        [opened, answered] == [prompts; 2],
        "{prompts} prompts, {opened} requests, {answered} answered requests"
    );
    Ok(())
}
