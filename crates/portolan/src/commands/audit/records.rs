//! The records of the audit: listed, shown and exported.

use std::{fmt::Write as _, path::PathBuf};

use portolan_client::Client;
use portolan_core::{
    Millis, Position, SessionId,
    audit::{self, AuditDetails, AuditLog, AuditOrder, AuditPage, AuditQuery, AuditRecord},
    policy::RuleId,
    ports::{ChainLink, Store as _},
};
use portolan_store::Archive;
use serde_json::json;

use crate::{
    arguments::{AuditFormat, Wanted},
    commands::{
        Context,
        export::{Existing, Sink, keeps_existing},
        inputs,
    },
    failure::{Failure, Outcome},
    home::rfc3339,
    output::{self, Format},
    target::{Start, Target},
    terminal::clean,
};

/// The characters of a session's id that a list shows: the last ones, in which ids of one day differ.
const SHORT_ID: usize = 8;

/// In which order a list shows records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The newest records, newest last.
    NewestLast,
    /// The newest records, newest first.
    NewestFirst,
    /// The oldest records, oldest first.
    OldestFirst,
}

impl Shown {
    pub(super) fn when(newest_first: bool, oldest: bool) -> Self {
        match (newest_first, oldest) {
            (_, true) => Self::OldestFirst,
            (true, false) => Self::NewestFirst,
            (false, false) => Self::NewestLast,
        }
    }
}

/// Where records come from: the database of this machine, or a daemon elsewhere.
enum Source {
    Archive(Archive),
    Daemon(Box<Client>),
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

impl Source {
    async fn open(context: &Context) -> Outcome<Self> {
        if Target::find(&context.global, Start::Never)?.home().is_none() {
            return Ok(Self::Daemon(Box::new(context.client().await?)));
        }
        let path = super::database(context)?;
        Ok(Self::Archive(Archive::open(&path).await.map_err(unreadable)?))
    }

    async fn page(&mut self, query: AuditQuery) -> Outcome<AuditPage> {
        match self {
            Self::Archive(archive) => audit::list(archive, &query).await.map_err(unreadable),
            Self::Daemon(client) => Ok(client.audit(query).await?),
        }
    }

    async fn details(&mut self, position: Position) -> Outcome<AuditDetails> {
        match self {
            Self::Archive(archive) => {
                let found = audit::show(archive, position).await.map_err(unreadable)?;
                found.ok_or_else(|| {
                    Failure::not_found(format!("there is no record `{position}` in the audit"))
                })
            }
            Self::Daemon(client) => Ok(client.audit_record(position).await?),
        }
    }

    async fn resolve(&mut self, given: &str) -> Outcome<SessionId> {
        if let Ok(session) = given.parse() {
            // The records of a deleted session are still there.
            return Ok(session);
        }
        let archive = match self {
            Self::Archive(archive) => archive,
            Self::Daemon(client) => return Ok(client.resolve(given).await?),
        };
        let found = archive.matching(given.to_ascii_lowercase(), 2).await.map_err(unreadable)?;
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(Failure::not_found(format!("no session's id begins or ends with `{given}`"))),
            _ => Err(Failure::usage(format!(
                "the ids of several sessions begin or end with `{given}`; give more characters"
            ))),
        }
    }

    async fn query(&mut self, wanted: Wanted) -> Outcome<AuditQuery> {
        let Wanted { since, who, session, rule } = wanted;
        let since = since.as_deref().map(|given| inputs::moment(given, Millis::now())).transpose()?;
        let session = match session {
            Some(given) => Some(self.resolve(&given).await?),
            None => None,
        };
        Ok(AuditQuery { since, who, session, rule: rule.map(RuleId), ..AuditQuery::default() })
    }

    async fn close(self) {
        if let Self::Daemon(client) = self {
            client.close().await;
        }
    }
}

pub(super) async fn list(
    context: &Context,
    wanted: Wanted,
    limit: u32,
    shown: Shown,
    from: Option<Position>,
) -> Outcome {
    let mut source = Source::open(context).await?;
    let mut query = source.query(wanted).await?;
    query.from = from;
    query.order = if shown == Shown::OldestFirst { AuditOrder::Oldest } else { AuditOrder::Newest };
    let mut records: Vec<AuditRecord> = Vec::new();
    loop {
        let left = limit - u32::try_from(records.len()).unwrap_or(limit).min(limit);
        query.limit = Some(left.clamp(1, audit::PAGE));
        let page = source.page(query.clone()).await?;
        records.extend(page.records);
        query.from = page.next;
        if page.next.is_none() || records.len() >= limit as usize {
            break;
        }
    }
    source.close().await;
    if shown == Shown::NewestLast {
        records.reverse();
    }
    if context.format() == Format::Json {
        return records.iter().try_for_each(output::json);
    }
    if records.is_empty() {
        output::note("no record matches");
        return Ok(());
    }
    let mut rows = vec![["RECORD", "TIME", "WHAT", "WHO", "SESSION", "ABOUT"].map(str::to_owned).to_vec()];
    rows.extend(records.iter().map(row));
    output::raw(output::table(&rows).as_bytes())
}

fn row(record: &AuditRecord) -> Vec<String> {
    let session = record.session.map(|session| {
        let id = session.to_string();
        id[id.len() - SHORT_ID..].to_owned()
    });
    vec![
        record.position.to_string(),
        rfc3339(record.at),
        clean::line(&record.what),
        clean::line(&record.by.to_string()),
        session.unwrap_or_else(|| "-".into()),
        clean::line(&about(record)),
    ]
}

