//! Scenarios only for Codex: features that other agents do not have, or have in another form.

use std::{path::Path, time::Duration};

use portolan_contract::{Bench, Fault, Model, Scenario, profile, scenarios};
use portolan_core::{
    Action, CommandId, Event, Principal, Role, SessionSpec, TokenId,
    event::{Content, TaskStatus, ToolOutcome, plain_text},
    ports::{LogIn, Login, PastPlace, Secret},
    registry::{PastListing, PastMove, TakeUp},
    request::{Answer, Ask, Choice, Question},
};
use portolan_scripted::{Script, call, contains, note_contains, text, tools};
use serde_json::json;

/// How long a process may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A scenario only for Codex.
macro_rules! own {
    ($name:literal, $says:literal, $play:path) => {
        Scenario {
            name: $name,
            says: $says,
            core: false,
            model: Model::Scripted,
            limit: scenarios::LIMIT,
            offered: |_, _| Ok(()),
            play: |bench| Box::pin($play(bench)),
        }
    };
}

pub(crate) static OWN: [Scenario; 12] = [
    own!("trust", "A session that may write does not make Codex trust the folder permanently.", trust),
    own!("schema", "With a schema, the last message is the result.", schema),
    own!("plan-question", "Questions that Codex asks while it plans are answered.", plan_question),
    own!("past", "A past conversation is listed, and imported with its messages.", past),
    own!(
        "subagent",
        "A thread that the model starts is shown as a subagent with its own messages.",
        subagent
    ),
    own!(
        "archive",
        "A conversation has its name, is archived in Codex' own list, and is unarchived by a resume.",
        archive
    ),
    own!("account", "Codex is logged in with a key, and logged out.", account),
    own!("review", "A review is shown as a turn with its text.", review),
    own!("skill", "A skill is listed as a command, and the model reads it.", skill),
    own!("plan", "The steps of a plan are shown.", plan),
    own!(
        "interrupt-ends",
        "An interrupt ends the command, which Codex itself leaves running.",
        interrupt_ends
    ),
    own!("task-stop", "A command that outlives its turn is shown as a task, and can be stopped.", task_stop),
];

async fn trust(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("hello")).reply(text("Here.")));
    let config = bench.folder().join("../home/.codex/config.toml");
    let before = std::fs::read_to_string(&config)?;
    for mode in ["auto", "full-access"] {
        let prompt = vec![Content::text("hello")];
        let spec = SessionSpec { mode: Some(mode.into()), prompt, ..bench.spec() };
        let mut session = bench.session_from(spec).await?;
        session.completes().await?;
        let set = session.state().await?.summary.mode;
        if set.as_deref() != Some(mode) {
            return Err(Fault::wrong(format!("the mode is {set:?} instead of {mode}")));
        }
    }
    let after = std::fs::read_to_string(&config)?;
    if before == after {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the user's configuration is now {after}")))
    }
}

async fn schema(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("how deep")).reply(text("{\"fathoms\": 6}")));
    let schema = json!({ "type": "object", "properties": { "fathoms": { "type": "integer" } },
        "required": ["fathoms"], "additionalProperties": false });
    let prompt = vec![Content::text("how deep is it")];
    let spec = SessionSpec { json_schema: Some(schema.clone()), prompt, ..bench.spec() };
    let result = bench.session_from(spec).await?.turn_end().await?;
    // The scripted model always answers with JSON, so only the request shows the schema.
    let formats: Vec<_> =
        bench.asked().iter().map(|request| request.body["text"]["format"].clone()).collect();
    if !formats.iter().any(|format| format["schema"] == schema) {
        return Err(Fault::wrong(format!("the model was asked for {formats:?}")));
    }
    if result.structured == Some(json!({ "fathoms": 6 })) {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the result is {:?}", result.structured)))
    }
}

