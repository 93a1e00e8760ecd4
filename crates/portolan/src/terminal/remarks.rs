//! Entries that become one or two lines: turns, plans, settings, notices, errors.

use portolan_core::{
    Event, Millis, RequestId,
    command::Stage,
    event::{
        ErrorInfo, Exit, HookStatus, Level, PlanStep, Setting, Task, TaskStatus, ToolOutcome, TurnOutcome,
        TurnResult, WorkDone,
    },
    policy::{BudgetTerms, budget::Level as Spent},
};

use super::{
    clean, status,
    style::{Line, Style},
    tools,
};
use crate::home::rfc3339;

fn outcome_word(outcome: ToolOutcome) -> &'static str {
    use ToolOutcome as O;
    match outcome {
        O::Done => "done",
        O::Failed => "failed",
        O::Denied => "denied",
        O::Interrupted => "interrupted",
    }
}

/// How a subagent ended.
pub(super) fn subagent_ended(outcome: ToolOutcome, summary: Option<&str>, work: Option<&WorkDone>) -> Line {
    let mut words = format!("◇ {}", outcome_word(outcome));
    if let Some(work) = work {
        let calls = tools::count(work.tool_uses as usize, "call");
        words = format!("{words} · {calls} · {} tokens", work.tokens);
    }
    let said = summary.map(|summary| format!(" · {}", clean::line(summary))).unwrap_or_default();
    Line::new(Style::Accent, words).and(Style::Dim, said)
}

/// A step of a plan.
pub(super) fn plan_step(step: &PlanStep) -> Line {
    let (mark, style) = match step.status.as_str() {
        "completed" => ("☑", Style::Dim),
        "in_progress" => ("▶", Style::Bold),
        _ => ("☐", Style::Plain),
    };
    Line::new(style, format!("{mark} {}", clean::line(&step.text)))
}

fn error_lines(error: &ErrorInfo) -> Vec<Line> {
    let mut lines = vec![Line::new(Style::Bad, format!("✗ {}", clean::line(&error.message)))];
    if let Some(way_out) = &error.way_out {
        lines.push(Line::new(Style::Warning, format!("  {}", clean::line(way_out))));
    }
    lines
}

/// How a turn ended.
pub(super) fn turn_ended(result: &TurnResult) -> Vec<Line> {
    let mut lines: Vec<Line> = result.error.iter().flat_map(error_lines).collect();
    if let Some(structured) = &result.structured {
        lines.push(Line::new(Style::Plain, clean::line(&structured.to_string())));
    }
    let word = match result.outcome {
        TurnOutcome::Completed => "done",
        TurnOutcome::Interrupted => "interrupted",
        TurnOutcome::Failed => "failed",
        TurnOutcome::MaxTurns => "stopped at the step limit",
        TurnOutcome::MaxBudget => "stopped at the cost limit",
        TurnOutcome::StructuredOutputFailed => "failed: the result did not match its schema",
    };
    let mut parts = vec![word.to_owned()];
    parts.extend(result.duration_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0)));
    parts.extend(result.usage.map(|usage| format!("{} tokens in, {} out", usage.context(), usage.output)));
    parts.extend(result.cost_usd.map(status::cost));
    lines.push(Line::new(Style::Dim, format!("── {}", parts.join(" · "))));
    lines
}

/// An agent that failed, with the last line that it wrote.
fn failed(exit: &Exit) -> Line {
    let last = exit.stderr.lines().last();
    let tail = last.map(|last| format!(" · {}", clean::line(last))).unwrap_or_default();
    Line::new(Style::Bad, format!("✗ the agent has ended: {}{tail}", clean::line(&exit.message)))
}

fn changed_task(task: &Task) -> String {
    let word = match task.status {
        TaskStatus::Running => "runs",
        TaskStatus::Completed => "done",
        TaskStatus::Failed => "failed",
        TaskStatus::Stopped => "stopped",
    };
    let what = task.summary.as_ref().or(task.description.as_ref()).unwrap_or(&task.task);
    format!("task {} {word}: {}", clean::line(&task.task), clean::line(what))
}

