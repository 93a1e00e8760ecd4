//! doctor: checks each agent: is it installed and logged in, how does Portolan talk to it, does it begin in a mode that
//! asks; with `--deep`, does it work as it should.
//!
//! Needs no daemon. A test runs the installed program against the scripted model, in an empty home and with an invalid
//! key: offline, free, and without touching the user's files.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use portolan_agents::{child::Ladder, dial_in::DialIn, sweep};
use portolan_contract::{Finding, Place, Profile, Scenario, Subject, Verdict, run, scenarios::FIRST_MODE};
use portolan_core::ports::{Agent, Login, LoginWay, Probe};
use serde::Serialize;

use super::{Context, configuration};
use crate::{
    arguments::Doctor,
    config::Settings,
    daemon::{assembly, dial_in},
    failure::{Exit, Failure, Outcome},
    home::{Home, identity::Identity},
    output::{self, Format},
    terminal::clean,
    way_out,
};

/// How many scenarios run at once: they mostly wait, and a small machine has two cores.
const AT_ONCE: usize = 3;

/// How long an agent under test may take to end by itself; its end is not worth a longer wait.
const RUNG: Duration = Duration::from_millis(500);

/// The state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    /// Installed; not tested.
    Ready,
    /// Tested: everything works.
    Works,
    /// Not installed.
    Missing,
    /// Installed, but not logged in.
    LoggedOut,
    /// Installed, but too old, or another program.
    Unusable,
    /// Tested: something does not work.
    Degraded,
    /// Tested: the agent is unusable.
    Broken,
}

/// The report on one agent.
#[derive(Debug, Serialize)]
struct Report {
    agent: String,
    title: String,
    health: Health,
    /// The ways to log the agent in through Portolan.
    #[serde(skip)]
    logins: Vec<LoginWay>,
    probe: Probe,
    /// Whether a session without a given mode begins in a mode that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_mode: Option<Tried>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<Trial>,
}

/// The result of the deep test.
#[derive(Debug, Serialize)]
struct Trial {
    seconds: f64,
    scenarios: Vec<Tried>,
    /// Messages of the agent that this version of Portolan does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    way_out: Option<String>,
}

#[derive(Debug, Serialize)]
struct Tried {
    scenario: &'static str,
    says: &'static str,
    #[serde(flatten)]
    verdict: Verdict,
    seconds: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transcript: Vec<String>,
}

pub(super) async fn doctor(context: &Context, asked: Doctor) -> Outcome {
    let home = Home::find()?;
    let settings = configuration::settings(&home)?;
    let dial_in = listen(&settings)?;
    // If no daemon ever ran here, use a new key for this check.
    let key =
        Identity::read(&home).map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), |home| home.key);
    let agents = assembly::agents(&settings, &key, &dial_in, None)?;
    let chosen = chosen(agents, asked.agent.as_deref())?;
    let mut reports = Vec::new();
    for agent in chosen {
        let probe = agent.probe().await;
        let (mut first_mode, mut deep) = (None, None);
        // An agent that runs through another agent's ACP adapter is tested under the name of the adapter.
        let stands_in =
            probe.transport.as_ref().is_some_and(|transport| transport.name.starts_with("acp, by "));
        let tries = probe.available && (asked.deep || !stands_in);
        if let Some(profile) = Profile::of(agent.kind()).filter(|_| tries) {
            let subject = subject(&profile, settings.clone(), dial_in.clone());
            first_mode = run(&subject, &[&FIRST_MODE], 1, |_| {}).await.into_iter().next().map(tried);
            if asked.deep {
                deep = Some(trial(&subject).await);
            }
        }
        let report = Report::new(&*agent, probe, first_mode, deep);
        if context.format() == Format::Plain {
            output::raw(told(&report).as_bytes())?;
        }
        reports.push(report);
    }
    if context.format() == Format::Json {
        output::json(&reports)?;
    }
    match worst(&reports, asked.agent.as_deref()) {
        None => Ok(()),
        // The reports above say everything.
        Some(exit) => Err(Failure { exit, message: String::new() }),
    }
}

/// The agents to check: the named agent, or all.
fn chosen(agents: Vec<Arc<dyn Agent>>, name: Option<&str>) -> Outcome<Vec<Arc<dyn Agent>>> {
    let Some(name) = name else { return Ok(agents) };
    let known: Vec<String> = agents.iter().map(|agent| agent.kind().to_owned()).collect();
    let found: Vec<_> = agents.into_iter().filter(|agent| agent.kind() == name).collect();
    if found.is_empty() {
        return Err(Failure::not_found(format!(
            "there is no agent `{name}`; the agents are {}",
            known.join(", ")
        )));
    }
    Ok(found)
}