async fn plan_question(bench: &Bench) -> Result<(), Fault> {
    let choice = |label: &str| Choice { label: label.into(), description: Some(format!("to take {label}")) };
    let question = Question {
        question: "Which colour?".into(),
        header: Some("Colour".into()),
        choices: vec![choice("Red"), choice("Green")],
        multiple: false,
        free_text: true,
        secret: false,
    };
    let call = profile::codex::ask(std::slice::from_ref(&question));
    let script = Script::new().on(contains("ask me")).reply(tools([call]));
    bench.play(script.then(text("you said: {last_tool_result}")));
    let prompt = vec![Content::text("ask me")];
    let mut session =
        bench.session_from(SessionSpec { mode: Some("plan".into()), prompt, ..bench.spec() }).await?;
    let request = session.request().await?;
    if !matches!(&request.ask, Ask::Question { questions } if questions[0].question == "Which colour?") {
        return Err(Fault::wrong(format!("asked {}", request.ask.title())));
    }
    let answers = [("Which colour?".to_owned(), vec!["Green".to_owned()])].into_iter().collect();
    session.answer(&request, Answer::Choices { answers }).await?;
    let said = session.completes().await?;
    if said.contains("Green") { Ok(()) } else { Err(Fault::wrong(format!("the model got: {said}"))) }
}

async fn past(bench: &Bench) -> Result<(), Fault> {
    let shell = (bench.profile().shell)("echo six-fathoms");
    let script = Script::new().on(contains("how deep")).reply(tools([shell])).then(text("Six fathoms."));
    bench.play(script.on(contains("go on")).reply(text("Going on.")));
    let mut session = bench.session_saying("how deep is it").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    session.completes().await?;
    let kept = session.state().await?.summary.agent_session.unwrap_or_default();
    session.carry_out(Action::Stop).await?;
    let who = someone();
    let registry = bench.registry().await?;
    // A conversation that a session already has is not imported again.
    registry.delete(&who, session.id()).await?;
    let listed = registry.past(&who, PastListing { limit: 10, ..PastListing::default() }).await?;
    let found = listed.iter().find(|row| row.past.past == kept).map(|row| row.past.title.as_str());
    if found != Some("how deep is it") {
        return Err(Fault::wrong(format!("the conversation `{kept}` is listed as {listed:?}")));
    }
    let spec = SessionSpec { prompt: vec![Content::text("go on")], ..bench.spec() };
    let taken = registry.take_up(&who, CommandId::random(), TakeUp { past: kept, copy: false, spec }).await?;
    let mut again = bench.session_of(taken.session.session).await?;
    let told = again
        .until("what was imported", |event| match event {
            Event::Imported { entries, .. } => Some(*entries),
            _ => None,
        })
        .await?;
    let words: Vec<String> = again
        .seen()
        .filter_map(|event| match event {
            Event::Prompt { content, .. }
            | Event::Message { content, .. }
            | Event::ToolResult { content, .. } => Some(plain_text(content).trim().to_owned()),
            _ => None,
        })
        .collect();
    let said = ["how deep is it", "six-fathoms", "Six fathoms."];
    if !said.iter().all(|part| words.iter().any(|word| word == part)) {
        return Err(Fault::wrong(format!("of {told} entries these are messages: {words:?}")));
    }
    let said = again.completes().await?;
    if said == "Going on." { Ok(()) } else { Err(Fault::wrong(format!("the agent went on with {said:?}"))) }
}

async fn subagent(bench: &Bench) -> Result<(), Fault> {
    let spawn = call("multi_agent_v1/spawn_agent", json!({ "message": "sound the depth" }));
    let script = Script::new()
        .on(contains("sound the depth"))
        .reply(text("Six fathoms."))
        .on(contains("send someone"))
        .reply(tools([spawn]))
        .then(text("Someone was sent."));
    bench.play(script.otherwise(text("Noted.")));
    let prompt = vec![Content::text("send someone")];
    let mut session = bench.session_from(SessionSpec { prompt, ..bench.spec() }).await?;
    let begun = session
        .until("the beginning of a subagent", |event| match event {
            Event::SubagentStarted { subagent, prompt, .. } => Some((subagent.clone(), prompt.clone())),
            _ => None,
        })
        .await?;
    let (outcome, summary) = session
        .until("the end of the subagent", |event| match event {
            Event::SubagentEnded { subagent, outcome, summary, .. } if *subagent == begun.0 => {
                Some((*outcome, summary.clone()))
            }
            _ => None,
        })
        .await?;
    let own = |event: &Event| matches!(event, Event::Message { parent: Some(of), content, .. } if *of == begun.0 && plain_text(content) == "Six fathoms.");
    let told = (begun.1.as_deref(), outcome, summary.as_deref(), session.seen().any(own));
    if told == (Some("sound the depth"), ToolOutcome::Done, Some("Six fathoms."), true) {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the subagent is shown as {told:?}")))
    }
}

