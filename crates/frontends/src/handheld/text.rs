//! Text for the app: cut to a number of bytes at a character boundary, without characters that its screen cannot show.
//!
//! Agent text is attacker input: control characters and direction marks are removed, because a command to approve must
//! read as it runs. Cut text ends in an ellipsis, so that nobody approves half a line unknowingly. After this, a byte
//! takes at most two bytes in JSON, so every frame fits the app's buffer.

/// The mark of cut text.
const ELLIPSIS: &str = "…";

/// A single line of at most `limit` bytes: runs of white space are one space.
pub fn line(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(limit.min(text.len()) + 4);
    let mut gap = false;
    for letter in text.chars() {
        if letter.is_whitespace() || letter.is_control() {
            gap = !out.is_empty();
            continue;
        }
        if is_hidden(letter) {
            continue;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        out.push(letter);
        if out.len() > limit {
            break;
        }
    }
    cut(out, limit)
}

/// Several lines of at most `limit` bytes in total: line ends stay, tabs become spaces.
pub fn lines(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(limit.min(text.len()) + 4);
    for letter in text.trim_end().chars() {
        match letter {
            '\n' => out.push('\n'),
            '\t' => out.push(' '),
            letter if letter.is_control() || is_hidden(letter) => {}
            letter => out.push(letter),
        }
        if out.len() > limit {
            break;
        }
    }
    cut(out, limit)
}

/// A name that the app can send back without escaping it: no quote, no backslash, one line.
pub fn name(text: &str, limit: usize) -> String {
    let plain: String = text.chars().filter(|letter| !matches!(letter, '"' | '\\')).collect();
    // Without an ellipsis: a name is compared, not read to its end.
    let mut plain = line(&plain, usize::MAX);
    plain.truncate(boundary(&plain, limit));
    plain.trim_end().to_owned()
}

/// Cuts at the end of a character, with an ellipsis in the last bytes.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let room = limit.saturating_sub(ELLIPSIS.len());
    text.truncate(boundary(&text, room));
    if limit >= ELLIPSIS.len() {
        text.push_str(ELLIPSIS);
    }
    text
}

/// The last character boundary up to `limit`.
fn boundary(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Characters that no screen shows and every shell accepts: directions, joiners, fillers, variation selectors, tags.
/// Unicode calls them default ignorable; line separators and annotations are removed too.
fn is_hidden(letter: char) -> bool {
    matches!(letter,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_at_the_end_of_a_character_and_says_so() {
        assert_eq!(line("harbour", 7), "harbour");
        assert_eq!(line("harbours", 7), "harb…");
        assert_eq!(line("äöüäöü", 8), "äö…", "five bytes fit before the ellipsis, two characters do");
        assert_eq!(line("", 7), "");
    }

    #[test]
    fn what_a_screen_cannot_show_is_left_out() {
        assert_eq!(line("a\u{1b}[31m b\r\n\tc\0d", 99), "a [31m b c d");
        assert_eq!(lines("one\r\n\ttwo\u{1b}", 99), "one\n two");
        assert_eq!(lines("rm \u{202E}txt.exe", 99), "rm txt.exe");
    }

    #[test]
    fn what_no_screen_shows_is_not_hidden_in_a_command() {
        for hidden in [
            '\u{AD}',
            '\u{34F}',
            '\u{61C}',
            '\u{115F}',
            '\u{180E}',
            '\u{200B}',
            '\u{200D}',
            '\u{202E}',
            '\u{2029}',
            '\u{2060}',
            '\u{206F}',
            '\u{3164}',
            '\u{FE00}',
            '\u{FE0F}',
            '\u{FEFF}',
            '\u{FFA0}',
            '\u{FFF9}',
            '\u{1D173}',
            '\u{E0000}',
            '\u{E0001}',
            '\u{E0041}',
            '\u{E007F}',
            '\u{E0100}',
            '\u{E01EF}',
        ] {
            let text = format!("rm{hidden}x");
            assert_eq!(lines(&text, 99), "rmx", "{hidden:?}");
            let one = line(&text, 99);
            assert!(one == "rmx" || hidden.is_whitespace() && one == "rm x", "{hidden:?}: {one}");
            assert!(!name(&text, 31).contains(hidden), "{hidden:?}");
        }
        for shown in ['a', '\u{AE}', 'ä', '한', '日', '😀', '\u{301}'] {
            assert_eq!(lines(&format!("a{shown}"), 99), format!("a{shown}"));
        }
    }

    #[test]
    fn a_name_can_be_sent_back_unescaped() {
        assert_eq!(name("my \"own\" C:\\dir\n", 31), "my own C:dir");
        assert_eq!(name(&"ä".repeat(40), 31).len(), 30);
    }

    proptest! {
        #[test]
        fn any_text_fits_and_doubles_at_most_in_json(text in any::<String>(), limit in 0_usize..200) {
            for fitted in [line(&text, limit), lines(&text, limit), name(&text, limit)] {
                prop_assert!(fitted.len() <= limit);
                let json = serde_json::to_string(&fitted).unwrap();
                prop_assert!(json.len() <= 2 * fitted.len() + 2, "{}", json);
            }
        }
    }
}
