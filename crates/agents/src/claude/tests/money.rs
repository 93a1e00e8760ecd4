//! The cost of turns that the CLI does not report.

use portolan_core::{capabilities::NativeProtocol, ports::Agent as _};

use super::*;
use crate::{
    Supervision,
    claude::{Claude, Config, capabilities},
    dial_in::DialIn,
    prices::Price,
};

/// The end of a turn that used a million tokens of every kind, with these extra figures.
fn million(model: &str, figures: &Value) -> Value {
    let mut usage = json!({ "inputTokens": 1_000_000, "outputTokens": 1_000_000,
        "cacheReadInputTokens": 1_000_000, "cacheCreationInputTokens": 1_000_000 });
    for (name, value) in figures.as_object().unwrap() {
        usage[name] = value.clone();
    }
    json!({ "type": "result", "subtype": "success", "is_error": false, "result": "done", "modelUsage": { model: usage } })
}

fn cost(prices: IndexMap<String, Price>, end: &Value) -> Option<f64> {
    let setup = Setup { prices: Prices::new(prices), ..setup(Version(2, 1, 325), Repeats::Never) };
    let out = said(&mut begun(Translate::new(setup)), end);
    let ended = out.reports.iter().find_map(|report| match report {
        Report::TurnEnded { result, .. } => Some(result.cost_usd),
        _ => None,
    });
    ended.unwrap_or_else(|| panic!("no end: {out:?}"))
}

// covers: 001-061
#[test]
fn a_turn_costs_the_list_price_of_its_tokens_only_if_the_cli_reports_no_cost() {
    let about = |cost: Option<f64>, expected: f64| (cost.unwrap() - expected).abs() < 1e-9;
    let untold = cost(IndexMap::new(), &million("claude-sonnet-4-5-20250929", &json!({})));
    assert!(about(untold, 3.0 + 15.0 + 0.30 + 3.75), "{untold:?}");
    let told = cost(IndexMap::new(), &million("claude-sonnet-4-5-20250929", &json!({ "costUSD": 1.5 })));
    assert!(about(told, 1.5), "{told:?}");
    assert_eq!(cost(IndexMap::new(), &million("no-such-model", &json!({}))), None, "unknown is not zero");
    let own = Price { input: 1.0, output: 2.0, cache_write: 3.0, cache_read: 4.0 };
    let own =
        cost([("no-such".to_owned(), own)].into_iter().collect(), &million("no-such-model", &json!({})));
    assert!(about(own, 10.0), "{own:?}");
}

// covers: 003-117
#[test]
fn the_resume_capability_is_set_before_and_after_a_look() {
    let supervision = std::sync::Arc::new(Supervision::new("test", vec![]));
    let unseen = Claude::new(Config::default(), supervision, DialIn::new());
    assert!(unseen.capabilities().session_resume);
    for version in [Version(2, 1, 42), Version(2, 1, 120), Version(2, 1, 325)] {
        let seen = capabilities(Some(version), crate::claude::Way::Stdio);
        assert!(seen.session_resume && seen.native_protocol == NativeProtocol::AgentSdk, "{version}");
    }
}
