//! The offer of a page as tools of an MCP server: checked, with names that every agent accepts, and limited. Pure: no
//! agent, no clock, no socket.

use std::{collections::HashMap, sync::Arc};

use rmcp::model::{MetaObject, Tool};
use serde_json::{Map, Value, json};

use super::Limits;
use portolan_host::door::json_depth_exceeds;

/// The longest name of a tool for the agent, without the agent's prefix. Together they stay within the 64 characters
/// that model APIs accept.
const NAME: usize = 64 - super::PREFIX.len();

/// The deepest schema. Pages describe forms, not trees.
const SCHEMA_DEPTH: usize = 32;

/// Up to this many tools, the agent shows all tools to its model. With more, it may let the model search.
const SHOWN_AT_ONCE: usize = 32;

/// An action of a page, from a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PageTool {
    /// The page's own name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments; null if the page sends none.
    pub parameters: Value,
}

/// A tool that the agent gets.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// Its whole name for the agent.
    pub name: String,
    /// The page's description.
    pub page: PageTool,
}

/// A tool that is not offered, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The page's name, cut if it is very long.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// The current offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offer {
    pub(super) tools: Vec<Tool>,
    /// The page's names, by the agent's.
    names: HashMap<String, String>,
}

impl Offer {
    /// Takes the valid tools; returns the rest with reasons.
    pub(super) fn of(page: Vec<PageTool>, limits: &Limits) -> (Self, Vec<LeftOut>) {
        let (mut offer, mut left_out) = (Self::default(), Vec::new());
        let mut bytes = 0;
        let always = page.len() <= SHOWN_AT_ONCE;
        for tool in page {
            let size = tool.name.len() + tool.description.len() + tool.parameters.to_string().len();
            let name = agent_name(&tool.name);
            let checked = match arguments(tool.parameters) {
                _ if offer.tools.len() >= limits.tools => {
                    Err(format!("a page can offer at most {} tools", limits.tools))
                }
                _ if bytes + size > limits.offer_bytes => {
                    Err(format!("a page's tools together have at most {} KiB", limits.offer_bytes / 1024))
                }
                _ if name.is_empty() => Err("it has no name".to_owned()),
                _ if offer.names.contains_key(&name) => Err(format!("another tool has the name `{name}`")),
                checked => checked,
            };
            match checked {
                Ok(schema) => {
                    bytes += size;
                    let mut made = Tool::new(name.clone(), tool.description, Arc::new(schema));
                    if always {
                        let meta = json!({ "anthropic/alwaysLoad": true });
                        made.meta = meta.as_object().cloned().map(MetaObject);
                    }
                    offer.names.insert(name, tool.name);
                    offer.tools.push(made);
                }
                Err(why) => left_out.push(LeftOut { name: tool.name.chars().take(NAME).collect(), why }),
            }
        }
        (offer, left_out)
    }

    /// The tools that the agent gets.
    pub(super) fn told(&self) -> Vec<OfferedTool> {
        let told = |tool: &Tool| OfferedTool {
            name: format!("{}{}", super::PREFIX, tool.name),
            page: PageTool {
                name: self.names.get(tool.name.as_ref()).cloned().unwrap_or_default(),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                parameters: Value::Object((*tool.input_schema).clone()),
            },
        };
        self.tools.iter().map(told).collect()
    }

    /// Is there a tool with this name for the agent?
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Is there a tool with this name for the page?
    pub(super) fn has_page_name(&self, name: &str) -> bool {
        self.names.values().any(|known| known == name)
    }

    /// The page's name of the tool with this name for the agent.
    pub(super) fn page_name(&self, name: &str) -> Option<&String> {
        self.names.get(name)
    }
}

/// A name that agents and model APIs accept.
fn agent_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    name.chars().map(plain).take(NAME).collect()
}

