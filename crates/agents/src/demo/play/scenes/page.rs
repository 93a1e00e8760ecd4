//! The scene with a tool of a page: the agent calls a tool that an app offers, and shows the result.

use portolan_core::event::{Content, ToolKind, ToolOutcome};
use serde_json::Value;

use super::{
    super::{
        mcp::{Called, Server, Tool},
        permit::Verdict,
        stage::{Played, Stage},
    },
    structured,
};

/// Whether the prompt names a tool of a server.
pub(super) fn is_named(stage: &Stage, prompt: &str) -> bool {
    let words = words(prompt);
    tools(stage).iter().any(|(_, _, tool)| words.iter().any(|word| word.eq_ignore_ascii_case(&tool.name)))
}

/// Calls the tool that the prompt names, or the first tool.
pub(super) async fn play(stage: &Stage, prompt: &str) -> Played {
    let words = words(prompt);
    let mut tools = tools(stage);
    let named =
        tools.iter().position(|(_, _, tool)| words.iter().any(|word| word.eq_ignore_ascii_case(&tool.name)));
    if tools.is_empty() {
        return stage
            .say("No page offers me a tool at the moment. An app with actions offers them with its next message.")
            .await;
    }
    let (name, server, tool) = tools.swap_remove(named.unwrap_or(0));
    let input = arguments(prompt, &words, &tool);
    stage.say(&format!("There is a tool `{}`, so I call it.", tool.name)).await?;
    let full = format!("mcp__{name}__{}", tool.name);
    let call = stage.call(None, &full, ToolKind::Other, &tool.name, &input, &[]).await;
    let input = match stage.permit(&call, &full, ToolKind::Other, input, &tool.description, vec![]).await {
        Verdict::Allowed(input) => input,
        Verdict::Denied(why) => {
            stage.result(&call, ToolOutcome::Denied, vec![Content::text(why)], vec![]);
            return stage.say("Understood: the tool was not called.").await;
        }
    };
    stage.flush();
    let (outcome, text, said) = match server.call(&tool.name, &input, &call).await {
        Called::Done(text) => (ToolOutcome::Done, text.clone(), format!("The page says: {text}")),
        Called::Failed(why) => (ToolOutcome::Failed, why.clone(), format!("That did not work: {why}")),
    };
    stage.result(&call, outcome, vec![Content::text(text)], vec![]);
    stage.say(&said).await
}

/// Every tool of every server that really exists.
fn tools(stage: &Stage) -> Vec<(String, Server, Tool)> {
    let servers = stage.with(|inner| inner.reached.clone());
    let all = servers.into_iter().flat_map(|(name, server)| {
        let tools = server.tools();
        tools.into_iter().map(move |tool| (name.clone(), server.clone(), tool))
    });
    all.collect()
}

fn words(prompt: &str) -> Vec<&str> {
    prompt
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .filter(|word| !word.is_empty())
        .collect()
}

/// The object in the prompt; otherwise the simplest object that fits, whose texts are the prompt's last word.
fn arguments(prompt: &str, words: &[&str], tool: &Tool) -> Value {
    let given = prompt.find('{').zip(prompt.rfind('}')).and_then(|(first, last)| prompt.get(first..=last));
    if let Some(Ok(given @ Value::Object(_))) = given.map(serde_json::from_str) {
        return given;
    }
    let mut input = structured::example(&tool.schema).unwrap_or_else(|| serde_json::json!({}));
    let last = words.last().filter(|last| !last.eq_ignore_ascii_case(&tool.name));
    if let (Some(last), Some(fields)) = (last, input.as_object_mut()) {
        let free = |name: &str| {
            let field = &tool.schema["properties"][name];
            field["type"] == "string" && field.get("enum").is_none() && field.get("const").is_none()
        };
        for (_, value) in fields.iter_mut().filter(|(name, _)| free(name)) {
            *value = Value::from(*last);
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_come_from_the_prompt_or_are_the_simplest_that_fit() {
        let schema = json!({"type": "object", "properties": {
            "color": {"type": "string"}, "side": {"enum": ["left", "right"]}, "count": {"type": "integer"}}});
        let tool = Tool { name: "setColor".into(), description: String::new(), schema };
        let of = |prompt: &str| arguments(prompt, &words(prompt), &tool);
        assert_eq!(of("paint the page teal"), json!({"color": "teal", "side": "left", "count": 1}));
        assert_eq!(of("setColor"), json!({"color": "portolan", "side": "left", "count": 1}));
        assert_eq!(of("setColor {\"color\": \"red\"} now"), json!({"color": "red"}));
        assert_eq!(of("setColor {no json}")["color"], "json");
    }
}
