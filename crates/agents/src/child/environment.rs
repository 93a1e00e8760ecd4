//! The environment of a child: the user's environment, less a named deny list, plus the session's variables.
//!
//! Pure: the same input gives the same environment. It reads no variable of this process.

use std::ffi::{OsStr, OsString};

use indexmap::IndexMap;

/// The variable that marks every process that an agent starts: `<home key>.<session>.<random>`.
pub const MARKER: &str = "PORTOLAN_CHILD";

/// Never passed on from the user's environment, and refused if a session asks for it. A name that ends in `*` stands
/// for every name with that prefix.
pub const DENIED: &[(&str, &str)] = &[
    ("PORTOLAN_*", "is a variable of Portolan itself, which agents never get"),
    // The dynamic loader: foreign code in every program that the agent starts.
    ("LD_*", "makes the loader run foreign code in every program"),
    ("DYLD_*", "makes the loader run foreign code in every program"),
    ("GCONV_PATH", "makes the C library load foreign code"),
    ("GLIBC_TUNABLES", "changes the C library under every program"),
    // Runtimes that run code named in a variable before the program's own.
    ("NODE_OPTIONS", "makes Node run foreign code first"),
    ("NODE_REPL_EXTERNAL_MODULE", "makes Node run foreign code first"),
    ("BUN_OPTIONS", "makes Bun run foreign code first"),
    ("BUN_INSPECT*", "opens Bun's debugger to others"),
    ("PYTHONSTARTUP", "makes Python run foreign code first"),
    ("PYTHONHOME", "makes Python load a foreign standard library"),
    ("PERL5OPT", "makes Perl run foreign code first"),
    ("RUBYOPT", "makes Ruby run foreign code first"),
    ("JAVA_TOOL_OPTIONS", "makes Java run foreign code first"),
    ("JDK_JAVA_OPTIONS", "makes Java run foreign code first"),
    ("_JAVA_OPTIONS", "makes Java run foreign code first"),
    // Shells that run a file, or a function, named in a variable.
    ("BASH_ENV", "makes every shell script run a foreign file first"),
    ("ENV", "makes every shell run a foreign file first"),
    ("ZDOTDIR", "makes every zsh run foreign files first"),
    ("PROMPT_COMMAND", "makes a shell run foreign commands"),
    ("SHELLOPTS", "changes every shell script"),
    ("BASHOPTS", "changes every shell script"),
    ("BASH_FUNC_*", "replaces commands by shell functions"),
];

/// Passed on from the user's environment, where there are good reasons for it, but refused if a session asks for it: a
/// client that may only make sessions must not choose which programs run.
pub const REFUSED: &[(&str, &str)] = &[
    ("PATH", "chooses which programs run"),
    ("PYTHONPATH", "makes Python load foreign modules"),
    ("PERL5LIB", "makes Perl load foreign modules"),
    ("RUBYLIB", "makes Ruby load foreign modules"),
    ("CLASSPATH", "makes Java load foreign classes"),
    ("GIT_SSH", "makes git run a foreign program"),
    ("GIT_SSH_COMMAND", "makes git run a foreign program"),
    ("GIT_PROXY_COMMAND", "makes git run a foreign program"),
    ("GIT_EXTERNAL_DIFF", "makes git run a foreign program"),
    ("GIT_EXEC_PATH", "makes git run foreign programs"),
    ("GIT_CONFIG*", "makes git run foreign programs"),
    ("GIT_PAGER", "makes git run a foreign program"),
    ("GIT_EDITOR", "makes git run a foreign program"),
    ("GIT_SEQUENCE_EDITOR", "makes git run a foreign program"),
    ("GIT_ASKPASS", "makes git run a foreign program"),
    ("SSH_ASKPASS", "makes ssh run a foreign program"),
    ("PAGER", "makes many programs run a foreign one"),
    ("EDITOR", "makes many programs run a foreign one"),
    ("VISUAL", "makes many programs run a foreign one"),
    ("SHELL", "makes many programs run a foreign one"),
    ("LESSOPEN", "makes less run a foreign program"),
    ("LESSCLOSE", "makes less run a foreign program"),
    ("NODE_PATH", "makes Node load foreign modules"),
    ("PYTHONUSERBASE", "makes Python load foreign modules"),
    ("RUSTC_WRAPPER", "makes cargo run a foreign program"),
    ("RUSTC_WORKSPACE_WRAPPER", "makes cargo run a foreign program"),
    ("npm_config_*", "makes npm run foreign programs"),
    ("NPM_CONFIG_*", "makes npm run foreign programs"),
];

