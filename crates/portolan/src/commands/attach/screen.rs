//! The terminal itself: permanent lines go into the scrollback, and a few lines below them are redrawn each time. Raw
//! mode ends however this ends, a panic included.

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

/// Raw mode, until this value is dropped.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Enters raw mode: keys come one by one.
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

/// Restores the terminal for a shell.
pub(super) fn restore() {
    let mut out = io::stdout();
    let _ = out.queue(DisableBracketedPaste).and_then(|out| out.queue(Show)).and_then(io::Write::flush);
    let _ = terminal::disable_raw_mode();
}

/// The screen: what was drawn below the permanent lines.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    colours: Colours,
    /// The row of the cursor in the drawn lines, counted from the first.
    cursor_row: u16,
}

impl Screen {
    pub(super) fn new(colours: Colours) -> Self {
        Self { out: io::stdout(), colours, cursor_row: 0 }
    }

    /// The width of the terminal.
    pub(super) fn columns() -> usize {
        terminal::size().map_or(80, |(columns, _)| usize::from(columns.max(20)))
    }

    /// Prints `lines` permanently and draws `below` under them, with the cursor in line `row` of `below` at `column`.
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
            // Leave one column free: on some terminals a full line begins the next line.
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

    /// Removes what is drawn below the permanent lines.
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

/// Translates a key of the terminal; `None` for a key without a meaning.
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
