//! Tool calls, and work beside the conversation: subagents as a tree, background tasks.
//!
//! A subagent is named by the call that started it. The CLI has a second name for it, the task id, which it uses in the
//! subagent's requests. A foreground task is only a tool at work; a background task outlives its turn.

use std::collections::{HashMap, HashSet};

use portolan_core::{
    Event,
    event::{PlanStep, Task, TaskStatus, ToolOutcome, WorkDone},
    ports::Report,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    KIND,
    conversation::{result_content, tokens},
    tools,
    translate::Translate,
    wire::{Block, Usage},
};
use crate::driver::Output;

/// The tool that asks for approval of a plan.
pub(super) const PLAN: &str = "ExitPlanMode";

/// Running calls, subagents and tasks.
#[derive(Debug, Default)]
pub(super) struct Subagents {
    calls: HashMap<String, Call>,
    running: HashMap<String, Running>,
    /// The call behind each of the CLI's own names.
    agents: HashMap<String, String>,
    tasks: HashMap<String, KnownTask>,
    /// Calls that were not allowed.
    pub(super) denied: HashSet<String>,
    /// The list of steps that newer versions keep with their own tools.
    list: Vec<(String, PlanStep)>,
}

#[derive(Debug)]
struct Call {
    name: String,
    parent: Option<String>,
    /// The call asked to run in the background.
    background: bool,
    /// The plan to approve.
    plan: Option<String>,
}

/// A task, and whether the session knows it.
#[derive(Debug)]
struct KnownTask {
    task: Task,
    told: bool,
}

#[derive(Debug)]
struct Running {
    started: Event,
    background: bool,
    /// The model that it last used.
    model: Option<String>,
}

impl Subagents {
    pub(super) fn called(&mut self, tool: &str, name: &str, input: &Value, parent: Option<&str>) {
        let call = Call {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            background: input.get("run_in_background").and_then(Value::as_bool) == Some(true),
            plan: input.get("plan").and_then(Value::as_str).filter(|_| name == PLAN).map(str::to_owned),
        };
        self.calls.insert(tool.to_owned(), call);
    }

    /// The plan that this call asks to approve.
    pub(super) fn plan(&self, tool: Option<&str>) -> Option<String> {
        self.calls.get(tool?)?.plan.clone()
    }

    /// The subagent that made this call.
    pub(super) fn caller(&self, tool: Option<&str>, agent: Option<&str>) -> Option<String> {
        let by_call = tool.and_then(|tool| self.calls.get(tool)).and_then(|call| call.parent.clone());
        by_call.or_else(|| self.agents.get(agent?).cloned())
    }

    /// The CLI uses both names in one message.
    pub(super) fn met(&mut self, agent: &str, call: &str) {
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.to_owned(), call.to_owned());
        }
    }

    /// A subagent uses this model.
    pub(super) fn writes_with(&mut self, subagent: &str, model: &str) {
        if let Some(running) = self.running.get_mut(subagent) {
            running.model = Some(model.to_owned());
        }
    }

    pub(super) fn runs(&self, subagent: &str) -> bool {
        self.running.contains_key(subagent)
    }

    /// A call began a subagent, if it is such a call.
    pub(super) fn begun(
        &mut self,
        tool: &str,
        name: &str,
        input: &Value,
        parent: Option<&str>,
    ) -> Option<Report> {
        if !tools::is_subagent(name) {
            return None;
        }
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        let background = input.get("run_in_background").and_then(Value::as_bool) == Some(true);
        let started = Event::SubagentStarted {
            subagent: tool.to_owned(),
            parent: parent.map(str::to_owned),
            subagent_type: text("subagent_type"),
            description: text("description").unwrap_or_default(),
            prompt: text("prompt"),
            model: text("model"),
            background,
            team: text("team_name"),
        };
        self.running
            .insert(tool.to_owned(), Running { started: started.clone(), background, model: text("model") });
        Some(Report::Event { event: started, raw: None })
    }

    /// The turn goes on without the subagent. The call did not have to say so.
    fn sent_to_background(&mut self, subagent: &str) -> Option<Event> {
        let running = self.running.get_mut(subagent).filter(|running| !running.background)?;
        running.background = true;
        if let Event::SubagentStarted { background, .. } = &mut running.started {
            *background = true;
        }
        Some(running.started.clone())
    }

    fn is_background(&self, subagent: &str) -> bool {
        self.running.get(subagent).is_some_and(|running| running.background)
    }

    fn ended(
        &mut self,
        subagent: &str,
        outcome: ToolOutcome,
        summary: Option<String>,
        work: Option<WorkDone>,
    ) -> Option<Event> {
        self.running.remove(subagent)?;
        Some(Event::SubagentEnded { subagent: subagent.to_owned(), outcome, summary, work })
    }

    /// A turn has ended, and with it everything that was not in the background. Missing results will never come.
    pub(super) fn forget_finished(&mut self) {
        self.running.retain(|_, running| running.background);
        let running = &self.running;
        self.calls.retain(|_, call| call.parent.as_ref().is_some_and(|parent| running.contains_key(parent)));
        self.agents.retain(|_, call| running.contains_key(call));
        self.denied.clear();
    }
}

