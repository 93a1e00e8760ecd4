//! attach: the terminal client. Reads frames and keys, shows what `terminal` makes of them.
//!
//! A lost connection is made anew by itself, from the last entry seen; what was sent and not yet answered is sent
//! again under its old id, which the daemon does at most once.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use crossterm::event::{Event as TerminalEvent, EventStream};
use futures_util::{FutureExt as _, StreamExt as _};
use indexmap::IndexMap;
use portolan_client::{Client, Error, Lost, frames::Inbound};
use portolan_core::{
    Action, CommandId, Event, RequestId, SessionId,
    event::Content,
    log::{
        Folded as _,
        delivery::{Closed, Presence, Start},
    },
    request::{Answer, Ask, Request, Scope},
    session::state::{State, Status},
};
use portolan_protocol::{Call, ClientFrame};

use super::{
    Context,
    screen::{self, Raw, Screen},
};
use crate::{
    arguments::Attach,
    failure::{Failure, Outcome},
    output::{self, Format},
    terminal::{
        clean,
        keys::{Keyboard, Situation, Wish},
        requests, status,
        style::{Colours, Line, Style},
        transcript::{Layout, Transcript},
    },
};

/// Frames taken in before the screen is drawn: a fast stream is drawn in steps that the eye can follow.
const BATCH: usize = 512;

/// The longest pause between two tries to come back.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Calls that are shown as running; with more, only their number.
const RUNNING: usize = 4;

/// What the keys do, told on joining.
const KEYS: &str =
    "· Enter sends · Esc stops the turn · Ctrl-O shows a request or call in full · Ctrl-D leaves";

pub(super) async fn attach(context: &Context, attach: Attach) -> Outcome {
    let mut client = context.client().await?;
    let session = client.resolve(&attach.id).await?;
    let start = attach.from.map_or(Start::Tail(attach.tail), |from| Start::After(portolan_core::Seq(from)));
    join(context, client, session, start).await
}

/// Joins a session and stays until the user leaves or the session is gone.
pub(super) async fn join(context: &Context, mut client: Client, session: SessionId, start: Start) -> Outcome {
    client.attach(session, start).await?;
    if context.format() == Format::Json {
        return frames(client, session).await;
    }
    if std::io::stdin().is_terminal() && output::is_terminal() {
        return Joined::new(client, session).interactive().await;
    }
    plain(client, session).await
}

/// What a joined session says when it is gone for good.
fn deleted() {
    output::note("the session was deleted");
}