/// What a record is about, with the ids of its rules.
fn about(record: &AuditRecord) -> String {
    if record.rules.is_empty() {
        return record.text.clone();
    }
    let rules = record.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("{} [rule {rules}]", record.text)
}

pub(super) async fn show(context: &Context, position: Position) -> Outcome {
    let mut source = Source::open(context).await?;
    let details = source.details(position).await?;
    source.close().await;
    match context.format() {
        Format::Json => output::json(&details),
        Format::Plain => output::raw(as_text(&details)?.as_bytes()),
    }
}

fn as_text(details: &AuditDetails) -> Outcome<String> {
    let AuditDetails { record, entry, link } = details;
    let log = match record.log {
        AuditLog::Daemon => "the daemon's log",
        AuditLog::Session => "the session's log",
    };
    let mut rows = vec![
        vec!["record".to_owned(), record.position.to_string()],
        vec!["time".into(), rfc3339(record.at)],
        vec!["what".into(), clean::line(&record.what)],
        vec!["who".into(), clean::line(&record.by.to_string())],
    ];
    rows.extend(record.session.map(|session| vec!["session".into(), session.to_string()]));
    rows.push(vec!["about".into(), clean::line(&about(record))]);
    rows.push(vec!["entry".into(), format!("{} of {log}", record.seq)]);
    rows.push(vec!["seal".into(), seal(link.as_ref())]);
    let mut text = output::table(&rows);
    let entry = serde_json::to_string_pretty(entry)?;
    // Writing into a string cannot fail.
    let _ = writeln!(text, "\n{}", clean::text(&entry));
    Ok(text)
}

fn seal(link: Option<&ChainLink>) -> String {
    match link {
        None => "none: the entries of sessions have no seals".into(),
        Some(ChainLink { seal: None, .. }) => {
            "missing: another program added the entry, or removed the seal".into()
        }
        Some(ChainLink { seal: Some(seal), matches: true, .. }) => {
            format!("{seal}; the entry matches its seal")
        }
        Some(ChainLink { seal: Some(seal), .. }) => {
            format!(
                "{seal}; the entry does not match its seal: somebody changed the entry or the seal before it"
            )
        }
    }
}

pub(super) async fn export(
    context: &Context,
    wanted: Wanted,
    format: AuditFormat,
    file: Option<PathBuf>,
    existing: Existing,
) -> Outcome {
    keeps_existing(file.as_deref(), existing)?;
    let mut source = Source::open(context).await?;
    let mut query = source.query(wanted).await?;
    query.order = AuditOrder::Oldest;
    query.limit = Some(audit::PAGE);
    let mut sink = Sink::open(file.as_deref(), existing)?;
    if format == AuditFormat::Csv {
        sink.write("record,time,what,who,token,frontend,session,rules,request,about\r\n")?;
    }
    let mut written = 0u64;
    loop {
        let page = source.page(query.clone()).await?;
        for record in &page.records {
            written += 1;
            match format {
                AuditFormat::Jsonl => sink.json(&serde_json::to_string(record)?)?,
                AuditFormat::Csv => sink.write(&csv(record))?,
            }
        }
        query.from = page.next;
        if page.next.is_none() {
            break;
        }
    }
    source.close().await;
    sink.finish()?;
    if let Some(file) = file {
        match context.format() {
            Format::Json => output::json(&json!({"file": file, "records": written}))?,
            Format::Plain => output::note(format!("{written} records written to `{}`", file.display())),
        }
    }
    Ok(())
}

/// A record as a line of a table, by RFC 4180.
fn csv(record: &AuditRecord) -> String {
    let (token, frontend) = match &record.by {
        portolan_core::Actor::Person { token, via, .. } => (token.to_string(), via.clone()),
        _ => (String::new(), String::new()),
    };
    let rules = record.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let fields = [
        record.position.to_string(),
        rfc3339(record.at),
        record.what.clone(),
        record.by.to_string(),
        token,
        frontend,
        record.session.map(|session| session.to_string()).unwrap_or_default(),
        rules,
        record.request.map(|request| request.to_string()).unwrap_or_default(),
        record.text.clone(),
    ];
    fields.map(|field| cell(&field)).join(",") + "\r\n"
}

/// A field in quotes. An apostrophe before `=`, `+`, `-` and `@` keeps a spreadsheet from running the text of a prompt as a
/// formula.
fn cell(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_a_table_is_quoted_and_no_formula() {
        let cells = ["a \"b\", c", "=1+1", "@x", ""].map(cell);
        assert_eq!(cells, ["\"a \"\"b\"\", c\"", "\"'=1+1\"", "\"'@x\"", "\"\""]);
    }

    #[test]
    fn the_seal_of_a_record_says_whether_the_entry_matches() {
        let link = |seal: Option<&str>, matches| {
            seal_text(&ChainLink { seal: seal.map(str::to_owned), before: "00".into(), matches })
        };
        assert!(link(Some("ab"), true).ends_with("matches its seal"));
        assert!(link(Some("ab"), false).contains("does not match"));
        assert!(link(None, false).starts_with("missing"));
        assert!(seal(None).starts_with("none"));
    }

    fn seal_text(link: &ChainLink) -> String {
        seal(Some(link))
    }
}
