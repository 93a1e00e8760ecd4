//! Budgets: a session stops when its budget is spent, and goes on when an owner gives it room.

use portolan_core::{
    Action, Event,
    policy::{
        BudgetTerms, Limits, Standing,
        budget::{Level, Measure},
    },
};
use portolan_scripted::{Script, Usage, contains, text};

use crate::{Bench, Fault, fault::must, session::Session};

/// More than the token limit below, whatever the agent reports of it.
const USED: Usage = Usage { input: 1200, output: 340, cache_read: 0, cache_creation: 0 };

fn limits(turns: u32, tokens: Option<u64>) -> Action {
    let limits = Limits { turns: Some(turns), tokens, ..Limits::default() };
    Action::SetBudget { budget: Some(BudgetTerms { limits, per: None }) }
}

/// Waits until a budget is spent.
async fn spent(session: &mut Session) -> Result<Standing, Fault> {
    session
        .until("a spent budget", |event| match event {
            Event::BudgetReached { standing } if standing.level == Level::Over => Some((**standing).clone()),
            _ => None,
        })
        .await
}

async fn waits(session: &mut Session, prompt: &str) -> Result<(), Fault> {
    session.prompt(prompt).await?;
    spent(session).await?;
    let state = session.state().await?;
    must!(state.summary.queued == 1, "{} prompts wait", state.summary.queued);
    must!(state.summary.over_budget.is_some(), "nothing says why the prompt waits");
    Ok(())
}

pub(super) async fn holds(bench: &Bench) -> Result<(), Fault> {
    let script = [("one", "First."), ("two", "Second."), ("four", "Fourth.")]
        .into_iter()
        .fold(Script::new(), |script, (word, said)| {
            script.on(contains(format!("say number {word}"))).reply(text(said))
        });
    bench.play(script.on(contains("say number three")).reply(text("Third.").usage(USED)));
    let limited = Some(BudgetTerms { limits: Limits { turns: Some(1), ..Limits::default() }, per: None });
    let mut session =
        bench.session_from(portolan_core::SessionSpec { budget: limited, ..bench.spec() }).await?;
    session.ready().await?;
    session.exchange("say number one").await?;
    let standing = spent(&mut session).await?;
    must!(standing.measure == Measure::Turns, "the spent limit is {:?}", standing.measure);
    waits(&mut session, "say number two").await?;
    session.submit(Action::ResetBudget).await?;
    let said = session.completes().await?;
    must!(said == "Second.", "after the reset the agent said {said:?}");

    // What was used so far may be more than the next limit.
    session.submit(Action::ResetBudget).await?;
    session.submit(limits(20, Some(1000))).await?;
    session.prompt("say number three").await?;
    // An agent that reports its tokens before the end of the turn is interrupted.
    session.turn_end().await?;
    let over = session.state().await?.budgets.iter().any(|known| known.measure == Measure::Tokens);
    must!(over, "1,540 tokens did not spend a budget of 1,000");
    waits(&mut session, "say number four").await?;
    session.submit(limits(20, Some(1_000_000))).await?;
    let said = session.completes().await?;
    must!(said == "Fourth.", "after the raise the agent said {said:?}");
    Ok(())
}
