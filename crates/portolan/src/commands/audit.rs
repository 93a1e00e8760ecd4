//! audit list, show, export, verify: who did what, and whether somebody changed the daemon's log. On this machine the
//! verbs read the database directly, so they need no daemon and trust none.

mod records;

use std::path::PathBuf;

use portolan_core::Position;
use portolan_store::{Broken, Head, Verified, chain};
use serde_json::json;

use super::{Context, export::Existing};
use crate::{
    arguments::Audit,
    failure::{Exit, Failure, Outcome},
    output::{self, Format},
    target::{Start, Target},
};

/// What the seals cannot show alone.
const LIMITS: &str = "The seals alone do not show whether the end was cut off, or whether someone with write \
                      access to the database rewrote the whole log. Keep the head on another machine: --head finds both.";

pub(super) async fn run(context: &Context, verb: Audit) -> Outcome {
    match verb {
        Audit::List { wanted, limit, newest_first, oldest, from } => {
            let order = records::Shown::when(newest_first, oldest);
            records::list(context, wanted, limit, order, from.map(Position)).await
        }
        Audit::Show { record } => records::show(context, Position(record)).await,
        Audit::Export { wanted, format, output, force } => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            records::export(context, wanted, format, output, existing).await
        }
        Audit::Verify { head } => verify(context, head),
    }
}

/// The database to read.
fn database(context: &Context) -> Outcome<PathBuf> {
    let target = Target::find(&context.global, Start::Never)?;
    let Some(home) = target.home() else {
        return Err(Failure::usage("the daemon is on another machine; run this verb there"));
    };
    let path = home.database();
    if !path.exists() {
        return Err(Failure::not_found(format!("there is no database at `{}`", path.display())));
    }
    Ok(path)
}

fn verify(context: &Context, head: Option<String>) -> Outcome {
    let noted = head
        .map(|text| text.parse::<Head>())
        .transpose()
        .map_err(|error| Failure::usage(format!("--head: {error}")))?;
    let path = database(context)?;
    let found = chain::verify(&path, noted).map_err(|error| Failure::new(error.to_string()))?;
    match context.format() {
        Format::Json => output::json(&as_json(&found, noted))?,
        Format::Plain => output::raw(as_text(&found, noted).as_bytes())?,
    }
    match found.broken {
        None => Ok(()),
        Some(broken) => Err(Failure { exit: Exit::Broken, message: meaning(broken) }),
    }
}

fn as_json(found: &Verified, noted: Option<Head>) -> serde_json::Value {
    json!({
        "whole": found.broken.is_none(),
        "entries": found.entries,
        "head": found.head.map(|head| head.to_string()),
        "noted": noted.map(|head| head.to_string()),
        "sealed_later": found.sealed_later,
        "trimmed": found.trimmed,
        "broken": found.broken,
        "meaning": found.broken.map_or_else(|| LIMITS.to_owned(), meaning),
    })
}

fn as_text(found: &Verified, noted: Option<Head>) -> String {
    let mut lines = vec![match found.broken {
        None => format!("{} entries of the daemon's log match their seals.", found.entries),
        Some(_) => format!("{} entries of the daemon's log match their seals, then:", found.entries),
    }];
    lines.extend(found.trimmed.map(|seq| format!("Entries up to {seq} were trimmed.")));
    lines.extend(found.sealed_later.map(|seq| {
        format!(
            "Entries up to {seq} are older than the seals: they were sealed when the database was migrated."
        )
    }));
    if found.broken.is_none() {
        lines.extend(found.head.map(|head| format!("head {head}")));
        lines.push(match noted {
            Some(noted) => {
                format!(
                    "The log contains the given head, entry {}: no entry before the head was changed.",
                    noted.seq
                )
            }
            None => LIMITS.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

fn meaning(broken: Broken) -> String {
    match broken {
        Broken::Changed { seq } => format!(
            "entry {seq} does not match its seal: the entry was changed after it was written, or an entry directly \
             before it was added or removed; trust no entry from there on"
        ),
        Broken::Missing { seq } => {
            format!("entry {seq} was removed: only its seal is there; trust no entry from there on")
        }
        Broken::Unsealed { seq } => format!(
            "entry {seq} has no seal: another program added the entry, or the seal was removed; trust no entry from \
             there on"
        ),
        Broken::NotTheNoted { seq } => format!(
            "the log matches its seals, but it does not contain the given head at entry {seq}: the end of the log was \
             cut off, or the whole log was rewritten"
        ),
    }
}

#[cfg(test)]
mod tests {
    use portolan_core::Seq;

    use super::*;

    #[test]
    fn the_report_of_an_unchanged_log_has_the_head_and_the_limits_of_the_seals() {
        let head: Head = format!("7:{}", "ab".repeat(32)).parse().unwrap();
        let found =
            Verified { entries: 7, head: Some(head), sealed_later: Some(Seq(3)), ..Verified::default() };
        let text = as_text(&found, None);
        assert_eq!(
            text,
            format!(
                "7 entries of the daemon's log match their seals.\nEntries up to 3 are older than the seals: they were \
                 sealed when the database was migrated.\nhead {head}\n{LIMITS}\n"
            )
        );
        assert!(as_text(&found, Some(head)).ends_with("no entry before the head was changed.\n"));
        let json = as_json(&found, None);
        assert_eq!((&json["whole"], &json["head"]), (&json!(true), &json!(head.to_string())));
    }

    #[test]
    fn the_report_of_a_changed_log_has_the_first_wrong_entry_and_its_meaning() {
        let cases = [
            (Broken::Changed { seq: Seq(5) }, json!({"how": "changed", "seq": 5})),
            (Broken::Missing { seq: Seq(5) }, json!({"how": "missing", "seq": 5})),
            (Broken::Unsealed { seq: Seq(5) }, json!({"how": "unsealed", "seq": 5})),
            (Broken::NotTheNoted { seq: Seq(5) }, json!({"how": "not_the_noted", "seq": 5})),
        ];
        for (broken, expected) in cases {
            let found = Verified { entries: 4, broken: Some(broken), ..Verified::default() };
            assert_eq!(as_json(&found, None)["broken"], expected);
            assert!(meaning(broken).contains("entry 5"), "{broken:?}");
            assert_eq!(as_text(&found, None), "4 entries of the daemon's log match their seals, then:\n");
        }
    }
}
