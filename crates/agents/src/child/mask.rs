//! Secrets in text that people will see: recognised by their form and by their names, and masked.
//!
//! Pure. It masks too much rather than too little: its input is a program's last output, kept for diagnosis, not an
//! exact record.

use std::ffi::OsString;

/// The replacement for a secret.
pub const MASKED: &str = "***";

/// A shorter value is too likely to be a common word.
const SHORTEST_LITERAL: usize = 8;

/// Prefixes that mark a secret, whatever stands around it.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "SG.",
];

/// How much must follow such a prefix.
const PREFIX_TAIL: usize = 8;

/// Words before a secret in a header.
const SCHEMES: &[&str] = &["bearer", "basic", "token"];

/// Whether a variable, header or key of this name holds a secret.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends =
        ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "KEY", "CREDENTIAL", "CREDENTIALS", "COOKIE"];
    let parts = ["TOKEN", "SECRET", "PASSWORD", "APIKEY", "AUTHORIZATION"];
    ends.iter().any(|end| name.ends_with(end))
        || name.split(['_', '-', '.']).any(|part| parts.contains(&part))
}

/// Masks secrets: the known values, and those that look like one.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    literals: Vec<String>,
}

impl Masker {
    /// Knows the values of the variables whose names look secret.
    pub fn new(variables: &[(OsString, OsString)]) -> Self {
        let secret = variables.iter().filter(|(name, _)| looks_secret(&name.to_string_lossy()));
        let values = secret.map(|(_, value)| value.to_string_lossy().into_owned());
        let mut literals: Vec<_> = values.filter(|value| value.len() >= SHORTEST_LITERAL).collect();
        // A secret may contain another one: the longer one is masked first.
        literals.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
        literals.dedup();
        Self { literals }
    }

    /// The text without its secrets.
    pub fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for literal in &self.literals {
            if text.contains(literal.as_str()) {
                text = text.replace(literal.as_str(), MASKED);
            }
        }
        text.split_inclusive('\n').map(mask_line).collect()
    }
}

/// A word stands between these characters.
fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"\"'`<>()[]{},;=:&?|\\".contains(c)
}

fn mask_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    // What the last word means for the next one.
    let mut next_is_secret = false;
    while !rest.is_empty() {
        let gap = rest.find(is_word).unwrap_or(rest.len());
        let (between, from_word) = rest.split_at(gap);
        out.push_str(between);
        if let Some(after) = url_secret(between, from_word) {
            out.push_str("//");
            out.push_str(MASKED);
            rest = after;
            next_is_secret = false;
            continue;
        }
        let (word, after) = from_word.split_at(from_word.find(|c| !is_word(c)).unwrap_or(from_word.len()));
        rest = after;
        if word.is_empty() {
            continue;
        }
        let scheme = SCHEMES.contains(&word.to_ascii_lowercase().as_str());
        if next_is_secret && scheme && after.starts_with(' ') {
            // `Authorization: Bearer x`: the secret is the next word.
            out.push_str(word);
            continue;
        }
        let masked = next_is_secret || has_secret_beginning(word);
        out.push_str(if masked { MASKED } else { word });
        next_is_secret = !masked && (scheme && after.starts_with(' ') || names_a_secret(word, after));
    }
    out
}

/// Whether `word` is a name that looks secret, followed by its value.
fn names_a_secret(word: &str, after: &str) -> bool {
    let assigned = after.trim_start_matches(['"', '\'']).trim_start().starts_with(['=', ':']);
    let flag = word.starts_with("--") && after.starts_with(' ');
    (assigned || flag) && looks_secret(word)
}

fn has_secret_beginning(word: &str) -> bool {
    // The secret may follow other text without a gap: `?key/sk-...`.
    let starts =
        word.char_indices().filter(|(at, _)| *at == 0 || word[..*at].ends_with(['/', '.', '@', '#', '%']));
    starts.map(|(at, _)| &word[at..]).any(|piece| {
        PREFIXES.iter().any(|prefix| piece.strip_prefix(prefix).is_some_and(|tail| tail.len() >= PREFIX_TAIL))
    })
}

/// After `://`: what follows `user:password@`, at its `@`.
fn url_secret<'a>(between: &str, from_word: &'a str) -> Option<&'a str> {
    // The slashes of `https://` are part of the word that follows the colon.
    let authority = from_word.strip_prefix("//").filter(|_| between.ends_with(':'))?;
    let end = authority
        .find(|c: char| c == '/' || c.is_whitespace() || "\"'<>".contains(c))
        .unwrap_or(authority.len());
    let at = authority[..end].rfind('@')?;
    Some(&authority[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        Masker::default().mask(text)
    }

    #[test]
    fn secrets_are_found_by_their_form() {
        assert_eq!(masked("key sk-ant-api03-abcdefgh is bad"), "key *** is bad");
        assert_eq!(masked("(ghp_0123456789abcdef)"), "(***)");
        assert_eq!(masked("Authorization: Bearer abc.def-1"), "Authorization: Bearer ***");
        assert_eq!(masked("got bearer xyz, sorry"), "got bearer ***, sorry");
        assert_eq!(masked("https://ada:hunter2@example.org/x y"), "https://***@example.org/x y");
        assert_eq!(masked("eyJhbGciOiJIUzI1NiJ9.e30.x"), "***");
    }

    #[test]
    fn secrets_are_found_by_their_names() {
        assert_eq!(masked("ANTHROPIC_API_KEY=abc HOME=/x"), "ANTHROPIC_API_KEY=*** HOME=/x");
        assert_eq!(masked(r#"{"accessToken": "abc", "n": 1}"#), r#"{"accessToken": "***", "n": 1}"#);
        assert_eq!(masked("--api-key abc --model x"), "--api-key *** --model x");
        assert_eq!(masked("password: hunter2"), "password: ***");
    }

    #[test]
    fn plain_words_stay() {
        for text in
            ["the key is wrong\n", "MAX_TOKENS=3000", "http://127.0.0.1:80/a?b=c", "sk- skating eyJ", "a:b@c"]
        {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn values_of_secret_variables_are_masked_wherever_they_stand() {
        let variables =
            [("MY_TOKEN", "correct-horse"), ("OTHER_KEY", "short"), ("HOME", "/home/ada-lovelace")]
                .map(|(name, value)| (name.into(), value.into()));
        let masker = Masker::new(&variables);
        assert_eq!(masker.mask("xcorrect-horsex short /home/ada-lovelace"), "x***x short /home/ada-lovelace");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text: String) {
            let _ = masked(&text);
        }
    }
}