fn someone() -> Principal {
    Principal {
        token: TokenId::random(),
        name: "test".into(),
        role: Role::Owner,
        sessions: None,
        via: "test".into(),
    }
}

async fn archive(bench: &Bench) -> Result<(), Fault> {
    let script = Script::new().on(contains("how deep")).reply(text("Six fathoms."));
    bench.play(script.on(contains("go on")).reply(text("Going on.")));
    let prompt = vec![Content::text("how deep is it")];
    let spec = SessionSpec { name: Some("Soundings".into()), prompt, ..bench.spec() };
    let mut session = bench.session_from(spec).await?;
    session.completes().await?;
    let kept = session.state().await?.summary.agent_session.unwrap_or_default();
    let registry = bench.registry().await?;
    let to = |place| PastMove { agent: "codex".into(), past: kept.clone(), place };
    if registry.move_past(&someone(), to(PastPlace::Archived)).await.is_ok() {
        return Err(Fault::wrong("the conversation was archived under a running session"));
    }
    session.carry_out(Action::Stop).await?;
    let titles = async |place| {
        let listing = PastListing { limit: 10, place, ..PastListing::default() };
        let listed = registry.past(&someone(), listing).await?;
        let listed = listed.into_iter().filter(|row| row.past.past == kept);
        Ok::<_, Fault>(listed.map(|row| row.past.title).collect::<Vec<_>>())
    };
    let mut told = vec![titles(PastPlace::Listed).await?, titles(PastPlace::Archived).await?];
    registry.move_past(&someone(), to(PastPlace::Archived)).await?;
    told.extend([titles(PastPlace::Listed).await?, titles(PastPlace::Archived).await?]);
    registry.move_past(&someone(), to(PastPlace::Listed)).await?;
    told.extend([titles(PastPlace::Listed).await?, titles(PastPlace::Archived).await?]);
    let (here, nothing) = (vec!["Soundings".to_owned()], vec![]);
    let expected = [&here, &nothing, &nothing, &here, &here, &nothing];
    if told.iter().collect::<Vec<_>>() != expected {
        return Err(Fault::wrong(format!("the conversation was listed as {told:?}")));
    }
    registry.move_past(&someone(), to(PastPlace::Archived)).await?;
    let said = session.exchange("go on").await?;
    if said == "Going on." { Ok(()) } else { Err(Fault::wrong(format!("the agent went on with {said:?}"))) }
}

async fn account(bench: &Bench) -> Result<(), Fault> {
    // The model provider of the other scenarios needs no login.
    let config = bench.folder().join("../home/.codex/config.toml");
    let text = std::fs::read_to_string(&config)?.replace("model_provider = \"scripted\"\n", "");
    std::fs::write(&config, text)?;
    let registry = bench.registry().await?;
    let (key, wrong) = (Secret::new("sk-of-the-suite"), "the login is reported as");
    let before = registry.account(&someone(), "codex").await?.state.login;
    let begun = registry.log_in(&someone(), "codex", LogIn::ApiKey { key }).await?;
    let kept = registry.account(&someone(), "codex").await?.state.login;
    let after = registry.log_out(&someone(), "codex").await?.state.login;
    let is_in = |login: &Option<Login>| matches!(login, Some(Login::LoggedIn { how }) if how == "apiKey");
    let is_out = |login: &Option<Login>| matches!(login, Some(Login::LoggedOut { .. }));
    let told = [before, begun.state.login, kept, after];
    let fine = is_out(&told[0]) && is_in(&told[1]) && is_in(&told[2]) && is_out(&told[3]);
    if fine && begun.under_way.is_none() { Ok(()) } else { Err(Fault::wrong(format!("{wrong} {told:?}"))) }
}

async fn review(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("the rigging")).reply(text("The mast leans.")));
    let mut session = bench.session_saying("/review the rigging").await?;
    let said = session.completes().await?;
    if said.contains("The mast leans.") {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the review said {said:?}")))
    }
}

