//! An agent's account: who is logged in, and how that changes. An optional part of an agent.
//!
//! The account is the agent's own and holds for everything that uses its home, inside Portolan and beside it. What a login
//! takes is passed on and kept nowhere here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Boxed, Login};
use crate::{Millis, event::Account as Holder};

/// The login of an agent, where it can be looked at and changed by asking the agent itself. Each call may start a program,
/// and ends it.
pub trait Account: fmt::Debug + Send + Sync {
    /// Who is logged in.
    fn look(&self) -> Boxed<'static, Result<AccountState, AccountError>>;

    /// Begins a login, by a way that is among the agent's [`logins`](crate::Capabilities::logins).
    fn log_in(&self, with: LogIn) -> Boxed<'static, Result<LoginBegun, AccountError>>;

    /// Logs it out, for everything that uses its home.
    fn log_out(&self) -> Boxed<'static, Result<AccountState, AccountError>>;
}

/// A way to log an agent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LoginWay {
    /// A page that is opened in a browser on the machine where the agent is.
    Browser,
    /// A page that is opened anywhere, and a code to type there.
    DeviceCode,
    /// A key.
    ApiKey,
}

impl LoginWay {
    /// What people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Browser => "in a browser",
            Self::DeviceCode => "by a code",
            Self::ApiKey => "with a key",
        }
    }
}

/// A login as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum LogIn {
    /// By a page that is opened in a browser on the machine where the agent is.
    Browser,
    /// By a page that is opened anywhere, and a code to type there.
    DeviceCode,
    /// With a key.
    ApiKey {
        /// The key. It is passed on to the agent, and neither kept nor shown.
        #[cfg_attr(feature = "schema", schemars(schema_with = "crate::shape::secret"), ts(type = "string"))]
        key: Secret,
    },
}

impl LogIn {
    /// Which way it is.
    pub fn way(&self) -> LoginWay {
        match self {
            Self::Browser => LoginWay::Browser,
            Self::DeviceCode => LoginWay::DeviceCode,
            Self::ApiKey { .. } => LoginWay::ApiKey,
        }
    }
}

/// A text that is never shown. What is printed of it says only that there is one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever must pass it on.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A login that has begun.
pub struct LoginBegun {
    /// What a person has to do for it, where anything.
    pub page: Option<LoginPage>,
    /// What came of it. Whoever drops it gives the login up.
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
    /// Its address.
    pub url: String,
    /// The code to type there, where it takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub code: Option<String>,
}

/// Who is logged in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct AccountState {
    /// Whether anyone is; absent where the agent needs no login, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub login: Option<Login>,
    /// Who, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub account: Option<Holder>,
    /// How much of what the account may use is used, where it tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<UsageLimit>,
}

/// A limit of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, ts_rs::TS))]
pub struct UsageLimit {
    /// How much of it is used.
    pub used_percent: f64,
    /// Over how many minutes it counts, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional, type = "number"))]
    pub window_minutes: Option<u64>,
    /// When it begins anew, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub resets_at: Option<Millis>,
}

/// Why an account cannot be looked at or changed.
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
