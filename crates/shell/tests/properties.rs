//! What holds for any text, and for any way to write the same words.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is how it fails")]

mod support;

use portolan_shell::{Part, read, words};
use proptest::prelude::*;
use support::{Bench, accepts, is_there, missing};

/// Pieces of shell text, so that what is made of them is often nearly a command line.
fn soup() -> impl Strategy<Value = String> {
    const TOKENS: &[&str] = &[
        "a",
        "b",
        "c",
        "x=1",
        "x=",
        " ",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        ";",
        "; ",
        " ; ",
        "&",
        " && ",
        " || ",
        " | ",
        " |& ",
        "(",
        ")",
        "( ",
        " )",
        "{ ",
        "; }",
        "}",
        "{",
        "'",
        "\"",
        "\\",
        "$",
        "$x",
        "${x}",
        "${x:-",
        "${#x}",
        "$(",
        "`",
        "$((",
        "))",
        "((",
        "1",
        "+",
        "*",
        "?",
        "[",
        "]",
        "~",
        "{a,b}",
        "..",
        ",",
        "if ",
        "then ",
        "; then ",
        "; fi",
        "fi",
        "else ",
        "for x in ",
        "; do ",
        "; done",
        "while ",
        "do ",
        "done",
        "case x in ",
        "x) ",
        ";;",
        " esac",
        "[[ ",
        " ]]",
        "== ",
        " =~ ",
        "! ",
        "time ",
        "> f",
        "< f",
        ">> f",
        "2>&1",
        "2",
        ">",
        "<",
        "<<E\n",
        "\nE\n",
        "<<'E'\n",
        "<<< ",
        "<(",
        ">(",
        "&> f",
        "#",
        "# c\n",
        "\\\n",
        "sh -c 'a b'",
        "eval ",
        "env ",
        "xargs ",
        "f() ",
        "'a b'",
        "\"a $x\"",
        "\"$(a)\"",
        "$'\\n'",
        "-",
        "=",
        "!",
        "é",
        "exec ",
        "cd ",
        "x=(",
        "+=",
        "@",
        "%",
        "/",
    ];
    prop::collection::vec(prop::sample::select(TOKENS), 1..14).prop_map(|tokens| tokens.concat())
}

/// A word and a way to write it.
fn written() -> impl Strategy<Value = (String, String)> {
    let text = "[a-z0-9 '\"$`\\\\*?;|&(){}#~=!.\\-\n\t]{0,8}";
    (text, 0..4_u8).prop_map(|(text, style)| {
        let written = match style {
            0 => format!("'{}'", text.replace('\'', "'\\''")),
            1 => {
                let escaped: String = text
                    .chars()
                    .flat_map(|char| if "\"$`\\".contains(char) { vec!['\\', char] } else { vec![char] })
                    .collect();
                format!("\"{escaped}\"")
            }
            2 => {
                let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
                format!("$'{escaped}'")
            }
            _ if text.is_empty() || text.contains('\n') => {
                format!("''\"{}\"", "").replace("\"\"", &format!("'{}'", text.replace('\'', "'\\''")))
            }
            _ => text.chars().flat_map(|char| ['\\', char]).collect(),
        };
        (text, written)
    })
}

proptest! {
    #[test]
    fn reading_any_text_never_panics(text in ".{0,200}") {
        let _ = read(&text);
        let _ = words(&text);
    }

    #[test]
    fn reading_any_soup_never_panics(text in soup()) {
        let _ = read(&text);
        let _ = words(&text);
    }

    #[test]
    fn words_are_the_same_however_they_are_written(list in prop::collection::vec(written(), 1..5), blank in "[ \t]{1,3}") {
        let text = list.iter().fold("a".to_owned(), |line, (_, written)| line + &blank + written);
        let script = read(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        let [Part::Run(command)] = script.parts.as_slice() else { return Err(TestCaseError::fail(text)) };
        let found: Vec<_> = command.words.iter().map(|word| word.literal().unwrap_or("?".into()).into_owned()).collect();
        let expected: Vec<_> = std::iter::once("a".to_owned()).chain(list.iter().map(|(text, _)| text.clone())).collect();
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    // Each case starts programs.
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100), ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_a_command_line_for_bash_and_nothing_it_runs_is_missing(texts in prop::collection::vec(soup(), 40)) {
        if !is_there() {
            return Ok(());
        }
        // Most soup is refused; one that is read is enough for a case.
        let Some((text, script)) = texts.into_iter().find_map(|text| read(&text).ok().map(|script| (text, script))) else {
            return Ok(());
        };
        prop_assert!(accepts(&text), "bash refuses {text:?}");
        let runs = Bench::new().run(&text);
        let missing = missing(&script, &runs);
        prop_assert!(missing.is_empty(), "{text:?} ran {missing:?}, read {script:#?}");
    }
}