async fn skill(bench: &Bench) -> Result<(), Fault> {
    let folder = bench.folder().join("../home/.codex/skills/sail");
    std::fs::create_dir_all(&folder)?;
    let words = "---\nname: sail\ndescription: How to sail.\n---\nHoist the topsail first.\n";
    std::fs::write(folder.join("SKILL.md"), words)?;
    let script = Script::new().on(note_contains("Hoist the topsail first")).reply(text("Hoisted."));
    bench.play(script.otherwise(text("No skill came along.")));
    let mut session = bench.session().await?;
    session
        .until("the skill among the commands", |event| match event {
            Event::AgentInfo { info } => {
                info.commands.as_ref()?.iter().any(|command| command.name == "sail").then_some(())
            }
            _ => None,
        })
        .await?;
    let said = session.exchange("/sail north").await?;
    if said == "Hoisted." { Ok(()) } else { Err(Fault::wrong(format!("the model said {said:?}"))) }
}

async fn plan(bench: &Bench) -> Result<(), Fault> {
    let config = bench.folder().join("../home/.codex/config.toml");
    let text_before = std::fs::read_to_string(&config)?;
    std::fs::write(&config, format!("{text_before}[tools.update_plan]\nenabled = true\n"))?;
    let steps = json!({ "plan": [{ "step": "Weigh anchor", "status": "completed" },
        { "step": "Set sail", "status": "in_progress" }] });
    let script = Script::new().on(contains("plan it")).reply(tools([call("update_plan", steps)]));
    bench.play(script.then(text("Planned.")));
    let mut session = bench.session_saying("plan it").await?;
    let told = session
        .until("the plan", |event| match event {
            Event::Plan { steps, .. } => Some(steps.clone()),
            _ => None,
        })
        .await?;
    session.completes().await?;
    let told: Vec<_> = told.iter().map(|step| (step.text.as_str(), step.status.as_str())).collect();
    if told == [("Weigh anchor", "completed"), ("Set sail", "in_progress")] {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the plan is {told:?}")))
    }
}

/// A command that writes its process id and then runs for ever.
const ENDLESS: &str = "echo $$ > pid.part; mv pid.part pid.txt; exec tail -f /dev/null";

async fn endless(bench: &Bench) -> Result<String, Fault> {
    if !bench.has_file_within("pid.txt", PATIENCE).await {
        return Err(Fault::wrong("the command did not begin"));
    }
    Ok(std::fs::read_to_string(bench.folder().join("pid.txt"))?.trim().to_owned())
}

async fn gone(process: &str) -> Result<(), Fault> {
    let place = Path::new("/proc").join(process);
    let look = async {
        while place.exists() {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    let late = |_| Fault::wrong(format!("the process {process} still runs"));
    tokio::time::timeout(PATIENCE, look).await.map_err(late)
}

async fn interrupt_ends(bench: &Bench) -> Result<(), Fault> {
    bench.play(Script::new().on(contains("begin")).reply(tools([(bench.profile().shell)(ENDLESS)])));
    let mut session = bench.session_saying("begin").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let process = endless(bench).await?;
    session.submit(Action::Interrupt).await?;
    session.interrupted().await?;
    gone(&process).await
}

async fn task_stop(bench: &Bench) -> Result<(), Fault> {
    let run = call(
        "exec_command",
        json!({ "cmd": ENDLESS, "yield_time_ms": 500, "sandbox_permissions": "require_escalated",
            "justification": "a step of the suite" }),
    );
    bench.play(Script::new().on(contains("begin")).reply(tools([run])).then(text("It runs.")));
    let mut session = bench.session_saying("begin").await?;
    let request = session.request().await?;
    session.answer(&request, Answer::allow()).await?;
    let process = endless(bench).await?;
    let task = session
        .until("the task", |event| match event {
            Event::TaskChanged { task } if task.status == TaskStatus::Running => Some(task.task.clone()),
            _ => None,
        })
        .await?;
    session.turn_end().await?;
    session.carry_out(Action::StopTask { task: task.clone() }).await?;
    let status = session
        .until("the end of the task", |event| match event {
            Event::TaskChanged { task: now } if now.task == task && now.status != TaskStatus::Running => {
                Some(now.status)
            }
            _ => None,
        })
        .await?;
    gone(&process).await?;
    if status == TaskStatus::Stopped {
        Ok(())
    } else {
        Err(Fault::wrong(format!("the task ended as {status:?}")))
    }
}
