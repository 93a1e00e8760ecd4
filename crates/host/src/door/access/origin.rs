//! The check of origins: whether the page that sends a request may use this server at all.

use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use portolan_core::RefusalCode;

use super::{BadName, arrival::Seen, open::OpenPaths};
use crate::door::{
    authority::Origin,
    denied::Denied,
    rules::{Below, Rules},
};

/// The origins whose pages are allowed.
#[derive(Debug)]
pub(super) struct OriginCheck {
    origins: Vec<Origin>,
    /// Rules of frontends for their paths.
    below: Vec<Below>,
}

impl OriginCheck {
    pub(super) fn new(configured: &[String]) -> Result<Self, BadName> {
        Ok(Self { origins: origins(configured)?, below: Vec::new() })
    }

    /// Adds a frontend's rules for everything below this path.
    pub(super) fn add(&mut self, base: &'static str, rules: Rules) -> Result<(), BadName> {
        let Rules { origins: allowed, setting, refusal } = rules;
        self.below.push(Below { base, origins: origins(&allowed)?, setting, refusal });
        Ok(())
    }

    /// The rules for a path, if its frontend has some.
    fn rules_of(&self, path: &str) -> Option<&Below> {
        self.below.iter().find(|rules| rules.covers(path))
    }

    /// The body of a refusal on this path, if its frontend has its own form.
    pub(super) fn refusal_on(&self, path: &str, denied: &Denied) -> Option<serde_json::Value> {
        self.rules_of(path).map(|rules| (rules.refusal)(denied))
    }

    /// Whether a page may send this request at all. Returns the configured origin, for the CORS answer.
    pub(super) fn check(
        &self,
        parts: &Parts,
        seen: &Seen,
        open: &OpenPaths,
    ) -> Result<Option<HeaderValue>, Denied> {
        let forbidden =
            |message: &str| Err(Denied::new(StatusCode::FORBIDDEN, RefusalCode::Forbidden, message));
        let mut lines = parts.headers.get_all(header::ORIGIN).iter();
        let configured = match (lines.next(), lines.next()) {
            (None, _) => None,
            (Some(line), None) => {
                let Some(origin) = line.to_str().ok().and_then(Origin::parse) else {
                    return forbidden(
                        "the Origin header holds no http or https origin, so this page may not talk to this server; \
                         open the page at an http or https address",
                    );
                };
                if self.origins.contains(&origin) || self.is_welcome_below(&origin, parts.uri.path()) {
                    Some(line.clone())
                } else if is_own_origin(&origin, seen) {
                    None
                } else {
                    // The narrowest setting: an origin for one frontend need not be allowed everywhere.
                    let setting =
                        self.rules_of(parts.uri.path()).map_or("listen.origins", |rules| rules.setting);
                    return forbidden(&format!(
                        "pages of this origin may not talk to this server; to allow the origin, add it to `{setting}`"
                    ));
                }
            }
            (Some(_), Some(_)) => return forbidden("a request may have at most one Origin header"),
        };
        if configured.is_none() && is_foreign_fetch(&parts.headers) && !is_visit(parts, open) {
            return forbidden("pages of other sites may not talk to this server");
        }
        Ok(configured)
    }

    /// Pages of this origin may use that path.
    fn is_welcome_below(&self, origin: &Origin, path: &str) -> bool {
        self.rules_of(path).is_some_and(|rules| rules.origins.contains(origin))
    }
}

/// Somebody follows a link to the page: the link may be anywhere, and gets only what is open to everyone.
fn is_visit(parts: &Parts, open: &OpenPaths) -> bool {
    let is = |name: &str, value: &str| parts.headers.get(name).is_some_and(|v| v == value);
    open.cover(parts) && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// The page was loaded under the same name by which it calls us now.
fn is_own_origin(origin: &Origin, seen: &Seen) -> bool {
    // No page can use the Unix socket.
    let Some(called) = &seen.host else { return false };
    let same = origin.host == called.host && origin.port == called.effective_port(seen.scheme);
    origin.scheme == seen.scheme && same
}

fn origins(texts: &[String]) -> Result<Vec<Origin>, BadName> {
    let origin = |text: &String| {
        let bare = text.strip_suffix('/').unwrap_or(text);
        Origin::parse(bare).ok_or_else(|| BadName::Origin(text.clone()))
    };
    texts.iter().map(origin).collect()
}

/// The browser reports that another page sent this. Another port of this machine is "same-site" to the browser, and
/// foreign to us.
fn is_foreign_fetch(headers: &HeaderMap) -> bool {
    headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none")
}
