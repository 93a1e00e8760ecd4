//! Scenes with tools: a command, an edit, a list of steps, a background task.

use portolan_core::{
    Event,
    event::{
        ChangeKind, Content, FileChange, ItemKind, PlanStep, Task, TaskStatus, ToolKind, ToolOutcome,
        WorkDone,
    },
};
use serde_json::{Value, json};

use super::super::{
    permit::Verdict,
    stage::{Background, Played, Stage, command_input},
};

/// How many names of a folder are shown.
const SHOWN: usize = 24;

/// Lists the folder, after an approval. The listing is real: this agent only ever reads names from the disk.
pub(super) async fn list_folder(stage: &Stage) -> Played {
    stage.say("I would like to see what is in this folder. That is a command, so I ask first.").await?;
    match run_ls(stage, None, "ls").await {
        Some(count) => {
            stage
                .say(&format!(
                    "There {} here. That was a real `ls`, the only command I run.",
                    if count == 1 { "is 1 name".to_owned() } else { format!("are {count} names") }
                ))
                .await
        }
        None => {
            stage
                .say("Understood: the command did not run. The log shows the denial and who denied it.")
                .await
        }
    }
}

/// Looks for texts in the folder, by their names: this needs no permission.
pub(super) async fn search(stage: &Stage) -> Played {
    let input = json!({ "pattern": "*.txt" });
    let tool = stage.call(None, "Glob", ToolKind::Search, "*.txt", &input, &[]).await;
    let mut names = names_of_folder(stage);
    names.retain(|name| name.rsplit_once('.').is_some_and(|(_, ending)| ending == "txt"));
    names.truncate(SHOWN);
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join("\n") };
    stage.result(&tool, ToolOutcome::Done, vec![Content::text(found)], vec![]);
    stage.say("I have searched the folder for texts. What I found is in the card.").await
}

/// Asks for `ls` and runs it; returns the number of names, or nothing if it was denied.
pub(super) async fn run_ls(stage: &Stage, parent: Option<&str>, command: &str) -> Option<usize> {
    let input = command_input(command, "List the folder");
    let tool = stage.call(parent, "Bash", ToolKind::Execute, command, &input, &[]).await;
    let verdict = stage.permit(&tool, "Bash", ToolKind::Execute, input, "List the folder", vec![]).await;
    let input = match verdict {
        Verdict::Allowed(input) => input,
        Verdict::Denied(why) => {
            stage.result(&tool, ToolOutcome::Denied, vec![Content::text(why)], vec![]);
            return None;
        }
    };
    let asked = input.get("command").and_then(Value::as_str).unwrap_or(command);
    if asked.split_whitespace().next() != Some("ls") {
        // Edited input is shown but not run: the demo runs only its own command.
        let text = format!("the demo runs nothing but `ls`, so `{asked}` was only read");
        stage.result(&tool, ToolOutcome::Failed, vec![Content::text(text)], vec![]);
        return Some(0);
    }
    let names = names_of_folder(stage);
    let mut output = String::new();
    stage.pause(8).await;
    let owner = parent.map(Into::into);
    stage.event(Event::ToolProgress {
        tool: tool.clone(),
        name: "Bash".into(),
        parent: owner,
        elapsed_seconds: Some(0.2),
    });
    stage.begin(&tool, ItemKind::ToolOutput, parent);
    for (place, name) in names.iter().enumerate() {
        if place == SHOWN {
            let rest = format!("… and {} more\n", names.len() - SHOWN);
            stage.more(&tool, &rest);
            output.push_str(&rest);
            break;
        }
        let line = format!("{name}\n");
        stage.more(&tool, &line);
        output.push_str(&line);
        stage.pause(1).await;
    }
    stage.result(&tool, ToolOutcome::Done, vec![Content::text(output)], vec![]);
    Some(names.len())
}

