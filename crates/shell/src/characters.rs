//! Characters that a person would not see, or would take for others.
//!
//! A person decides by what the screen shows. Text that shows as something else than it is, is not read at all.

use crate::Unreadable;

/// Refuses what nothing may contain, in quotes or not: control characters other than a new line and a tab, and
/// characters that are not shown or that turn the direction of what is shown.
pub(crate) fn check(text: &str) -> Result<(), Unreadable> {
    match text.chars().find(|&char| is_never_shown(char)) {
        Some(char) => Err(Unreadable::Character(char)),
        None => Ok(()),
    }
}

/// Refuses a character that may stand only in quotes: a blank that is none for Bash, and marks that change how
/// the character before them is shown.
pub(crate) fn check_outside_of_quotes(char: char) -> Result<(), Unreadable> {
    if matches!(char, ' '..='~') {
        return Ok(());
    }
    let blank = char.is_whitespace() && !matches!(char, ' ' | '\t' | '\n');
    let looks_blank = matches!(char, '\u{2800}' | '\u{3164}' | '\u{115f}' | '\u{1160}' | '\u{ffa0}');
    let mark = matches!(char, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    if blank || looks_blank || mark { Err(Unreadable::Character(char)) } else { Ok(()) }
}

/// Refuses a program's name that can be taken for another: letters of other scripts with the shape of Latin ones,
/// and anything that does not show.
pub(crate) fn check_program(name: &str) -> Result<(), Unreadable> {
    for char in name.chars().filter(|char| !matches!(char, ' '..='~')) {
        check_outside_of_quotes(char)?;
        if char.is_control() || is_never_shown(char) || has_the_shape_of_ascii(char) {
            return Err(Unreadable::Character(char));
        }
    }
    Ok(())
}

fn is_never_shown(char: char) -> bool {
    if matches!(char, ' '..='~') {
        return false;
    }
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{17b4}' | '\u{17b5}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}' | '\u{feff}' | '\u{fff0}'..='\u{fffd}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

fn has_the_shape_of_ascii(char: char) -> bool {
    matches!(char,
        '\u{131}' | '\u{17f}' | '\u{180}'..='\u{1bf}' | '\u{237}' | '\u{250}'..='\u{2ff}' // dotless i, IPA, modifiers
        | '\u{370}'..='\u{58f}' | '\u{10a0}'..='\u{10ff}' | '\u{13a0}'..='\u{13ff}' // Greek, Cyrillic, Armenian, ...
        | '\u{1d00}'..='\u{1dbf}' | '\u{1f00}'..='\u{1fff}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
        | '\u{2070}'..='\u{209f}' | '\u{2100}'..='\u{218f}' | '\u{2212}' | '\u{2215}' | '\u{2216}' | '\u{2223}'
        | '\u{2236}' | '\u{2460}'..='\u{24ff}' | '\u{2c60}'..='\u{2dff}' | '\u{a4d0}'..='\u{a69f}'
        | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{abbf}' | '\u{fe10}'..='\u{fe6f}' | '\u{ff00}'..='\u{ffef}'
        | '\u{10280}'..='\u{1044f}' | '\u{1d400}'..='\u{1d7ff}' | '\u{1f100}'..='\u{1f1ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_turned_text_are_refused() {
        for char in
            ['\0', '\r', '\u{7f}', '\u{1b}', '\u{85}', '\u{202e}', '\u{200b}', '\u{feff}', '\u{e0041}']
        {
            assert_eq!(check(&format!("a{char}b")), Err(Unreadable::Character(char)));
        }
        assert_eq!(check("a\tb\nä 你好 🙂"), Ok(()));
    }

    #[test]
    fn look_alikes_of_blanks_are_refused_outside_of_quotes() {
        for char in ['\u{a0}', '\u{3000}', '\u{2003}', '\u{2800}', '\u{301}'] {
            assert_eq!(check_outside_of_quotes(char), Err(Unreadable::Character(char)));
        }
        assert_eq!(check_outside_of_quotes('é'), Ok(()));
    }

    #[test]
    fn program_written_with_letters_of_another_script_is_refused() {
        assert_eq!(check_program("g\u{456}t"), Err(Unreadable::Character('\u{456}')));
        assert_eq!(check_program("\u{ff47}it"), Err(Unreadable::Character('\u{ff47}')));
        assert_eq!(check_program("/usr/bin/git"), Ok(()));
        assert_eq!(check_program("./bücher-工具"), Ok(()));
    }
}