/// Comes back after a lost connection, for as long as it takes.
async fn come_back(client: &mut Client, session: SessionId, after: portolan_core::Seq, why: &str) -> Outcome {
    output::note(format!("connection lost ({why}); trying to come back"));
    let mut pause = Duration::from_millis(100);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        match client.reconnect().await {
            Ok(()) if client.attach(session, Start::After(after)).await.is_ok() => {
                output::note("connected again");
                return Ok(());
            }
            Err(error @ Error::Replaced) => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
}

/// Frames as they come, one per line.
async fn frames(mut client: Client, session: SessionId) -> Outcome {
    let mut seen = portolan_core::Seq::ZERO;
    loop {
        match client.next().await {
            Ok(Inbound::Entry { entry, text, .. }) if entry.seq > seen => {
                seen = entry.seq;
                output::json_text(&text)?;
            }
            Ok(Inbound::Snapshot { seq, text, .. }) => {
                seen = seen.max(seq);
                output::json_text(&text)?;
            }
            Ok(Inbound::Presence { text, .. }) => output::json_text(&text)?,
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => {}
            Err(lost) => come_back(&mut client, session, seen, &lost.0).await?,
        }
    }
}

/// Said where nobody can type: it goes on for as long as the session is there.
const FOLLOWS: &str = "no terminal: this follows the session until it is deleted or Ctrl-C ends it; `portolan send` and `portolan \
     approve` act on it";

/// Lines for a file or a pipe.
async fn plain(mut client: Client, session: SessionId) -> Outcome {
    output::note(FOLLOWS);
    let colours = Colours::when(output::colours());
    let mut transcript = Transcript::new(Layout::Plain, usize::MAX);
    loop {
        let lines = match client.next().await {
            Ok(Inbound::Entry { entry, .. }) => transcript.entry(&entry),
            Ok(Inbound::Snapshot { seq, state, .. }) => transcript.snapshot(seq, &state),
            Ok(Inbound::Ended { reason: Closed::Deleted, .. }) => {
                deleted();
                return Ok(());
            }
            Ok(_) => continue,
            Err(lost) => {
                come_back(&mut client, session, transcript.seen(), &lost.0).await?;
                continue;
            }
        };
        for line in lines {
            output::line(line.paint(colours))?;
        }
    }
}

/// The connection as the screen sees it.
enum Link {
    Up,
    Down { why: String, again_at: Instant, pause: Duration },
}

/// A joined session at a terminal.
struct Joined {
    client: Client,
    session: SessionId,
    link: Link,
    transcript: Transcript,
    state: Option<Box<State>>,
    present: Vec<Presence>,
    keyboard: Keyboard,
    /// The request that a key would answer, and since when it is on the screen.
    shown: Option<(RequestId, Instant)>,
    /// The request that closed last, and when.
    closed: Option<(Request, Instant)>,
    /// What was sent and not answered yet.
    unanswered: IndexMap<CommandId, ClientFrame>,
    /// Lines to put up with the next drawing.
    lines: Vec<Line>,
}

/// Whether to stay.
enum Stay {
    Yes,
    Leave,
}

impl Joined {
    fn new(client: Client, session: SessionId) -> Self {
        Self {
            client,
            session,
            link: Link::Up,
            transcript: Transcript::new(Layout::Live, Screen::columns()),
            state: None,
            present: Vec::new(),
            keyboard: Keyboard::default(),
            shown: None,
            closed: None,
            unanswered: IndexMap::new(),
            lines: Vec::new(),
        }
    }

    async fn interactive(mut self) -> Outcome {
        // A panic message is only readable on a terminal that is in order.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            screen::restore();
            before(panic);
        }));
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut hang_up = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        let raw =
            Raw::enter().map_err(|error| Failure::new(format!("the terminal cannot be used: {error}")))?;
        let mut keys = EventStream::new();
        let mut screen = Screen::new(Colours::when(output::colours()));
        self.remark(Style::Dim, KEYS.into());
        loop {
            self.draw(&mut screen)?;
            let again_at = match &self.link {
                Link::Up => None,
                Link::Down { again_at, .. } => Some(*again_at),
            };
            let stay = tokio::select! {
                inbound = self.client.next(), if again_at.is_none() => self.take_in(inbound),
                event = keys.next() => match event {
                    Some(Ok(event)) => self.terminal_event(event, &mut keys, &mut screen).await,
                    Some(Err(_)) | None => Stay::Leave,
                },
                () = sleep_until(again_at), if again_at.is_some() => {
                    self.try_again().await;
                    Stay::Yes
                }
                _ = terminate.recv() => Stay::Leave,
                _ = hang_up.recv() => Stay::Leave,
            };
            if let Stay::Leave = stay {
                break;
            }
        }
        if let Link::Down { .. } = self.link
            && !self.unanswered.is_empty()
        {
            self.remark(Style::Warning, format!("! left with {} never sent", self.unanswered.len()));
        }
        let rest = std::mem::take(&mut self.lines);
        screen.draw(&rest, &[], 0, 0)?;
        screen.clear()?;
        drop(raw);
        self.client.close().await;
        Ok(())
    }

    /// A frame, and those that wait behind it.
    fn take_in(&mut self, first: Result<Inbound, Lost>) -> Stay {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(inbound) = next {
            match inbound {
                Ok(inbound) => {
                    if let Stay::Leave = self.frame(inbound) {
                        return Stay::Leave;
                    }
                }
                Err(lost) => {
                    self.lost(lost.0);
                    return Stay::Yes;
                }
            }
            taken += 1;
            next = if taken < BATCH { self.client.next().now_or_never() } else { None };
        }
        Stay::Yes
    }

    fn frame(&mut self, inbound: Inbound) -> Stay {
        match inbound {
            Inbound::Entry { entry, .. } => {
                if entry.seq > self.transcript.seen()
                    && let Some(state) = &mut self.state
                {
                    if let Event::RequestClosed { request, .. } = &entry.event {
                        let known = state.requests.iter().find(|open| open.request == *request);
                        self.closed = known.map(|known| (known.clone(), Instant::now()));
                    }
                    state.apply(entry.seq, entry.at, entry.by.as_ref(), &entry.event);
                }
                let lines = self.transcript.entry(&entry);
                self.lines.extend(lines);
            }
            Inbound::Snapshot { seq, state, .. } => {
                let lines = self.transcript.snapshot(seq, &state);
                self.lines.extend(lines);
                self.state = Some(state);
            }
            Inbound::Presence { present, .. } => {
                self.announce(&present);
                self.present = present;
            }
            Inbound::Reply { id, .. } => {
                self.unanswered.shift_remove(&id);
            }
            Inbound::Error { id, refusal } => {
                if let Some(id) = id {
                    self.unanswered.shift_remove(&id);
                }
                self.remark(Style::Warning, format!("! {}", clean::line(&crate::way_out::told(&refusal))));
            }
            Inbound::Ended { reason: Closed::Deleted, .. } => {
                self.remark(Style::Warning, "the session was deleted".into());
                return Stay::Leave;
            }
            Inbound::Ended { .. } => {}
            Inbound::Closing { message, .. } => {
                self.remark(Style::Dim, format!("· the daemon hangs up: {}", clean::line(&message)));
            }
            Inbound::Welcome { .. } | Inbound::Other => {}
        }
        Stay::Yes
    }

    /// Who came and who left.
    fn announce(&mut self, present: &[Presence]) {
        if self.present.is_empty() {
            return;
        }
        let is_same = |one: &Presence, other: &Presence| one.token == other.token && one.since == other.since;
        let came: Vec<Presence> =
            present.iter().filter(|new| !self.present.iter().any(|old| is_same(old, new))).cloned().collect();
        let left: Vec<Presence> =
            self.present.iter().filter(|old| !present.iter().any(|new| is_same(old, new))).cloned().collect();
        if !came.is_empty() {
            self.remark(Style::Dim, format!("· {} joined", status::names(&came)));
        }
        if !left.is_empty() {
            self.remark(Style::Dim, format!("· {} left", status::names(&left)));
        }
    }

    fn remark(&mut self, style: Style, text: String) {
        self.lines.push(Line::new(style, text));
    }

    fn lost(&mut self, why: String) {
        let pause = match &self.link {
            Link::Down { pause, .. } => (*pause * 2).min(LONGEST_PAUSE),
            Link::Up => Duration::from_millis(100),
        };
        self.link = Link::Down { why, again_at: Instant::now() + pause, pause };
    }

    async fn try_again(&mut self) {
        let start = Start::After(self.transcript.seen());
        let back = async {
            self.client.reconnect().await?;
            self.client.attach(self.session, start).await
        };
        match back.await {
            Ok(()) => {
                self.link = Link::Up;
                self.present.clear();
                for frame in self.unanswered.values().cloned().collect::<Vec<_>>() {
                    if let Err(lost) = self.client.send(&frame).await {
                        self.lost(lost.0);
                        return;
                    }
                }
            }
            Err(error) => self.lost(error.to_string()),
        }
    }

    async fn terminal_event(
        &mut self,
        event: TerminalEvent,
        keys: &mut EventStream,
        screen: &mut Screen,
    ) -> Stay {
        if let TerminalEvent::Resize(..) = event {
            self.transcript.resize(Screen::columns());
            return Stay::Yes;
        }
        let Some(key) = screen::key(&event) else { return Stay::Yes };
        let request = self.state.as_ref().and_then(|state| state.requests.first());
        let shown_for = match (request, self.shown) {
            (Some(request), Some((id, since))) if request.request == id => since.elapsed(),
            _ => Duration::ZERO,
        };
        let running = self.state.as_ref().is_some_and(|state| state.summary.status == Status::Active);
        let closed = self.closed.as_ref().map(|(request, at)| (request, at.elapsed()));
        let wish = self.keyboard.press(key, Situation { request, shown_for, closed, running });
        match wish {
            Wish::Look => {}
            Wish::Leave => return Stay::Leave,
            Wish::TooLate(request) => {
                let text =
                    format!("· too late: request {} is closed, and this key did nothing", request.request);
                self.remark(Style::Dim, text);
            }
            Wish::Unfold => {
                // What is to be allowed comes before what was done.
                let lines = match request {
                    Some(request) => requests::in_full(request),
                    None => self.transcript.unfold(),
                };
                self.lines.extend(lines.into_iter().flat_map(|line| line.wrapped(Screen::columns())));
            }
            Wish::Interrupt => self.act(Action::Interrupt).await,
            Wish::Send(text) => self.act(Action::Prompt { content: vec![Content::text(text)] }).await,
            Wish::Answer(request, answer) => self.answer(*request, answer).await,
            Wish::Edit(request) => self.edit(*request, keys, screen).await,
        }
        Stay::Yes
    }

    async fn answer(&mut self, request: Request, answer: Answer) {
        match answer.fits(&request.ask) {
            Ok(()) => {
                let digest = Some(request.digest);
                self.act(Action::Answer { request: request.request, digest, answer }).await;
            }
            Err(why) => self.remark(Style::Warning, format!("! {why}")),
        }
    }

    async fn act(&mut self, command: Action) {
        let id = CommandId::random();
        let frame = ClientFrame { id: id.clone(), call: Call::Command { session: self.session, command } };
        self.unanswered.insert(id, frame.clone());
        if let Link::Up = self.link
            && let Err(lost) = self.client.send(&frame).await
        {
            self.lost(lost.0);
        }
    }

    /// Lets the user edit the answer in an editor of theirs.
    async fn edit(&mut self, request: Request, keys: &mut EventStream, screen: &mut Screen) {
        let edits = self.state.as_ref().is_some_and(|state| state.capabilities.edited_input);
        let text = match &request.ask {
            Ask::Permission { .. } if !edits => {
                let why =
                    "! this agent takes what it asked for or nothing: allow it, or deny it with a reason";
                return self.remark(Style::Warning, why.into());
            }
            Ask::Permission { input, .. } => serde_json::to_string_pretty(input).unwrap_or_default(),
            Ask::Elicitation { .. } | Ask::Hook { .. } | Ask::Other { .. } => "{}".to_owned(),
            Ask::Question { .. } | Ask::Plan { .. } => return,
        };
        let _ = screen.clear();
        // Two readers of one keyboard would each get half of what is typed.
        *keys = EventStream::new();
        screen::restore();
        let edited = edit_text(&text);
        // The guard that `interactive` holds leaves raw mode in the end; this one must not.
        if let Err(error) = Raw::enter().map(std::mem::forget) {
            self.remark(Style::Bad, format!("! the terminal cannot be used: {error}"));
        }
        let edited = match edited.and_then(|edited| {
            serde_json::from_str(&edited).map_err(|error| format!("this is no JSON: {error}"))
        }) {
            Ok(edited) => edited,
            Err(why) => {
                self.remark(Style::Warning, format!("! nothing was answered: {}", clean::line(&why)));
                return;
            }
        };
        let answer = match &request.ask {
            Ask::Permission { .. } => {
                Answer::Allow { input: Some(edited), scope: Scope::Once, mode: None, option: None }
            }
            Ask::Elicitation { .. } => Answer::Content { content: edited },
            _ => Answer::Output { output: edited },
        };
        self.answer(request, answer).await;
    }

    fn draw(&mut self, screen: &mut Screen) -> Outcome {
        let columns = Screen::columns();
        let mut below: Vec<Line> = self.transcript.unfinished().into_iter().collect();
        let running = self.transcript.running();
        if running.len() > RUNNING {
            below.push(Line::new(Style::Dim, format!("▸ {} calls run", running.len())));
        } else {
            below.extend(running);
        }
        let request = self.state.as_ref().and_then(|state| state.requests.first());
        match (request, self.shown) {
            (Some(request), Some((id, _))) if request.request == id => {}
            (Some(request), _) => self.shown = Some((request.request, Instant::now())),
            (None, _) => self.shown = None,
        }
        if let (Some(request), Some(state)) = (request, &self.state) {
            // Several are on the screen, and a key answers one of them.
            let which = match state.requests.len() {
                1 => String::new(),
                _ => format!("request {}: ", request.request),
            };
            let keys = requests::keys(&request.ask, &state.capabilities);
            below.push(Line::new(Style::Warning, format!("{which}{keys}")));
        }
        let row = below.len();
        let (line, column) = self.keyboard.line(columns);
        below.push(line);
        below.push(match (&self.link, &self.state) {
            (Link::Down { why, .. }, _) => {
                let kept = match self.unanswered.len() {
                    0 => String::new(),
                    number => format!(" · {number} to be sent then"),
                };
                let text = format!("trying to come back{kept} · connection lost: {}", clean::line(why));
                Line::new(Style::Warning, text)
            }
            (Link::Up, Some(state)) => status::line(state, &self.present),
            (Link::Up, None) => Line::new(Style::Dim, "joining"),
        });
        let lines = std::mem::take(&mut self.lines);
        screen.draw(&lines, &below, row, column)?;
        Ok(())
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The text as an editor of the user's choice leaves it.
fn edit_text(text: &str) -> Result<String, String> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()))
        .unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let file = tempfile::Builder::new().suffix(".json").tempfile().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), text).map_err(|error| error.to_string())?;
    let ended = std::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .map_err(|error| format!("the editor `{program}` cannot be started: {error}; set EDITOR"))?;
    if !ended.success() {
        return Err(format!("the editor `{program}` gave up"));
    }
    std::fs::read_to_string(file.path()).map_err(|error| error.to_string())
}
