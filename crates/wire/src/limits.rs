//! Limits on foreign JSON, checked on the bytes before anything is built from them.
//!
//! A scan finds how deep the brackets go; it builds nothing and allocates nothing. The parser after it decides whether
//! the text is JSON.

/// How deep foreign JSON may nest. The deepest real message seen has 14 levels; the parser's own guard fails at 128
/// with an error that names no limit, and dropping a value that deep costs stack in every thread it visits.
pub const MAX_DEPTH: usize = 64;

/// Limits for foreign JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of bytes.
    pub bytes: usize,
    /// The largest number of open brackets.
    pub depth: usize,
}

impl Limits {
    /// This many bytes, and the usual depth.
    pub const fn bytes(bytes: usize) -> Self {
        Self { bytes, depth: MAX_DEPTH }
    }

    /// Is `text` within the limits?
    pub fn check(self, text: &[u8]) -> Result<(), LimitError> {
        if text.len() > self.bytes {
            return Err(LimitError::TooLarge { bytes: text.len(), most: self.bytes });
        }
        check_depth(text, self.depth)
    }
}

/// Foreign JSON beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many bytes.
    #[error("{bytes} bytes of JSON; at most {most} are allowed")]
    TooLarge {
        /// The number of bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Too many brackets open at once.
    #[error("JSON nests deeper than {most} levels")]
    TooDeep {
        /// The limit.
        most: usize,
    },
}

/// Are there never more than `most` brackets open in `text`? Brackets within strings do not count.
pub fn check_depth(text: &[u8], most: usize) -> Result<(), LimitError> {
    // Text with fewer brackets cannot nest deeper; this one pass is enough for nearly all text.
    if opening_brackets(text) <= most {
        return Ok(());
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at + 1),
            b'{' | b'[' => {
                depth += 1;
                if depth > most {
                    return Err(LimitError::TooDeep { most });
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The number of opening brackets, inside strings or not. Counted in small numbers, which the processor adds many at a
/// time.
fn opening_brackets(text: &[u8]) -> usize {
    // The two differ in one bit.
    let is_opening = |byte: &u8| u8::from(byte | 0x20 == b'{');
    text.chunks(usize::from(u8::MAX)).map(|part| usize::from(part.iter().map(is_opening).sum::<u8>())).sum()
}

/// Where the string whose text begins at `at` ends; the end of `text` if it does not end.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    loop {
        match memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
            None => return text.len(),
            Some(found) if text[at + found] == b'"' => return at + found,
            // The character after the backslash is part of the string, whatever it is.
            Some(found) => at += found + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn the_deepest_allowed_passes_and_one_more_does_not() {
        let limits = Limits::bytes(1024);
        assert_eq!(limits.check(nested(MAX_DEPTH).as_bytes()), Ok(()));
        assert_eq!(
            limits.check(nested(MAX_DEPTH + 1).as_bytes()),
            Err(LimitError::TooDeep { most: MAX_DEPTH })
        );
    }

    #[test]
    fn size_is_counted_before_anything_is_read() {
        assert_eq!(Limits::bytes(3).check(b"[[[["), Err(LimitError::TooLarge { bytes: 4, most: 3 }));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let text = format!(r#"{{"a \" {0}":"{0} \\","b":1}}"#, "[{".repeat(100));
        assert_eq!(check_depth(text.as_bytes(), 1), Ok(()));
    }

    #[test]
    fn many_brackets_side_by_side_are_not_deep() {
        assert_eq!(check_depth("[]".repeat(1000).as_bytes(), 1), Ok(()));
        assert_eq!(opening_brackets("[{".repeat(1000).as_bytes()), 2000);
    }

    #[test]
    fn siblings_do_not_add_up() {
        assert_eq!(check_depth("[{},{},[],[{}]]".as_bytes(), 3), Ok(()));
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(text: Vec<u8>) {
            let _ = check_depth(&text, 3);
        }

        #[test]
        fn the_depth_found_is_the_depth_parsed(depth in 0_usize..40, limit in 0_usize..40) {
            let text = format!("{{\"k\":{}}}", nested(depth));
            prop_assert_eq!(check_depth(text.as_bytes(), limit).is_ok(), depth < limit);
        }
    }
}