/// The endpoint where an old agent dials in during a test. There is none if the daemon has none either, because it
/// listens only with a certificate.
fn listen(settings: &Settings) -> Outcome<DialIn> {
    let dial_in = DialIn::new();
    if settings.listen.self_signed || settings.listen.tls_cert.is_some() {
        return Ok(dial_in);
    }
    let unusable = |error: std::io::Error| Failure::new(format!("cannot listen on loopback: {error}"));
    dial_in.listens_at(dial_in::listen_on_loopback(&dial_in).map_err(unusable)?);
    Ok(dial_in)
}

impl Report {
    fn new(agent: &dyn Agent, probe: Probe, first_mode: Option<Tried>, trial: Option<Trial>) -> Self {
        let acts_unasked =
            first_mode.as_ref().is_some_and(|tried| matches!(tried.verdict, Verdict::Fails { .. }));
        let health = match &trial {
            _ if acts_unasked => Health::Broken,
            Some(trial) => judged(trial.scenarios.iter().map(|tried| &tried.verdict)),
            None if !probe.available && probe.program.is_some() => Health::Unusable,
            None if !probe.available => Health::Missing,
            None if matches!(probe.login, Some(Login::LoggedOut { .. })) => Health::LoggedOut,
            None => Health::Ready,
        };
        let logins = agent.capabilities().logins;
        Self { agent: agent.kind().into(), title: agent.title(), health, logins, probe, first_mode, trial }
    }
}

/// The subject of a test.
fn subject(profile: &Profile, settings: Settings, dial_in: DialIn) -> Arc<Subject> {
    let profile = *profile;
    let make = move |place: &Place| made(&profile, &settings, &dial_in, place);
    let leftovers = |key: &str| {
        sweep(key).iter().map(|swept| format!("{} ({})", swept.process.pid, swept.name)).collect()
    };
    Arc::new(Subject {
        title: profile.title.into(),
        profile,
        make: Box::new(make),
        leftovers,
        tool_server: None,
    })
}

/// Tests the core of the contract. The first scenario decides whether the others are worth running.
async fn trial(subject: &Arc<Subject>) -> Trial {
    let (profile, began) = (subject.profile, Instant::now());
    let tell = |finding: &Finding| {
        let name = finding.scenario.name;
        output::note(format!(
            "{}: {name}: {} ({:.1} s)",
            profile.agent,
            finding.verdict,
            finding.took.as_secs_f64()
        ));
    };
    let scenarios = Scenario::core();
    let (first, others) = scenarios.split_at(1);
    let mut findings = run(subject, first, 1, tell).await;
    if findings.iter().all(|finding| !matches!(finding.verdict, Verdict::Fails { .. })) {
        findings.extend(run(subject, others, AT_ONCE, tell).await);
    }
    let mut unknown: Vec<String> =
        findings.iter().flat_map(|finding| finding.unknown.iter().cloned()).collect();
    unknown.sort();
    unknown.dedup();
    let failed = findings.iter().any(|finding| matches!(finding.verdict, Verdict::Fails { .. }));
    let way_out = failed.then(|| {
        format!(
            "install a version that is known to work (`{}`), and report this problem with the output of `portolan \
             doctor --deep --json {}`",
            profile.install, profile.agent
        )
    });
    Trial {
        seconds: seconds(began.elapsed()),
        scenarios: findings.into_iter().map(tried).collect(),
        unknown,
        way_out,
    }
}

fn tried(finding: Finding) -> Tried {
    let Finding { scenario, verdict, took, transcript, .. } = finding;
    Tried { scenario: scenario.name, says: scenario.says, verdict, seconds: seconds(took), transcript }
}

/// Seconds, rounded to a tenth.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

/// The agent as configured, but in a place without the user's files, and without the variables of the agent's table.
fn made(
    profile: &Profile,
    settings: &Settings,
    dial_in: &DialIn,
    place: &Place,
) -> Result<Arc<dyn Agent>, String> {
    let mut settings = settings.clone();
    settings.agents.each.values_mut().for_each(|agent| agent.env.clear());
    let mut supervision = assembly::supervision(&settings, place.key.clone(), place.environment.clone());
    supervision.ladder = Ladder { ask: RUNG, close: RUNG, ..supervision.ladder };
    let catalogue =
        assembly::catalogue(&settings, supervision, dial_in).map_err(|failure| failure.message)?;
    let found = catalogue.into_iter().find(|agent| agent.kind() == profile.agent);
    found.ok_or_else(|| format!("there is no agent `{}`", profile.agent))
}