fn changed_setting(setting: &Setting) -> String {
    match setting {
        Setting::Model { model } => {
            format!("model {}", model.as_deref().map_or_else(|| "default".into(), clean::line))
        }
        Setting::Mode { mode } => format!("mode {}", clean::line(mode)),
        Setting::Thinking { tokens } => {
            let tokens = tokens.map_or_else(|| "default".to_owned(), |tokens| tokens.to_string());
            format!("thinking budget {tokens}")
        }
        Setting::Environment { names } => {
            format!("environment variables set: {}", clean::line(&names.join(", ")))
        }
    }
}

fn budget_words(budget: &BudgetTerms) -> String {
    let per = if budget.per.is_some() { " per day" } else { "" };
    format!("the budget of this session: {}{per}", budget.limits)
}

fn changed_deadline(request: Option<RequestId>, deadline: Option<Millis>, seconds: Option<u32>) -> String {
    match (request, deadline, seconds) {
        (Some(request), Some(at), _) => {
            format!("request {request} is denied at {} if nobody answers", rfc3339(at))
        }
        (Some(request), None, _) => format!("request {request} waits without a deadline"),
        (None, _, Some(seconds)) => {
            format!("from now on, a request that nobody answers within {seconds} s is denied")
        }
        (None, _, None) => "from now on, requests wait without a deadline".into(),
    }
}