fn names_of_folder(stage: &Stage) -> Vec<String> {
    let folders = stage.with(|inner| {
        let own = crate::demo::wire::folder(&inner.spec);
        std::iter::once(own).chain(inner.spec.extra_dirs.iter().cloned()).collect::<Vec<_>>()
    });
    let entries = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The edit that the demo always proposes.
fn haiku() -> FileChange {
    let diff = "--- a/harbour.txt\n+++ b/harbour.txt\n@@ -1,3 +1,4 @@\n The ships come in late\n-and nobody knows from where\n\
                +and now you know from where:\n a light in the fog\n+is one log, many cursors\n";
    FileChange { diff: Some(diff.into()), ..FileChange::new("harbour.txt", ChangeKind::Modify, "") }
}

pub(super) async fn edit(stage: &Stage) -> Played {
    stage.say("I propose a small edit. Nothing is written to disk; only the diff is shown.").await?;
    if propose(stage, None).await {
        stage.say("Thank you. In real life the file would be changed now; `rewind` would take it back.").await
    } else {
        stage.say("Understood: the file stays as it was.").await
    }
}

/// Proposes the edit; returns whether it was allowed.
pub(super) async fn propose(stage: &Stage, parent: Option<&str>) -> bool {
    let change = haiku();
    let input = json!({
        "file_path": change.path,
        "old_string": "and nobody knows from where",
        "new_string": "and now you know from where:",
    });
    let changes = vec![change.clone()];
    let tool = stage.call(parent, "Edit", ToolKind::Edit, "harbour.txt", &input, &changes).await;
    match stage
        .permit(&tool, "Edit", ToolKind::Edit, input, "Finish the haiku in harbour.txt", changes.clone())
        .await
    {
        Verdict::Allowed(_) => {
            stage.edited(change);
            stage.result(
                &tool,
                ToolOutcome::Done,
                vec![Content::text("changed harbour.txt (simulated)")],
                changes,
            );
            true
        }
        Verdict::Denied(why) => {
            stage.result(&tool, ToolOutcome::Denied, vec![Content::text(why)], vec![]);
            false
        }
    }
}

/// A list of steps, of which the first `done` are done.
pub(super) fn steps(stage: &Stage, texts: &[&str], done: usize) {
    let step = |(place, text): (usize, &&str)| PlanStep {
        text: (*text).into(),
        status: match place {
            _ if place < done => "completed",
            _ if place == done => "in_progress",
            _ => "pending",
        }
        .into(),
    };
    stage.event(Event::Plan { steps: texts.iter().enumerate().map(step).collect(), parent: None });
}

pub(super) async fn todo(stage: &Stage) -> Played {
    const STEPS: [&str; 4] = ["Find the harbour", "Read the chart", "Mark the rocks", "Have tea"];
    stage.say("A list of steps, worked off while you watch:").await?;
    for done in 0..=STEPS.len() {
        steps(stage, &STEPS, done);
        stage.pause(15).await;
    }
    stage.say("All steps are done.").await
}

/// Starts a task that continues after the turn, and begins a turn when it ends.
pub(super) async fn background(stage: &Stage) -> Played {
    stage.say("I start a long task and do not wait for it.").await?;
    begin_background(stage).await;
    stage.say("The task runs in the background. When it ends, I begin a turn by myself, as agents do.").await
}

pub(super) async fn begin_background(stage: &Stage) {
    let input = json!({ "command": "tide --wait", "run_in_background": true });
    let tool = stage.call(None, "Bash", ToolKind::Execute, "tide --wait", &input, &[]).await;
    let task = format!("task-{}", stage.name());
    stage.event(Event::TaskChanged {
        task: Box::new(Task {
            task: task.clone(),
            tool: Some(tool.clone()),
            task_type: Some("local_bash".into()),
            description: Some("Wait for the tide".into()),
            status: TaskStatus::Running,
            ..Task::default()
        }),
    });
    stage.result(
        &tool,
        ToolOutcome::Done,
        vec![Content::text(format!("running in the background as {task}"))],
        vec![],
    );
    let due = stage.due(150);
    stage.with(|inner| inner.tasks.push(Background { task, tool, due }));
}

pub(super) async fn task_done(stage: &Stage, task: Background) -> Played {
    stage.event(Event::TaskChanged {
        task: Box::new(Task {
            task: task.task,
            tool: Some(task.tool),
            task_type: Some("local_bash".into()),
            description: Some("Wait for the tide".into()),
            status: TaskStatus::Completed,
            summary: Some("the tide is in".into()),
            work: Some(WorkDone { tokens: 0, tool_uses: 1, duration_ms: 3600 }),
            ..Task::default()
        }),
    });
    stage.say("The background task has ended: the tide is in. This turn began by itself.").await
}
