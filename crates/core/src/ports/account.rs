//! An agent's account: who is logged in, and how to change the login. An optional part of an agent.
//!
//! The account belongs to the agent and applies to every program that uses the agent's home, inside Portolan and
//! outside. Portolan passes the login's data on and keeps none of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Boxed, Login};
use crate::{Millis, event::Account as Holder};

/// The login of an agent, if the agent itself can read and change it. Each call may start a program, and ends it.
pub trait Account: fmt::Debug + Send + Sync {
    /// Who is logged in.
    fn look(&self) -> Boxed<'static, Result<AccountState, AccountError>>;

    /// Begins a login in one of the agent's [`logins`](crate::Capabilities::logins).
    fn log_in(&self, with: LogIn) -> Boxed<'static, Result<LoginBegun, AccountError>>;

    /// Logs the agent out, for every program that uses its home.
    fn log_out(&self) -> Boxed<'static, Result<AccountState, AccountError>>;
}

/// A way to log an agent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LoginWay {
    /// A page that is opened in a browser on the agent's machine.
    Browser,
    /// A page that is opened on any device, and a code to type there.
    DeviceCode,
    /// An API key.
    ApiKey,
}

impl LoginWay {
    /// The way's name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Browser => "in a browser",
            Self::DeviceCode => "with a code",
            Self::ApiKey => "with a key",
        }
    }
}

/// A requested login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum LogIn {
    /// With a page that is opened in a browser on the agent's machine.
    Browser,
    /// With a page that is opened on any device, and a code to type there.
    DeviceCode,
    /// With an API key.
    ApiKey {
        /// The key. Portolan passes the key to the agent, and neither keeps nor shows it.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::secret"), ts(type = "string"))]
        key: Secret,
    },
}

impl LogIn {
    /// The way of this login.
    pub fn way(&self) -> LoginWay {
        match self {
            Self::Browser => LoginWay::Browser,
            Self::DeviceCode => LoginWay::DeviceCode,
            Self::ApiKey { .. } => LoginWay::ApiKey,
        }
    }
}

/// A text that is never shown. Its debug form says only that there is a text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for passing it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A login in progress.
pub struct LoginBegun {
    /// The page that a person must open, if there is one.
    pub page: Option<LoginPage>,
    /// The result of the login. Dropping it cancels the login.
    pub end: Boxed<'static, Result<AccountState, AccountError>>,
}

impl fmt::Debug for LoginBegun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginBegun").field("page", &self.page).finish_non_exhaustive()
    }
}

/// The page on which a person logs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct LoginPage {
    /// The page's address.
    pub url: String,
    /// The code to type there, if the page needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub code: Option<String>,
}

/// Who is logged in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AccountState {
    /// Whether the agent is logged in; absent if the agent needs no login or does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub login: Option<Login>,
    /// The account's holder, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub account: Option<Holder>,
    /// How much of its limits the account has used, if the agent reports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<UsageLimit>,
}

/// A limit of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct UsageLimit {
    /// The used part of the limit, in percent.
    pub used_percent: f64,
    /// The limit's period in minutes, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub window_minutes: Option<u64>,
    /// When the limit's next period begins, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub resets_at: Option<Millis>,
}

/// Why Portolan cannot read or change an account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccountError(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_passed_on_and_never_shown() {
        let with = LogIn::ApiKey { key: Secret::new("sk-harbour") };
        assert_eq!(format!("{with:?}"), "ApiKey { key: *** }");
        let json = serde_json::to_value(&with).expect("plain JSON");
        assert_eq!(json, serde_json::json!({ "way": "api_key", "key": "sk-harbour" }));
        assert_eq!(serde_json::from_value::<LogIn>(json).expect("the same form"), with);
        assert_eq!(with.way(), LoginWay::ApiKey);
    }
}