/// The schema of the arguments, as MCP requires it: for an object.
fn arguments(parameters: Value) -> Result<Map<String, Value>, String> {
    let none =
        || Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))]);
    let mut schema = match parameters {
        Value::Null => return Ok(none()),
        Value::Object(schema) if schema.is_empty() => return Ok(none()),
        Value::Object(schema) => schema,
        _ => return Err("its parameters are not a JSON Schema".to_owned()),
    };
    if json_depth_exceeds(Value::Object(schema.clone()).to_string().as_bytes(), SCHEMA_DEPTH) {
        return Err(format!("its parameters are deeper than {SCHEMA_DEPTH} levels"));
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => Ok(schema),
        None => {
            schema.insert("type".to_owned(), json!("object"));
            Ok(schema)
        }
        Some(_) => Err("its parameters are not an object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: Value) -> PageTool {
        PageTool { name: name.into(), description: format!("does {name}"), parameters }
    }

    fn offered(tools: Vec<PageTool>) -> (Value, Vec<(String, String)>) {
        let (offer, left_out) = Offer::of(tools, &Limits::default());
        let tools = serde_json::to_value(&offer.tools).unwrap();
        (tools, left_out.into_iter().map(|left| (left.name, left.why)).collect())
    }

    // covers: 004-020
    #[test]
    fn an_action_of_the_page_is_a_tool_with_its_schema() {
        let schema =
            json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let (tools, left_out) = offered(vec![tool("addTask", schema.clone()), tool("clear", Value::Null)]);
        let always = json!({ "anthropic/alwaysLoad": true });
        let expected = json!([
            { "name": "addTask", "description": "does addTask", "inputSchema": schema, "_meta": always },
            { "name": "clear", "description": "does clear", "_meta": always,
              "inputSchema": { "type": "object", "properties": {} } },
        ]);
        assert_eq!((tools, left_out), (expected, vec![]));
    }

    #[test]
    fn a_name_that_agents_would_not_take_is_changed_and_found_back() {
        let long = "x".repeat(200);
        let (offer, left_out) = Offer::of(
            vec![tool("aufgabe hinzufügen", Value::Null), tool(&long, Value::Null)],
            &Limits::default(),
        );
        assert_eq!(left_out, []);
        let names: Vec<_> = offer.tools.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["aufgabe_hinzuf_gen".to_owned(), "x".repeat(NAME)]);
        assert_eq!(offer.page_name("aufgabe_hinzuf_gen").unwrap(), "aufgabe hinzufügen");
        assert_eq!(offer.page_name(&names[1]), Some(&long));
    }

    #[test]
    fn what_cannot_be_offered_is_left_out_with_its_reason_and_the_rest_stays() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..SCHEMA_DEPTH {
            deep = json!({ "type": "object", "properties": { "x": deep } });
        }
        let (tools, left_out) = offered(vec![
            tool("", Value::Null),
            tool("a b", Value::Null),
            tool("a_b", Value::Null),
            tool("list", json!({ "type": "array" })),
            tool("text", json!("text")),
            tool("deep", deep),
            tool("last", json!({ "properties": {} })),
        ]);
        let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["a_b", "last"]);
        let expected = [
            ("", "it has no name"),
            ("a_b", "another tool has the name `a_b`"),
            ("list", "its parameters are not an object"),
            ("text", "its parameters are not a JSON Schema"),
            ("deep", "its parameters are deeper than 32 levels"),
        ];
        assert_eq!(left_out, expected.map(|(name, why)| (name.to_owned(), why.to_owned())));
    }

    #[test]
    fn too_many_tools_and_too_much_text_are_left_out() {
        let limits = Limits { tools: 3, offer_bytes: 1024, ..Limits::default() };
        let big = PageTool { description: "x".repeat(2000), ..tool("big", Value::Null) };
        let small = (0..5).map(|n| tool(&format!("t{n}"), Value::Null));
        let (offer, left_out) = Offer::of(std::iter::once(big).chain(small).collect(), &limits);
        assert_eq!(offer.tools.len(), 3);
        let why: Vec<_> = left_out.iter().map(|left| (left.name.as_str(), left.why.as_str())).collect();
        let many = "a page can offer at most 3 tools";
        assert_eq!(why, [("big", "a page's tools together have at most 1 KiB"), ("t3", many), ("t4", many)]);
    }
}