/// A variable that a session asked for and does not get.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedVariable {
    /// The variable is on a deny list.
    #[error("the environment variable `{name}` is refused: it {why}{}", way_out(name))]
    Denied {
        /// Its name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// It cannot be a variable.
    #[error("`{}` cannot be an environment variable: {why}", name.escape_debug())]
    Malformed {
        /// Its name.
        name: String,
        /// The reason.
        why: &'static str,
    },
}

/// The environment of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// All variables, sorted by name.
    pub variables: Vec<(OsString, OsString)>,
    /// The user's variables that the child does not get, sorted by name.
    pub withheld: Vec<OsString>,
}

/// The user's environment less [`DENIED`], plus the session's variables.
pub fn environment(
    user: &[(OsString, OsString)],
    asked: &IndexMap<String, String>,
) -> Result<Environment, RefusedVariable> {
    for (name, value) in asked {
        admit(name, value)?;
    }
    let mut environment = Environment::default();
    for (name, value) in user {
        if listed(DENIED, name).is_some() {
            environment.withheld.push(name.clone());
        } else if !asked.contains_key(&*name.to_string_lossy()) {
            environment.variables.push((name.clone(), value.clone()));
        }
    }
    environment.variables.extend(asked.iter().map(|(name, value)| (name.into(), value.into())));
    environment.variables.sort();
    environment.withheld.sort();
    Ok(environment)
}

/// Whether a session may set this variable.
pub fn admit(name: &str, value: &str) -> Result<(), RefusedVariable> {
    if let Some(why) = listed(DENIED, name.as_ref()).or_else(|| listed(REFUSED, name.as_ref())) {
        return Err(RefusedVariable::Denied { name: name.into(), why });
    }
    let malformed = |why| Err(RefusedVariable::Malformed { name: name.into(), why });
    if name.is_empty() || name.contains(['=', '\0']) {
        return malformed("the name is empty or contains `=` or NUL");
    }
    if value.contains('\0') {
        return malformed("the value contains NUL");
    }
    Ok(())
}

/// What to do about a variable that the user may set, and a session may not.
fn way_out(name: &str) -> &'static str {
    if listed(REFUSED, name.as_ref()).is_some() { "; set the variable for the daemon instead" } else { "" }
}

/// Why `name` is on `list`, if it is.
fn listed(list: &[(&str, &'static str)], name: &OsStr) -> Option<&'static str> {
    let name = name.as_encoded_bytes();
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning.as_bytes()),
        None => name == pattern.as_bytes(),
    };
    list.iter().find(|(pattern, _)| fits(pattern)).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn asked(variables: &[(&str, &str)]) -> IndexMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    // covers: 003-096
    #[test]
    fn our_own_tokens_and_injection_are_withheld_and_the_rest_is_passed_on() {
        let own = user(&[
            ("PATH", "/bin"),
            ("PORTOLAN_TOKEN", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("NODE_OPTIONS", "--require /evil.js"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("LANG", "C"),
        ]);
        let environment = environment(&own, &asked(&[("LANG", "de"), ("NEW", "1")])).unwrap();
        assert_eq!(
            environment,
            Environment {
                variables: user(&[("LANG", "de"), ("NEW", "1"), ("PATH", "/bin")]),
                withheld: ["BASH_FUNC_ls%%", "LD_PRELOAD", "NODE_OPTIONS", "PORTOLAN_TOKEN"]
                    .map(Into::into)
                    .into(),
            }
        );
    }

    // covers: 003-096
    #[test]
    fn a_session_cannot_set_variables_that_make_programs_run_foreign_code() {
        for name in
            ["LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "BASH_ENV", "PORTOLAN_CHILD", "PATH"]
        {
            let refused = environment(&[], &asked(&[(name, "x")])).unwrap_err();
            assert!(
                matches!(&refused, RefusedVariable::Denied { name: told, .. } if told == name),
                "{name} gave {refused:?}"
            );
        }
        assert_eq!(
            environment(&[], &asked(&[("NODE_OPTIONS", "x")])).unwrap_err().to_string(),
            "the environment variable `NODE_OPTIONS` is refused: it makes Node run foreign code first"
        );
        assert!(environment(&[], &asked(&[("API_KEY", "x")])).is_ok());
    }

    #[test]
    fn an_invalid_variable_is_refused() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
            assert!(
                matches!(admit(name, value), Err(RefusedVariable::Malformed { .. })),
                "{name:?} {value:?}"
            );
        }
    }
}
