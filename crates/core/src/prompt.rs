//! The rules for a prompt's content: one check for commands, new sessions and every frontend. Pure.

use crate::{Refusal, RefusalCode, event::Content};

/// Refuses content that no agent can take, and content without anything visible.
pub(crate) fn check(content: &[Content]) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(RefusalCode::Invalid, why));
    let mut says_something = false;
    for piece in content {
        says_something |= match piece {
            Content::Text { text } => is_visible(text),
            Content::Image { media_type, data } => {
                if !is_image(media_type) {
                    let shown: String = media_type.chars().filter(|c| !c.is_control()).take(64).collect();
                    return refuse(format!("an image needs a type such as `image/png`, not `{shown}`"));
                }
                if !is_base64(data) {
                    return refuse("the `data` of an image must be padded base64 without line ends".into());
                }
                true
            }
            Content::Resource { uri, text, .. } => {
                is_visible(uri) || text.as_ref().is_some_and(|text| is_visible(text))
            }
            Content::Thinking { .. } => return refuse(not_for_prompts("thinking")),
            Content::RedactedThinking => return refuse(not_for_prompts("redacted_thinking")),
            Content::Data { .. } => return refuse(not_for_prompts("data")),
            Content::Other { .. } => return refuse(not_for_prompts("other")),
        };
    }
    if says_something { Ok(()) } else { refuse("a prompt needs text, an image or a resource".into()) }
}

/// Does the text hold anything visible? The schemas express the same rule as a pattern.
fn is_visible(text: &str) -> bool {
    let unseen = |c: char| {
        // Characters without a width or a mark: joiners, direction marks, fillers, the Braille blank.
        let unmarked = matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        );
        c.is_whitespace() || c.is_control() || unmarked
    };
    !text.chars().all(unseen)
}

fn not_for_prompts(kind: &str) -> String {
    format!("a prompt may hold `text`, `image` and `resource`, not `{kind}`")
}

/// A media type of an image, without parameters.
fn is_image(media_type: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
    media_type.strip_prefix("image/").is_some_and(|kind| !kind.is_empty() && kind.bytes().all(plain))
}

/// Padded Base64 in the standard alphabet, of at least one byte.
fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    let padding = data.len() - body.len();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    !body.is_empty() && padding <= 2 && data.len().is_multiple_of(4) && body.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(content: serde_json::Value) -> Result<(), String> {
        let content: Vec<Content> = serde_json::from_value(content).unwrap();
        check(&content).map_err(|refusal| {
            assert_eq!(refusal.code, RefusalCode::Invalid);
            refusal.message
        })
    }

    #[test]
    fn a_prompt_holds_only_known_content_and_something_visible() {
        let image =
            |media_type: &str, data: &str| json!([{"type": "image", "media_type": media_type, "data": data}]);
        for good in [
            json!([{"type": "text", "text": "hello"}]),
            json!([{"type": "text", "text": " "}, {"type": "text", "text": "x"}]),
            json!([{"type": "text", "text": "👍🏽"}]),
            image("image/png", "iVBORw0KGgo="),
            image("image/svg+xml", "AA=="),
            json!([{"type": "resource", "uri": "file:///a.txt"}]),
            json!([{"type": "resource", "uri": "", "text": "told"}]),
        ] {
            assert_eq!(judged(good.clone()), Ok(()), "{good}");
        }
        let words = json!({"type": "text", "text": "hello"});
        for (bad, why) in [
            (json!([]), "a prompt needs text"),
            (json!([{"type": "text", "text": ""}]), "a prompt needs text"),
            (json!([{"type": "text", "text": " \n\t\u{a0}"}]), "a prompt needs text"),
            (json!([{"type": "text", "text": "\u{200b}\u{feff}\u{2800}\u{0}\u{1b}"}]), "a prompt needs text"),
            (json!([{"type": "resource", "uri": " "}]), "a prompt needs text"),
            (json!([{"type": "thinking", "text": "hm"}]), "`thinking`"),
            (json!([words, {"type": "thinking", "text": "hm"}]), "`thinking`"),
            (json!([{"type": "redacted_thinking"}]), "`redacted_thinking`"),
            (json!([{"type": "data", "data": {"a": 1}}]), "`data`"),
            (json!([words, {"type": "other", "body": {}}]), "`other`"),
            (image("text/html", "AAAA"), "`text/html`"),
            (image("image/", "AAAA"), "`image/`"),
            (image("image/png; a=\"\u{1b}", "AAAA"), "a type such as"),
            (image("image/png", ""), "base64"),
            (image("image/png", "===="), "base64"),
            (image("image/png", "AAA"), "base64"),
            (image("image/png", "A==="), "base64"),
            (image("image/png", "AA\nA"), "base64"),
            (image("image/png", "AA-_"), "base64"),
            (image("image/png", "not base64 at all"), "base64"),
        ] {
            let told = judged(bad.clone()).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
    }
}