/// The overall verdict, from the verdicts of the scenarios.
fn judged<'a>(mut verdicts: impl Iterator<Item = &'a Verdict>) -> Health {
    let fails = |verdict: &Verdict| matches!(verdict, Verdict::Fails { .. });
    if verdicts.next().is_none_or(fails) {
        return Health::Broken;
    }
    if verdicts.any(fails) { Health::Degraded } else { Health::Works }
}

/// The exit code. A missing agent counts only if the user named it.
fn worst(reports: &[Report], name: Option<&str>) -> Option<Exit> {
    let health = reports.iter().map(|report| report.health);
    match health.filter(|health| name.is_some() || *health != Health::Missing).max()? {
        Health::Ready | Health::Works => None,
        Health::LoggedOut | Health::Degraded => Some(Exit::Degraded),
        Health::Missing | Health::Unusable | Health::Broken => Some(Exit::Failed),
    }
}

/// A report for people.
fn told(report: &Report) -> String {
    let Report { agent, probe, .. } = report;
    let mut lines = Vec::new();
    let version =
        probe.version.as_deref().map(|version| format!(" {}", clean::line(version))).unwrap_or_default();
    let word = match report.health {
        Health::Ready => "ready",
        Health::Works => "works",
        Health::Missing => "missing",
        Health::LoggedOut => "not logged in",
        Health::Unusable => "not usable",
        Health::Degraded => "degraded",
        Health::Broken => "broken",
    };
    lines.push(format!("{agent}{version}: {word}"));
    match (&probe.program, &probe.transport) {
        (Some(program), Some(transport)) => {
            lines.push(format!("  program  {}", clean::line(program)));
            lines.push(format!(
                "  via      {} ({})",
                clean::line(&transport.name),
                clean::line(&transport.why)
            ));
        }
        _ => lines.push(format!("  {}", clean::line(&probe.message))),
    }
    match &probe.login {
        Some(Login::LoggedIn { how }) => lines.push(format!("  login    yes ({})", clean::line(how))),
        Some(Login::LoggedOut { way_out }) => {
            lines.push(format!("  login    no: {}", way_out::of_login(agent, way_out, &report.logins)));
        }
        None => {}
    }
    match (report.first_mode.as_ref().map(|tried| &tried.verdict), Profile::of(agent)) {
        (Some(Verdict::Works), Some(Profile { modes: Some((asking, _)), .. })) => {
            lines.push(format!("  mode     {asking}, asks before it acts"));
        }
        (Some(Verdict::Fails { why }), _) => {
            lines.push(format!(
                "  mode     the agent does not begin in a mode that asks: {}",
                clean::line(why)
            ));
        }
        _ => {}
    }
    if let Some(trial) = &report.trial {
        lines.extend(trial_told(trial));
    }
    lines.join("\n") + "\n"
}