/// One line for an entry that is not a text, a tool call or a request; `None` if the entry only changes the state.
pub(super) fn remark(event: &Event, by: Option<&str>) -> Option<Line> {
    let dim = |text: String| Some(Line::new(Style::Dim, format!("· {text}")));
    let warn = |text: String| Some(Line::new(Style::Warning, format!("! {text}")));
    let by = by.map(|by| format!(" by {}", clean::line(by))).unwrap_or_default();
    // Directly after `answers` or `denied`, the name would seem to be who answers or denies.
    let set_by = if by.is_empty() { String::new() } else { format!(" (set{by})") };
    match event {
        Event::SessionCreated { spec } => {
            dim(format!("{} in {}", clean::line(&spec.agent), clean::line(&spec.cwd.display().to_string())))
        }
        Event::Imported { entries, left_out, copy, .. } => {
            let copy = if *copy { "; the agent continues in a copy" } else { "" };
            let lost = if *left_out == 0 { String::new() } else { format!(", {left_out} left out") };
            dim(format!("everything above was imported{by} ({entries} entries{lost}){copy}"))
        }
        Event::SessionRenamed { name } => dim(format!("named {}{by}", clean::line(name))),
        Event::SessionArchived { archived: true } => dim(format!("archived{by}")),
        Event::SessionArchived { archived: false } => dim(format!("taken out of the archive{by}")),
        Event::AgentStarting { resume: Some(_), .. } => dim("the agent resumes where it left off".into()),
        Event::AgentStarting { resume: None, .. } => None,
        Event::AgentStarted { .. }
        | Event::AgentReady { .. }
        | Event::AgentInfo { .. }
        | Event::Activity { .. } => None,
        Event::LinkLost { reason } => {
            warn(format!("the connection to the agent was lost: {}", clean::line(reason)))
        }
        Event::LinkRestored => dim("the connection to the agent is restored".into()),
        Event::AgentExited { exit, .. } if exit.reason.is_error() => Some(failed(exit)),
        Event::AgentExited { exit, .. } => {
            dim(format!("the agent has ended: {}", clean::line(&exit.message)))
        }
        Event::TurnStarted { .. } | Event::ToolProgress { .. } | Event::Usage { .. } => None,
        Event::ToolSummary { summary, .. } => dim(clean::line(summary)),
        Event::Compacted { tokens_before, tokens_after, .. } => {
            let figure =
                |tokens: &Option<u64>| tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
            dim(format!(
                "the context was made smaller: {} to {} tokens",
                figure(tokens_before),
                figure(tokens_after)
            ))
        }
        Event::ConversationReset { reason: Some(reason), .. } => warn(reason.words().into()),
        Event::ConversationReset { reason: None, .. } => dim("the agent forgot the conversation".into()),
        Event::TaskChanged { task } => dim(changed_task(task)),
        Event::Receipt { command, stage: Stage::Uncertain { reason } } => warn(format!(
            "nobody knows whether entry {command} reached the agent ({}); `portolan resend` sends it again",
            clean::line(reason)
        )),
        Event::Receipt { command, stage: Stage::Refused { refusal } } => {
            warn(format!("entry {command} was refused: {}", clean::line(&crate::way_out::told(refusal))))
        }
        Event::Receipt { .. } | Event::CommandAccepted { .. } => None,
        Event::SettingChanged { setting } => dim(format!("{}{by}", changed_setting(setting))),
        Event::RuleAdded { tool_name, rule: None } => {
            dim(format!("{} needs no permission from now on", clean::line(tool_name)))
        }
        Event::RuleAdded { rule: Some(rule), .. } => {
            dim(format!("new rule: {}{by}", clean::line(&rule.line())))
        }
        Event::RuleRemoved { tool_name, .. } => {
            dim(format!("the rule for {} is removed{by}", clean::line(tool_name)))
        }
        Event::DeadlineChanged { request, deadline, seconds } => {
            dim(format!("{}{set_by}", changed_deadline(*request, *deadline, *seconds)))
        }
        Event::BudgetChanged { budget: None, .. } => {
            dim(format!("this session's own budget was removed{by}"))
        }
        Event::BudgetChanged { budget: Some(budget), reset } => {
            let reset = if *reset { "; it counts from zero again" } else { "" };
            dim(format!("{}{reset}{set_by}", budget_words(budget)))
        }
        Event::BudgetReached { standing } => {
            let words = clean::line(&standing.words());
            match standing.level {
                Spent::Fine => dim(words),
                Spent::Warn => warn(words),
                Spent::Over => warn(format!("{words}; prompts wait")),
            }
        }
        Event::McpServers { servers } => {
            let all: Vec<String> = servers
                .iter()
                .map(|server| format!("{} {}", clean::line(&server.name), clean::line(&server.status)))
                .collect();
            dim(format!("MCP servers: {}", all.join(", ")))
        }
        Event::Retry { attempt, max, delay_ms, error } => {
            let of = max.map(|max| format!(" of {max}")).unwrap_or_default();
            let wait = delay_ms
                .map(|ms| format!(", next attempt in {:.1} s", ms as f64 / 1000.0))
                .unwrap_or_default();
            warn(format!("attempt {attempt}{of} failed: {}{wait}", clean::line(&error.message)))
        }
        Event::Failure { error, .. } => {
            Some(Line::new(Style::Bad, format!("✗ {}", clean::line(&error.message))).and(
                Style::Warning,
                error.way_out.as_ref().map(|way| format!(" · {}", clean::line(way))).unwrap_or_default(),
            ))
        }
        Event::Notice { level: Level::Info, text } => dim(clean::line(text)),
        Event::Notice { level: Level::Warning, text } => warn(clean::line(text)),
        Event::AuthStatus { error: Some(error), .. } => warn(format!("login failed: {}", clean::line(error))),
        Event::AuthStatus { authenticating, output, .. } => {
            let word = if *authenticating { "logging in" } else { "login" };
            dim(format!("{word} {}", clean::line(&output.join(" "))))
        }
        Event::Hook { name, status: HookStatus::Completed, .. } => {
            dim(format!("hook {} ran", clean::line(name)))
        }
        Event::Hook { .. } => None,
        Event::FilesPersisted { files, failed } => {
            dim(format!("{} saved, {} not saved", tools::count(files.len(), "file"), failed.len()))
        }
        Event::Unknown { source, kind } => {
            dim(format!("{} sent an unknown message: {}", clean::line(source), clean::line(kind)))
        }
        // Other code makes the lines of these events.
        Event::ItemStarted { .. }
        | Event::ToolNamed { .. }
        | Event::Delta { .. }
        | Event::Message { .. }
        | Event::ToolCall { .. }
        | Event::ToolResult { .. }
        | Event::Prompt { .. }
        | Event::TurnEnded { .. }
        | Event::Plan { .. }
        | Event::SubagentStarted { .. }
        | Event::SubagentEnded { .. }
        | Event::RequestOpened { .. }
        | Event::RequestClosed { .. }
        | Event::RequestDecided { .. } => None,
    }
}
