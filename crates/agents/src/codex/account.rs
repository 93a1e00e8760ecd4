//! The account of Codex: who is logged in, logins and logouts. Codex itself is asked and keeps the credentials; a key
//! goes only over its pipe.

use std::sync::Arc;

use portolan_core::{
    Millis,
    event::Account as Holder,
    ports::{
        Account, AccountError, AccountState, Boxed, LogIn, Login, LoginBegun, LoginPage, LoginWay, UsageLimit,
    },
};
use serde_json::{Value, json};

use super::{
    asking::{Asking, Unanswered},
    probe::{LOG_IN, Prober},
    wire::some_text,
};

/// Reports that a login has ended.
const COMPLETED: &str = "account/login/completed";

/// How Codex can be logged in.
pub(super) const WAYS: [LoginWay; 3] = [LoginWay::Browser, LoginWay::DeviceCode, LoginWay::ApiKey];

/// The account of Codex.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    prober: Arc<Prober>,
}

impl Purse {
    pub(super) fn new(prober: Arc<Prober>) -> Self {
        Self { prober }
    }

    async fn look_now(&self) -> Result<AccountState, AccountError> {
        Ok(look(&self.prober).await?)
    }

    async fn log_out_now(&self) -> Result<AccountState, AccountError> {
        let mut line = Asking::begin(&self.prober).await?;
        let told = async {
            line.ask("account/logout", None).await?;
            read(&mut line).await
        };
        let told = told.await;
        line.end().await;
        Ok(told?)
    }

    async fn log_in_now(&self, with: LogIn) -> Result<LoginBegun, AccountError> {
        let mut line = Asking::begin_listening(&self.prober, COMPLETED).await?;
        let begun = match line.ask("account/login/start", Some(asked(&with))).await {
            Ok(begun) => begun,
            Err(refused) => {
                line.end().await;
                return Err(refused.into());
            }
        };
        let url = ["authUrl", "verificationUrl"].into_iter().find_map(|key| some_text(&begun, key));
        let page = url.map(|url| LoginPage { url, code: some_text(&begun, "userCode") });
        let end = Box::pin(async move {
            let told = completed(&mut line).await;
            line.end().await;
            told
        });
        Ok(LoginBegun { page, end })
    }
}

impl Account for Purse {
    fn look(&self) -> Boxed<'static, Result<AccountState, AccountError>> {
        let purse = self.clone();
        Box::pin(async move { purse.look_now().await })
    }

    fn log_in(&self, with: LogIn) -> Boxed<'static, Result<LoginBegun, AccountError>> {
        let purse = self.clone();
        Box::pin(async move { purse.log_in_now(with).await })
    }

    fn log_out(&self) -> Boxed<'static, Result<AccountState, AccountError>> {
        let purse = self.clone();
        Box::pin(async move { purse.log_out_now().await })
    }
}

impl From<Unanswered> for AccountError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NotInstalled(why) | Unanswered::Lost(why) => Self(why),
            Unanswered::Refused(error) => Self(format!("Codex refused: {error}")),
        }
    }
}

/// Who is logged in, and whether a login is needed.
pub(super) async fn look(prober: &Prober) -> Result<AccountState, Unanswered> {
    let mut line = Asking::begin(prober).await?;
    let told = read(&mut line).await;
    line.end().await;
    told
}

fn asked(with: &LogIn) -> Value {
    match with {
        LogIn::Browser => json!({ "type": "chatgpt" }),
        LogIn::DeviceCode => json!({ "type": "chatgptDeviceCode" }),
        LogIn::ApiKey { key } => json!({ "type": "apiKey", "apiKey": key.reveal() }),
    }
}

/// Waits for the end of a login.
async fn completed(line: &mut Asking) -> Result<AccountState, AccountError> {
    let told = line.hear().await?;
    if told["success"] == true {
        Ok(read(line).await?)
    } else {
        let why = some_text(&told, "error").unwrap_or_else(|| "Codex gave no reason".into());
        Err(AccountError(format!("the login failed: {why}")))
    }
}

async fn read(line: &mut Asking) -> Result<AccountState, Unanswered> {
    let told = line.ask("account/read", Some(json!({ "refreshToken": false }))).await?;
    // Only accounts of ChatGPT have limits.
    let limits = if told["account"]["type"] == "chatgpt" {
        line.ask("account/rateLimits/read", None).await.unwrap_or_default()
    } else {
        Value::Null
    };
    Ok(state(&told, &limits))
}

/// Who is logged in, as Codex reports it.
fn state(told: &Value, limits: &Value) -> AccountState {
    let account = holder(&told["account"]);
    let how = || {
        let source = account.as_ref()?.token_source.clone()?;
        let email = account.as_ref()?.email.clone().map(|email| format!(", {email}"));
        Some(source + &email.unwrap_or_default())
    };
    let login = match how() {
        Some(how) => Some(Login::LoggedIn { how }),
        None if told["requiresOpenaiAuth"] == true => Some(Login::LoggedOut { way_out: LOG_IN.into() }),
        // The user's own model provider.
        None => None,
    };
    let limits = ["primary", "secondary"].into_iter().filter_map(|name| limit(&limits["rateLimits"][name]));
    AccountState { login, account, limits: limits.collect() }
}