fn trial_told(trial: &Trial) -> Vec<String> {
    let mut lines = Vec::new();
    let names = |wanted: fn(&Verdict) -> bool| {
        let names = trial.scenarios.iter().filter(|tried| wanted(&tried.verdict)).map(|tried| tried.scenario);
        names.collect::<Vec<_>>().join(", ")
    };
    let works = names(|verdict| matches!(verdict, Verdict::Works));
    if !works.is_empty() {
        lines.push(format!("  works    {works} (in {:.1} s)", trial.seconds));
    }
    let lacks = names(|verdict| matches!(verdict, Verdict::NotOffered { .. }));
    if !lacks.is_empty() {
        lines.push(format!("  lacks    {lacks}"));
    }
    let untested = names(|verdict| matches!(verdict, Verdict::NotTested { .. }));
    if !untested.is_empty() {
        lines.push(format!("  untested {untested}"));
    }
    for tried in &trial.scenarios {
        if let Verdict::Fails { why } = &tried.verdict {
            lines.push(format!("  fails    {}: {}", tried.scenario, clean::line(why)));
        }
    }
    if !trial.unknown.is_empty() {
        let unknown: Vec<String> = trial.unknown.iter().map(|kind| clean::line(kind)).collect();
        lines.push(format!("  new      messages that Portolan does not know: {}", unknown.join(", ")));
    }
    if let Some(way_out) = &trial.way_out {
        lines.push(format!("  way out  {way_out}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails() -> Verdict {
        Verdict::Fails { why: "it \u{1b}[31mstopped".into() }
    }

    fn trial(verdicts: [Verdict; 4]) -> Trial {
        let scenarios = Scenario::core().into_iter().zip(verdicts);
        let tried = |(scenario, verdict): (&'static Scenario, Verdict)| Tried {
            scenario: scenario.name,
            says: scenario.says,
            verdict,
            seconds: 0.5,
            transcript: Vec::new(),
        };
        let way_out = Some("install another".into());
        Trial {
            seconds: 1.5,
            scenarios: scenarios.map(tried).collect(),
            unknown: vec!["brand_new".into()],
            way_out,
        }
    }

    fn report(health: Health) -> Report {
        let (agent, title) = ("claude".to_owned(), "Claude Code".to_owned());
        let (logins, probe) = (Vec::new(), Probe::default());
        Report { agent, title, health, logins, probe, first_mode: None, trial: None }
    }

    #[test]
    fn the_verdict_is_broken_if_no_turn_works_and_degraded_if_another_scenario_fails() {
        let health = |verdicts: &[Verdict]| judged(verdicts.iter());
        let lacks = Verdict::NotOffered { why: "questions".into() };
        assert_eq!(health(&[Verdict::Works, lacks, Verdict::Works]), Health::Works);
        assert_eq!(health(&[Verdict::Works, Verdict::Works, fails()]), Health::Degraded);
        assert_eq!(health(&[fails()]), Health::Broken);
        assert_eq!(health(&[]), Health::Broken);
    }

    #[test]
    fn the_exit_code_follows_from_the_worst_report_that_counts() {
        let exit = |all: &[Health], name| worst(&all.iter().map(|it| report(*it)).collect::<Vec<_>>(), name);
        assert_eq!(exit(&[Health::Missing, Health::Ready], None), None);
        assert_eq!(exit(&[Health::Missing], Some("claude")), Some(Exit::Failed));
        assert_eq!(exit(&[Health::Works, Health::Ready], None), None);
        assert_eq!(exit(&[Health::Works, Health::LoggedOut], None), Some(Exit::Degraded));
        assert_eq!(exit(&[Health::Degraded, Health::Ready], None), Some(Exit::Degraded));
        assert_eq!(exit(&[Health::Broken, Health::Degraded], None), Some(Exit::Failed));
    }

    #[test]
    fn a_report_shows_what_was_found_what_fails_and_the_way_out() {
        let probe = Probe {
            available: true,
            version: Some("2.1.325".into()),
            message: "unused".into(),
            program: Some("/bin/claude".into()),
            transport: Some(portolan_core::ports::Transport {
                name: "stdio".into(),
                why: "it is new".into(),
            }),
            login: Some(Login::LoggedOut { way_out: "log in".into() }),
        };
        let lacks = Verdict::NotOffered { why: "it".into() };
        let untested = Verdict::NotTested { why: "it".into() };
        let trial = Some(trial([Verdict::Works, lacks, fails(), untested]));
        let report = Report { probe, trial, ..report(Health::Degraded) };
        assert_eq!(
            told(&report),
            "claude 2.1.325: degraded\n  \
             program  /bin/claude\n  \
             via      stdio (it is new)\n  \
             login    no: log in\n  \
             works    text (in 1.5 s)\n  \
             lacks    permission-allow\n  \
             untested question\n  \
             fails    permission-deny: it stopped\n  \
             new      messages that Portolan does not know: brand_new\n  \
             way out  install another\n"
        );
        let mode = |verdict| {
            let first_mode =
                Tried { scenario: "first-mode", says: "", verdict, seconds: 0.5, transcript: Vec::new() };
            told(&Report { first_mode: Some(first_mode), ..self::report(Health::Broken) })
        };
        assert_eq!(mode(Verdict::Works), "claude: broken\n  \n  mode     default, asks before it acts\n");
        let unasked = mode(Verdict::Fails { why: "it begins in `auto`".into() });
        assert!(unasked.ends_with("begin in a mode that asks: it begins in `auto`\n"), "{unasked}");
        let missing = Probe { message: "not found; install it".into(), ..Probe::default() };
        let report = Report { probe: missing, ..self::report(Health::Missing) };
        assert_eq!(told(&report), "claude: missing\n  not found; install it\n");
    }
}