/// A message about a task. Its fields differ by message and by version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TaskMessage {
    task_id: String,
    tool_use_id: Option<String>,
    description: Option<String>,
    task_type: Option<String>,
    is_backgrounded: Option<bool>,
    status: Option<String>,
    summary: Option<String>,
    output_file: Option<String>,
    usage: Option<TaskUsage>,
    patch: TaskPatch,
    tasks: Vec<ListedTask>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TaskPatch {
    status: Option<String>,
    is_backgrounded: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListedTask {
    task_id: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct TaskUsage {
    total_tokens: u64,
    tool_uses: u64,
    duration_ms: u64,
}

impl From<TaskUsage> for WorkDone {
    fn from(usage: TaskUsage) -> Self {
        Self { tokens: usage.total_tokens, tool_uses: usage.tool_uses, duration_ms: usage.duration_ms }
    }
}

impl Translate {
    /// `system/task_*` and `system/background_tasks_changed`.
    pub(super) fn task(&mut self, subtype: &str, line: &str, out: &mut Output) {
        let Ok(message) = serde_json::from_str::<TaskMessage>(line) else {
            return out.unknown(KIND, &format!("system/{subtype}"), line);
        };
        if let (Some(tool), false) = (&message.tool_use_id, message.task_id.is_empty())
            && self.subagents.runs(tool)
        {
            self.subagents.met(&message.task_id, tool);
        }
        match subtype {
            "task_started" => self.task_started(message, out),
            "task_progress" => self.task_progress(message, out),
            "task_updated" => {
                if message.patch.is_backgrounded == Some(true) {
                    self.task_in_background(&message.task_id, out);
                }
                // The end is reported again with more data, but not by every version and way of ending.
                if let (Some(status), Some(known)) =
                    (message.patch.status, self.subagents.tasks.get_mut(&message.task_id))
                {
                    known.task.status = task_status(&status);
                }
            }
            "task_notification" => self.task_ended(message, out),
            _ => self.tasks_listed(&message.tasks, out),
        }
    }

    fn task_started(&mut self, message: TaskMessage, out: &mut Output) {
        let tool = message.tool_use_id;
        // Older versions do not say; the call does.
        let asked_for = |tool: &String| self.subagents.calls.get(tool).is_some_and(|call| call.background);
        let background = message.is_backgrounded.unwrap_or_else(|| tool.as_ref().is_some_and(asked_for));
        let task = Task {
            task: message.task_id.clone(),
            tool,
            task_type: message.task_type,
            description: message.description,
            ..Task::default()
        };
        self.subagents.tasks.insert(message.task_id.clone(), KnownTask { task, told: false });
        if background {
            self.task_in_background(&message.task_id, out);
        }
    }

    /// A task is in the background from now on.
    fn task_in_background(&mut self, task: &str, out: &mut Output) {
        let Some(known) = self.subagents.tasks.get_mut(task).filter(|known| !known.told) else { return };
        known.told = true;
        let task = known.task.clone();
        let started = task.tool.as_ref().and_then(|tool| self.subagents.sent_to_background(tool));
        if let Some(started) = started {
            out.event(started);
        }
        out.event(Event::TaskChanged { task: Box::new(task) });
    }

    fn task_progress(&mut self, message: TaskMessage, out: &mut Output) {
        let work = message.usage.map(WorkDone::from);
        let Some(known) = self.subagents.tasks.get_mut(&message.task_id) else { return };
        known.task.work = work.or(known.task.work);
        let Some(tool) = known.task.tool.clone() else { return };
        let elapsed_seconds = work.map(|work| work.duration_ms as f64 / 1000.0);
        let (name, parent) = match self.subagents.calls.get(&tool) {
            Some(call) => (call.name.clone(), call.parent.clone()),
            None => ("Agent".into(), None),
        };
        out.event(Event::ToolProgress { tool, name, parent, elapsed_seconds });
    }

    fn task_ended(&mut self, message: TaskMessage, out: &mut Output) {
        let known = self.subagents.tasks.remove(&message.task_id).map(|known| known.task).unwrap_or_default();
        let tool = message.tool_use_id.or(known.tool);
        // In the foreground, the tool's own result reports it.
        let in_foreground = tool.as_ref().is_some_and(|tool| {
            self.subagents.calls.contains_key(tool) && !self.subagents.is_background(tool)
        });
        if in_foreground {
            return;
        }
        let task = Task {
            task: message.task_id,
            tool,
            task_type: known.task_type,
            description: known.description,
            status: task_status(message.status.as_deref().unwrap_or_default()),
            summary: message.summary,
            output_file: message.output_file.filter(|path| !path.is_empty()),
            work: message.usage.map(WorkDone::from).or(known.work),
        };
        self.task_over(task, out);
    }

    fn task_over(&mut self, task: Task, out: &mut Output) {
        let ended = task.tool.as_ref().and_then(|tool| {
            self.subagents.ended(tool, task_outcome(task.status), task.summary.clone(), task.work)
        });
        if let Some(ended) = ended {
            out.event(ended);
        }
        out.event(Event::TaskChanged { task: Box::new(task) });
    }

    /// All tasks that are in the background now: a task that is gone has ended, even if its end was not reported.
    fn tasks_listed(&mut self, listed: &[ListedTask], out: &mut Output) {
        let is_listed = |task: &str| listed.iter().any(|listed| listed.task_id == task);
        let known = self.subagents.tasks.values();
        let gone: Vec<_> =
            known.filter(|it| it.told && !is_listed(&it.task.task)).map(|it| it.task.task.clone()).collect();
        for name in gone {
            if let Some(KnownTask { mut task, .. }) = self.subagents.tasks.remove(&name) {
                if task.status == TaskStatus::Running {
                    task.status = TaskStatus::Completed;
                }
                self.task_over(task, out);
            }
        }
        for task in listed {
            self.task_in_background(&task.task_id, out);
        }
    }

    // -------------------------------------------------------------------------- results of tools

    pub(super) fn tool_result(
        &mut self,
        block: Block,
        parent: Option<String>,
        structured: &Value,
        meta: &Value,
        out: &mut Output,
    ) {
        let tool = block.tool_use_id.unwrap_or_default();
        let failed = block.is_error == Some(true);
        let outcome = if failed { self.why_failed(&tool, meta) } else { ToolOutcome::Done };
        let call = self.subagents.calls.remove(&tool);
        let content = result_content(block.content.unwrap_or_default());
        let changes = if failed { vec![] } else { tools::changes_made(structured) };
        let launched = structured.get("isAsync").and_then(Value::as_bool) == Some(true)
            || structured.get("status").and_then(Value::as_str) == Some("async_launched");
        if launched && let Some(started) = self.subagents.sent_to_background(&tool) {
            out.event(started);
        }
        let written_with = self.subagents.running.get(&tool).and_then(|running| running.model.clone());
        let ended = if self.subagents.is_background(&tool) && !failed {
            None
        } else {
            let done: SubagentResult = serde_json::from_value(structured.clone()).unwrap_or_default();
            self.subagents.ended(&tool, outcome, done.summary(), done.work()).map(|ended| (ended, done))
        };
        if let Some((ended, done)) = ended {
            if let Some(usage) = done.usage {
                let (model, context_window) = (done.resolved_model.or(written_with), None);
                out.event(Event::Usage {
                    usage: tokens(usage),
                    model,
                    parent: Some(tool.clone()),
                    context_window,
                    context_only: false,
                });
            }
            out.event(ended);
        }
        out.event(Event::ToolResult { tool, parent: parent.clone(), outcome, content, changes });
        if let Some(call) = call.filter(|_| !failed)
            && self.subagents.keeps_list(&call.name, structured)
        {
            let steps = self.subagents.list.iter().map(|(_, step)| step.clone()).collect();
            out.event(Event::Plan { steps, parent });
        }
    }

    fn why_failed(&self, tool: &str, meta: &Value) -> ToolOutcome {
        if self.turn.as_ref().is_some_and(|turn| turn.interrupted) {
            return ToolOutcome::Interrupted;
        }
        let told = meta.as_array().into_iter().flatten().find(|entry| entry["id"] == tool);
        let rejected = told.is_some_and(|entry| {
            entry["permission_decision"]["decision"] == "reject"
                || entry["non_execution_kind"] == "user-rejected"
        });
        if rejected || self.subagents.denied.contains(tool) {
            ToolOutcome::Denied
        } else {
            ToolOutcome::Failed
        }
    }
}

impl Subagents {
    /// `TaskCreate` and `TaskUpdate` keep a list of steps one by one. Returns whether this call changed it.
    fn keeps_list(&mut self, name: &str, structured: &Value) -> bool {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match name {
            "TaskCreate" => {
                let (Some(id), Some(subject)) =
                    (text(&structured["task"]["id"]), text(&structured["task"]["subject"]))
                else {
                    return false;
                };
                self.list.push((id, PlanStep { text: subject, status: "pending".into() }));
                true
            }
            "TaskUpdate" => {
                let Some(id) = text(&structured["taskId"]) else { return false };
                let Some(status) = text(&structured["statusChange"]["to"]) else { return false };
                if status == "deleted" {
                    self.list.retain(|(known, _)| *known != id);
                } else if let Some((_, step)) = self.list.iter_mut().find(|(known, _)| *known == id) {
                    step.status = status;
                }
                true
            }
            _ => false,
        }
    }
}

/// The structured result of a subagent's call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SubagentResult {
    content: Value,
    resolved_model: Option<String>,
    total_duration_ms: Option<u64>,
    total_tokens: Option<u64>,
    total_tool_use_count: Option<u64>,
    usage: Option<Usage>,
}

impl SubagentResult {
    fn work(&self) -> Option<WorkDone> {
        Some(WorkDone {
            tokens: self.total_tokens?,
            tool_uses: self.total_tool_use_count.unwrap_or(0),
            duration_ms: self.total_duration_ms.unwrap_or(0),
        })
    }

    /// Its last text: the blocks before are the CLI's notes to the model.
    fn summary(&self) -> Option<String> {
        let last = self.content.as_array()?.last()?;
        last["text"].as_str().map(str::to_owned)
    }
}

fn task_status(word: &str) -> TaskStatus {
    match word {
        "completed" => TaskStatus::Completed,
        "failed" => TaskStatus::Failed,
        "killed" | "stopped" | "cancelled" => TaskStatus::Stopped,
        _ => TaskStatus::Running,
    }
}

fn task_outcome(status: TaskStatus) -> ToolOutcome {
    match status {
        TaskStatus::Running | TaskStatus::Completed => ToolOutcome::Done,
        TaskStatus::Failed => ToolOutcome::Failed,
        TaskStatus::Stopped => ToolOutcome::Interrupted,
    }
}
