//! The inputs of a command line: texts, files, stdin, JSON, images, variables.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use portolan_core::{Millis, event::Content};
use serde::de::DeserializeOwned;

use crate::failure::{Failure, Outcome};

/// The largest text from a file or stdin: as much as one frame to the daemon can hold.
const LARGEST: u64 = 8 * 1024 * 1024;

/// All of stdin.
fn stdin() -> Outcome<String> {
    limited(std::io::stdin().lock(), "stdin")
}

fn file(path: &Path) -> Outcome<String> {
    let opened = std::fs::File::open(path)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", path.display())))?;
    limited(opened, &path.display().to_string())
}

fn limited(from: impl std::io::Read, name: &str) -> Outcome<String> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("`{name}` cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failure::usage(format!("`{name}` is larger than {} MiB", LARGEST / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("`{name}` is not UTF-8 text")))
}

/// Text as given, from a file with `@FILE`, from stdin with `-`.
pub(super) fn text(given: &str) -> Outcome<String> {
    match given.strip_prefix('@') {
        Some(path) => file(Path::new(path)),
        None if given == "-" => stdin(),
        None => Ok(given.to_owned()),
    }
}

/// JSON as given, from a file with `@FILE`, from stdin with `-`.
pub(super) fn json<T: DeserializeOwned>(given: &str, what: &str) -> Outcome<T> {
    let text = text(given)?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| Failure::usage(format!("cannot read {what}: {error}; give JSON or @FILE")))
}

/// A prompt: words, or stdin with `-`, and images.
pub(super) fn prompt(words: &[String], images: &[PathBuf]) -> Outcome<Vec<Content>> {
    let text = match words {
        [only] if only == "-" => stdin()?.trim_end().to_owned(),
        words => words.join(" "),
    };
    let mut content: Vec<Content> = Vec::new();
    if !text.trim().is_empty() {
        content.push(Content::text(text));
    }
    for path in images {
        content.push(image(path)?);
    }
    Ok(content)
}

/// The image types that agents accept, by the first bytes of their files.
const PICTURES: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

fn image(path: &Path) -> Outcome<Content> {
    let wrong = |why: String| Failure::usage(format!("the image `{}`: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if size > LARGEST / 2 {
        return Err(wrong(format!("larger than {} MiB", LARGEST / 2 / 1024 / 1024)));
    }
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let media_type = PICTURES
        .iter()
        .find(|(start, _)| bytes.starts_with(start))
        .map(|(_, media_type)| *media_type)
        .ok_or_else(|| wrong("not a PNG, JPEG, GIF or WebP file".into()))?;
    Ok(Content::Image { media_type: media_type.into(), data: base64(&bytes) })
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                out.push(char::from(LETTERS[(word >> (18 - 6 * place)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Variables: `NAME=VALUE`, or `NAME` with its value in this environment.
pub(super) fn variables(given: &[String]) -> Outcome<IndexMap<String, String>> {
    given
        .iter()
        .map(|one| match one.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => match std::env::var(one) {
                Ok(value) => Ok((one.clone(), value)),
                Err(_) => {
                    Err(Failure::usage(format!("the variable `{one}` is not set here; give `{one}=VALUE`")))
                }
            },
        })
        .collect()
}

/// How long to wait, in whole seconds; `None` for `none`, which waits without end.
pub(super) fn wait(given: &str) -> Outcome<Option<u32>> {
    if given == "none" {
        return Ok(None);
    }
    let whole = u32::try_from(seconds(given)?).ok().filter(|seconds| *seconds > 0);
    let why = || {
        Failure::usage(format!("`{given}` is not a waiting time; use a time such as 90s or 5m, or `none`"))
    };
    whole.map(Some).ok_or_else(why)
}

/// A duration such as `90s`, `15m`, `12h` or `30d`, in seconds.
pub(super) fn seconds(given: &str) -> Outcome<u64> {
    let wrong = || {
        Failure::usage(format!("`{given}` is not a duration; use a duration such as 90s, 15m, 12h or 30d"))
    };
    let unit = given.chars().last().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number = given.strip_suffix(unit).unwrap_or_default();
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

/// A moment: how long ago it was, such as `12h` or `30d`, the beginning of a day in UTC, or a time in RFC 3339.
pub(super) fn moment(given: &str, now: Millis) -> Outcome<Millis> {
    if let Ok(ago) = seconds(given) {
        let span = i64::try_from(ago.saturating_mul(1000)).unwrap_or(i64::MAX);
        return Ok(Millis(now.0.saturating_sub(span)));
    }
    // The date of a time without its zone would be read, too.
    let is_day = given.len() == "2026-11-18".len();
    let day = || {
        let date = given.parse::<jiff::civil::Date>().ok().filter(|_| is_day)?;
        date.to_zoned(jiff::tz::TimeZone::UTC).ok()
    };
    let at = given.parse::<jiff::Timestamp>().ok().or_else(|| Some(day()?.timestamp()));
    at.map(|at| Millis(at.as_millisecond())).ok_or_else(|| {
        Failure::usage(format!(
            "`{given}` is no time; use a duration such as 12h or 30d, a day such as 2026-11-18, or a time such as \
             2026-11-18T09:30:00Z"
        ))
    })
}

/// Whether there is a person to ask.
pub(super) fn is_asked() -> bool {
    use std::io::IsTerminal as _;
    std::io::stdin().is_terminal()
}

/// Asks a yes-or-no question. The answer is no if there is no terminal to ask.
pub(super) fn confirm(question: &str) -> bool {
    if !is_asked() {
        return false;
    }
    crate::output::note(format!("{question} [y/N]"));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        assert_eq!(seconds("90s").unwrap(), 90);
        assert_eq!(seconds("30d").unwrap(), 2_592_000);
        for wrong in ["", "5", "h", "0h", "5w", "-1s", "5é", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_is_a_duration_before_now_or_a_date_or_a_time() {
        let now = Millis(1_800_000_000_000);
        for (given, at) in [
            ("12h", now.0 - 12 * 3_600_000),
            ("2026-11-18", 1_794_960_000_000),
            ("2026-11-18T09:30:00Z", 1_794_994_200_000),
            ("2026-11-18T10:30:00.250+01:00", 1_794_994_200_250),
        ] {
            assert_eq!(moment(given, now).unwrap(), Millis(at), "{given}");
        }
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-18T09:30:00", "2026-11-18 or so"] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_image_type_is_known_by_the_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\n").unwrap();
        assert_eq!(
            image(&path).unwrap(),
            Content::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
        );
        std::fs::write(&path, "text").unwrap();
        assert!(image(&path).unwrap_err().message.contains("not a PNG"));
    }

    #[test]
    fn a_variable_without_a_value_must_be_set_in_the_environment() {
        let given = ["A=1=2".to_owned()];
        assert_eq!(variables(&given).unwrap()["A"], "1=2");
        assert!(variables(&["SURELY_NOT_SET_ANYWHERE".to_owned()]).is_err());
    }

    #[test]
    fn wrong_json_is_reported_with_the_path_of_the_error() {
        let error = json::<IndexMap<String, u32>>(r#"{"a":"x"}"#, "--input").unwrap_err();
        assert!(error.message.starts_with("cannot read --input: a: invalid type"), "{error}");
    }
}
