//! Which scene a prompt asks for. Matched by plain words.

use portolan_core::event::Content;

use super::stage::Background;

/// A scene that can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scene {
    Tour,
    /// Says exactly this.
    Say(String),
    /// A number of pieces of a size, at a rate or as fast as possible.
    Repeat {
        count: u64,
        size: usize,
        per_second: Option<u64>,
    },
    /// A number of words of Markdown, at a rate or as fast as possible.
    Recite {
        count: u64,
        per_second: Option<u64>,
    },
    /// A number of messages at once.
    Long(u32),
    Slow,
    Talk,
    Think,
    Tool,
    /// Looks for names in the folder.
    Search,
    Edit,
    Two,
    Subagents,
    Question,
    Plan,
    Todo,
    Retry,
    Error,
    Usage,
    Background,
    Elicit,
    Signals,
    Structured,
    Image,
    Help,
    Compact(String),
    Clear,
    Cost,
    UnknownCommand(String),
    Hang,
    Crash,
    Flood(u64),
    FloodLines(u64),
    Garbage,
    IgnoreTerm,
    Orphans,
    Leave(u8),
    /// Calls a tool of a page.
    Page(String),
    /// An unknown prompt.
    Echo(String),
    /// A background task has ended.
    TaskDone(Background),
}

/// A scene by the words that ask for it: any of them, anywhere in the prompt.
const WORDS: &[(&[&str], Scene)] = &[
    (&["think", "thinking", "ponder"], Scene::Think),
    (&["two", "both"], Scene::Two),
    (&["subagent", "subagents", "agents", "team"], Scene::Subagents),
    (&["tool", "ls", "list", "files", "bash"], Scene::Tool),
    (&["edit", "diff", "change"], Scene::Edit),
    (&["question", "questions", "choose", "choices"], Scene::Question),
    (&["plan"], Scene::Plan),
    (&["todo", "steps"], Scene::Todo),
    (&["retry"], Scene::Retry),
    (&["error", "fail", "failure"], Scene::Error),
    (&["usage", "tokens"], Scene::Usage),
    (&["background", "task"], Scene::Background),
    (&["elicit", "form"], Scene::Elicit),
    (&["signals", "hook", "hooks", "notice"], Scene::Signals),
    (&["json", "structured"], Scene::Structured),
    (&["search"], Scene::Search),
    (&["hello", "hi", "hey", "talk", "stream"], Scene::Talk),
];

/// The highest number that a prompt may ask for, so that a typing error is not a flood.
const MOST: u64 = 100_000_000;

/// The scene that a prompt asks for.
pub(super) fn scene(prompt: &str, content: &[Content]) -> Scene {
    if content.iter().any(|piece| matches!(piece, Content::Image { .. })) {
        return Scene::Image;
    }
    let prompt = prompt.trim();
    if let Some(exactly) = prompt.strip_prefix("say ") {
        return Scene::Say(exactly.into());
    }
    let lower = prompt.to_lowercase();
    if let Some(command) = lower.strip_prefix('/') {
        return slash(command);
    }
    if lower.contains("everything") || lower.contains("tour") {
        return Scene::Tour;
    }
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty()).collect();
    let number =
        |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok()).map(|it| it.min(MOST));
    // Misbehaviour must be the first word of the prompt: "do not crash" does not crash.
    match words.first().copied().unwrap_or_default() {
        "repeat" => {
            let (count, size) = (number(1).unwrap_or(100), number(2).unwrap_or(20) as usize);
            return Scene::Repeat {
                count,
                size: size.clamp(1, 1024 * 1024),
                per_second: number(3).filter(|it| *it > 0),
            };
        }
        "recite" => {
            return Scene::Recite {
                count: number(1).unwrap_or(100),
                per_second: number(2).filter(|it| *it > 0),
            };
        }
        "long" => return Scene::Long(number(1).unwrap_or(100).min(1_000_000) as u32),
        "slow" => return Scene::Slow,
        "hang" => return Scene::Hang,
        "crash" => return Scene::Crash,
        "flood" => return Scene::Flood(number(1).unwrap_or(20)),
        "flood-lines" => return Scene::FloodLines(number(1).unwrap_or(10_000)),
        "garbage" => return Scene::Garbage,
        "ignore-term" => return Scene::IgnoreTerm,
        "orphans" => return Scene::Orphans,
        "exit" => return Scene::Leave(number(1).unwrap_or(0).min(255) as u8),
        _ => {}
    }
    if words.contains(&"page") {
        return Scene::Page(prompt.into());
    }
    let asked = |(any, _): &&(&[&str], Scene)| words.iter().any(|word| any.contains(word));
    WORDS.iter().find(asked).map_or_else(|| Scene::Echo(prompt.into()), |(_, scene)| scene.clone())
}

fn slash(command: &str) -> Scene {
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match name {
        "help" => Scene::Help,
        "compact" => Scene::Compact(rest.trim().into()),
        "clear" => Scene::Clear,
        "cost" => Scene::Cost,
        _ => Scene::UnknownCommand(name.into()),
    }
}

/// Whether the prompt asks for speed.
pub(super) fn hurried(content: &[Content]) -> bool {
    let text = portolan_core::event::plain_text(content).to_lowercase();
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "fast")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prompt: &str) -> Scene {
        scene(prompt, &[])
    }

    #[test]
    fn scenes_are_asked_for_by_plain_words() {
        assert_eq!(of("Show me everything!"), Scene::Tour);
        assert_eq!(of("use a tool, please"), Scene::Tool);
        assert_eq!(of("say  exactly this"), Scene::Say(" exactly this".into()));
        assert_eq!(of("/compact the ports"), Scene::Compact("the ports".into()));
        assert_eq!(of("/what"), Scene::UnknownCommand("what".into()));
        assert_eq!(of("repeat 10 5 1000"), Scene::Repeat { count: 10, size: 5, per_second: Some(1000) });
        assert_eq!(of("recite 10 1000"), Scene::Recite { count: 10, per_second: Some(1000) });
        assert_eq!(of("Use a tool of the page"), Scene::Page("Use a tool of the page".into()));
        assert_eq!(of("what is the weather"), Scene::Echo("what is the weather".into()));
    }

    #[test]
    fn misbehaviour_must_be_asked_for_by_its_first_word() {
        assert_eq!(of("crash"), Scene::Crash);
        assert_eq!(of("please do not crash"), Scene::Echo("please do not crash".into()));
        assert_eq!(of("flood 99999999999999"), Scene::Flood(MOST));
    }

    #[test]
    fn a_picture_is_looked_at_whatever_the_words() {
        let picture = Content::Image { media_type: "image/png".into(), data: String::new() };
        assert_eq!(scene("crash", &[picture]), Scene::Image);
    }
}