/// The holder of the account.
pub(super) fn holder(told: &Value) -> Option<Holder> {
    told.is_object().then(|| Holder {
        email: some_text(told, "email"),
        organization: some_text(told, "workspaceName"),
        subscription: some_text(told, "planType"),
        token_source: some_text(told, "type"),
    })
}

fn limit(told: &Value) -> Option<UsageLimit> {
    Some(UsageLimit {
        used_percent: told["usedPercent"].as_f64()?,
        window_minutes: told["windowDurationMins"].as_u64(),
        resets_at: told["resetsAt"].as_i64().map(|seconds| Millis(seconds.saturating_mul(1000))),
    })
}

#[cfg(test)]
mod tests {
    use portolan_core::ports::Secret;

    use super::*;
    use crate::{Supervision, codex::Config};

    // covers: 003-050, 003-051
    #[test]
    fn an_account_is_shown_with_its_limits_and_an_unneeded_login_is_no_error() {
        let chatgpt = json!({ "type": "chatgpt", "email": "ada@example.org", "planType": "plus" });
        let window = json!({ "usedPercent": 12.5, "windowDurationMins": 300, "resetsAt": 1_900_000_000 });
        let limits = json!({ "rateLimits": { "primary": window, "secondary": null } });
        let expected = AccountState {
            login: Some(Login::LoggedIn { how: "chatgpt, ada@example.org".into() }),
            account: Some(Holder {
                email: Some("ada@example.org".into()),
                organization: None,
                subscription: Some("plus".into()),
                token_source: Some("chatgpt".into()),
            }),
            limits: vec![UsageLimit {
                used_percent: 12.5,
                window_minutes: Some(300),
                resets_at: Some(Millis(1_900_000_000_000)),
            }],
        };
        assert_eq!(state(&json!({ "account": chatgpt, "requiresOpenaiAuth": true }), &limits), expected);
        let nobody = state(&json!({ "account": null, "requiresOpenaiAuth": true }), &Value::Null);
        assert_eq!(nobody.login, Some(Login::LoggedOut { way_out: LOG_IN.into() }));
        let own = state(&json!({ "account": null, "requiresOpenaiAuth": false }), &Value::Null);
        assert_eq!(own, AccountState::default());
    }

    /// An app-server that knows one page and takes one key.
    const CODEX: &str = r#"
        [ "$1" = --version ] && { echo "codex-cli 0.166.0"; exit 0; }
        login=null
        while read -r line; do
            id=${line#*\"id\":}; id=${id%%[!0-9]*}
            case "$line" in
            *'"initialize"'*) echo "{\"id\":$id,\"result\":{}}" ;;
            *'"account/read"'*) echo "{\"id\":$id,\"result\":{\"account\":$login,\"requiresOpenaiAuth\":true}}" ;;
            *'"account/logout"'*) login=null; echo "{\"id\":$id,\"result\":{}}" ;;
            *sk-right*) login='{"type":"apiKey"}'
                # Before the answer: nobody says in which order they come.
                echo '{"method":"account/login/completed","params":{"loginId":null,"success":true,"error":null}}'
                echo "{\"id\":$id,\"result\":{\"type\":\"apiKey\"}}" ;;
            *sk-wrong*) echo "{\"error\":{\"code\":-32600,\"message\":\"no such key\"},\"id\":$id}" ;;
            *'"chatgptDeviceCode"'*)
                echo "{\"id\":$id,\"result\":{\"loginId\":\"1\",\"verificationUrl\":\"https://login.example\",\"userCode\":\"AB-12\"}}"
                echo '{"method":"account/login/completed","params":{"loginId":"1","success":false,"error":"declined"}}' ;;
            esac
        done
    "#;

    fn purse(folder: &std::path::Path) -> Purse {
        let script = folder.join("codex");
        std::fs::write(&script, CODEX).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let supervision = Arc::new(Supervision::new("test", vec![("PATH".into(), path)]));
        let command = vec!["sh".into(), script.into_os_string()];
        let config = Config { command, ..Config::default() };
        Purse::new(Arc::new(Prober::new(&config, supervision)))
    }

    // covers: 003-050
    #[tokio::test]
    async fn a_login_ends_when_codex_says_so_whether_by_a_key_or_on_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let purse = purse(folder.path());
        let logged_out = Some(Login::LoggedOut { way_out: LOG_IN.into() });
        assert_eq!(purse.look().await.unwrap().login, logged_out);
        let with = |key: &str| LogIn::ApiKey { key: Secret::new(key) };
        let LoginBegun { page, end } = purse.log_in(with("sk-right")).await.unwrap();
        let state = end.await.unwrap();
        assert_eq!((page, state.login), (None, Some(Login::LoggedIn { how: "apiKey".into() })));
        let refused = purse.log_in(with("sk-wrong")).await.unwrap_err();
        assert_eq!(refused, AccountError("Codex refused: no such key".into()));
        let LoginBegun { page, end } = purse.log_in(LogIn::DeviceCode).await.unwrap();
        let expected = LoginPage { url: "https://login.example".into(), code: Some("AB-12".into()) };
        assert_eq!(page, Some(expected));
        assert_eq!(end.await.unwrap_err(), AccountError("the login failed: declined".into()));
        assert_eq!(purse.log_out().await.unwrap().login, logged_out);
    }
}
