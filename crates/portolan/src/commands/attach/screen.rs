//! The terminal itself: lines that stay go into its scrollback, below them a few that are drawn anew each time.
//! Raw mode is left however this ends, a panic included.

use std::io::{self, Stdout, Write as _};

use crossterm::{
    QueueableCommand as _,
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    event::{DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEventKind, KeyModifiers},
    style::Print,
    terminal::{self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate},
};

use crate::terminal::{
    keys::Key,
    style::{Colours, Line},
};

/// Raw mode, from here until it is dropped.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Keys come one by one from now on.
    pub(super) fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let raw = Self(());
        io::stdout().queue(EnableBracketedPaste)?.flush()?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves the terminal as a shell wants it.
pub(super) fn restore() {
    let mut out = io::stdout();
    let _ = out.queue(DisableBracketedPaste).and_then(|out| out.queue(Show)).and_then(io::Write::flush);
    let _ = terminal::disable_raw_mode();
}

/// The screen: what was drawn below the lines that stay.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    colours: Colours,
    /// In which of the drawn lines the cursor stands, counted from the first.
    cursor_row: u16,
}

impl Screen {
    pub(super) fn new(colours: Colours) -> Self {
        Self { out: io::stdout(), colours, cursor_row: 0 }
    }

    /// How many columns there are.
    pub(super) fn columns() -> usize {
        terminal::size().map_or(80, |(columns, _)| usize::from(columns.max(20)))
    }

    /// Puts `lines` up for good and draws `below` beneath them, the cursor in its line `row` at `column`.
    pub(super) fn draw(
        &mut self,
        lines: &[Line],
        below: &[Line],
        row: usize,
        column: usize,
    ) -> io::Result<()> {
        let columns = Self::columns();
        self.out.queue(BeginSynchronizedUpdate)?.queue(Hide)?;
        self.go_to_top()?;
        for line in lines {
            self.out.queue(Print(line.paint(self.colours)))?.queue(Print("\r\n"))?;
        }
        for (number, line) in below.iter().enumerate() {
            if number > 0 {
                self.out.queue(Print("\r\n"))?;
            }
            // One column less than there are: a full line would make some terminals begin the next.
            self.out.queue(Print(line.clone().cut(columns - 1).paint(self.colours)))?;
        }
        let up = below.len().saturating_sub(1).saturating_sub(row);
        if up > 0 {
            self.out.queue(MoveUp(up as u16))?;
        }
        self.out
            .queue(MoveToColumn(column.min(columns - 1) as u16))?
            .queue(Show)?
            .queue(EndSynchronizedUpdate)?;
        self.cursor_row = row as u16;
        self.out.flush()
    }

    /// Removes what is drawn below the lines that stay.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.go_to_top()?;
        self.out.flush()
    }

    fn go_to_top(&mut self) -> io::Result<()> {
        if self.cursor_row > 0 {
            self.out.queue(MoveUp(self.cursor_row))?;
        }
        self.cursor_row = 0;
        self.out.queue(MoveToColumn(0))?.queue(Clear(ClearType::FromCursorDown))?;
        Ok(())
    }
}

/// What a key of the terminal is to us; `None` for those that mean nothing.
pub(super) fn key(event: &Event) -> Option<Key> {
    let key = match event {
        Event::Paste(text) => return Some(Key::Paste(text.clone())),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Key::Cancel,
        KeyCode::Char('d') if control => Key::EndOfInput,
        KeyCode::Char('u') if control => Key::Clear,
        KeyCode::Char('w') if control => Key::DeleteWord,
        KeyCode::Char('o') if control => Key::Unfold,
        KeyCode::Char('a') if control => Key::Start,
        KeyCode::Char('e') if control => Key::End,
        KeyCode::Char('j') if control => Key::LineEnd,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(character) => Key::Character(character),
        KeyCode::Enter if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => Key::LineEnd,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Start,
        KeyCode::End => Key::End,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}
