//! Protected places: files that make other programs run something, or that hold secrets. Writing to one of them is as good
//! as a shell, so that nothing may approve it but a person who was asked about that file.
//!
//! A place is protected by its name, wherever it lies: a path of which any part has such a name is inside one. Names are
//! compared without case, since some disks do not tell cases apart.

use std::{collections::HashMap, path::Path, sync::LazyLock};

use super::{
    facts::Facts,
    glob, tool,
    words::{UNKNOWN, WILDCARD},
};

/// What a protected place belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hooks and settings of version control, and what a push runs.
    VersionControl,
    /// Settings, hooks and tool servers of coding agents.
    Agent,
    /// Settings of editors, which start programs with a folder.
    Editor,
    /// What shells, package managers and debuggers read when they start.
    Startup,
    /// Keys, tokens and passwords.
    Credentials,
    /// Portolan's own files.
    Portolan,
}

impl Kind {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::VersionControl => "version control",
            Self::Agent => "settings of agents",
            Self::Editor => "settings of editors",
            Self::Startup => "startup files of programs",
            Self::Credentials => "credentials",
            Self::Portolan => "Portolan itself",
        }
    }
}

/// Names of protected files and folders, in lower case.
const NAMES: [(Kind, &str); 6] = [
    (
        Kind::VersionControl,
        ".git .gitconfig .gitmodules .githooks .husky .hg .hgrc .svn .jj .pre-commit-config.yaml lefthook.yml \
         lefthook.yaml .lefthook.yml .lefthook.yaml .gitlab-ci.yml .gitlab-ci.yaml .gitlab .circleci .travis.yml \
         .drone.yml .woodpecker .woodpecker.yml .woodpecker.yaml .buildkite .gitea .forgejo azure-pipelines.yml \
         bitbucket-pipelines.yml jenkinsfile appveyor.yml .appveyor.yml",
    ),
    (
        Kind::Agent,
        // Copilot reads its hooks in `.github`, and a push runs what stands in its `workflows`.
        ".claude .claude.json .claude-plugin .codex .gemini .qwen .opencode opencode.json opencode.jsonc .kilo \
         .kilocode kilo.json kilo.jsonc .goose .copilot .cline .clinerules .kiro .cursor .cursorrules .windsurfrules .roo .roomodes .windsurf .codeium \
         .continue .aider.conf.yml .amp .augment .crush crush.json .crush.json .factory .junie .openhands .trae .vibe \
         .agent .agents .mcp.json mcp.json .github",
    ),
    (
        Kind::Editor,
        ".vscode .vscode-server .idea .fleet .zed .vim .vimrc .exrc .nvim .nvimrc .nvim.lua .emacs .emacs.d \
         .dir-locals.el .devcontainer .devcontainer.json",
    ),
    (
        Kind::Startup,
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin \
         .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .inputrc .envrc .direnv .xinitrc .xprofile .xserverrc \
         .xsession .xsessionrc .tmux.conf .screenrc .config .local .ripgreprc .tool-versions .mise .mise.toml \
         mise.toml .npmrc .yarnrc .yarnrc.yml .yarn .pnpmfile.cjs .cargo .gradle .m2 .mvn .bundle .pythonrc .gdbinit .lldbinit \
         .irbrc .pryrc .rprofile .ghci .psqlrc .sqliterc .curlrc .wgetrc",
    ),
    (
        Kind::Credentials,
        ".ssh .gnupg .aws .azure .gcloud .kube .docker .netrc _netrc .pgpass .my.cnf .git-credentials .pypirc \
         .vault-token .terraformrc .terraform.d .env credentials.json .credentials.json id_rsa id_dsa id_ecdsa \
         id_ed25519 authorized_keys known_hosts",
    ),
    (Kind::Portolan, ".portolan portolan.toml"),
];

/// How protected names can begin, in lower case.
const BEGINNINGS: [(Kind, &str); 1] = [(Kind::Credentials, ".env.")];

/// How protected names can end, in lower case.
const ENDINGS: [(Kind, &str); 8] = [
    (Kind::Editor, ".code-workspace"),
    (Kind::Editor, ".sublime-project"),
    (Kind::Credentials, ".pem"),
    (Kind::Credentials, ".key"),
    (Kind::Credentials, ".p12"),
    (Kind::Credentials, ".pfx"),
    (Kind::Credentials, ".jks"),
    (Kind::Credentials, ".kdbx"),
];

/// The first part of a path that is protected by its name, and what it belongs to.
pub fn protected(path: &Path) -> Option<(Kind, String)> {
    // A folder with a `HEAD` may be a repository, whose settings name programs that every `git` runs.
    if path.file_name().is_some_and(|name| name == "HEAD") {
        return Some((Kind::VersionControl, "HEAD".into()));
    }
    path.components().find_map(|part| {
        let name = part.as_os_str().to_string_lossy();
        Some((kind_of(&name.to_lowercase())?, name.into_owned()))
    })
}

/// What a protected name belongs to.
pub(super) fn of_name(name: &str) -> Option<Kind> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return kind_of(&name.to_lowercase());
    }
    kind_of(name)
}

/// How many protected files end. A wildcard before it says nothing about the name: `*.json`.
const COMMON_ENDINGS: [&str; 6] = [".json", ".jsonc", ".toml", ".yml", ".yaml", ".conf"];

/// The first protected name that `counts`, and that a name with wildcards or unknown places in it may become. What is
/// known of the name must say more than any name does.
pub(super) fn that_may_be(name: &str, counts: &dyn Fn(Kind) -> bool) -> Option<(Kind, String)> {
    let marks = [WILDCARD, UNKNOWN];
    if !name.contains(marks) {
        return None;
    }
    let name = name.to_lowercase();
    let known = name.replace(marks, "");
    let says_something = match known.as_str() {
        "" => false,
        // Every hidden file of a folder; but any file that a program finds there says nothing.
        "." => name == format!(".{WILDCARD}"),
        known => !COMMON_ENDINGS.contains(&known),
    };
    if !says_something {
        return None;
    }
    let pattern = name.replace(marks, "*");
    let hides_dot = name.starts_with(WILDCARD);
    let whole = BY_NAME.iter().filter(|(known, _)| !(hides_dot && known.starts_with('.')));
    let whole = whole.filter(|(known, kind)| counts(**kind) && glob::matches(&pattern, known));
    let begins = BEGINNINGS
        .iter()
        .filter(|(kind, begin)| !hides_dot && counts(*kind) && glob::overlap(&pattern, &format!("{begin}*")));
    // Of an ending, the dot and a letter must be known.
    let ends = ENDINGS.iter().filter(|(kind, ending)| {
        let spelt = |at: usize| {
            let (before, behind) = ending.split_at(at);
            name.match_indices(before).any(|(found, _)| {
                let rest = &name[found + before.len()..];
                rest.contains(marks) && glob::matches(&rest.replace(marks, "*"), behind)
            })
        };
        counts(*kind) && (2..ending.len()).any(spelt)
    });
    let found = whole.map(|(name, kind)| (*kind, *name)).chain(begins.chain(ends).copied());
    found.min_by_key(|(_, name)| *name).map(|(kind, name)| (kind, name.to_owned()))
}

/// Is this real path in a place that nobody reads or changes unseen? Reading is guarded only where a secret may lie.
pub fn guarded(path: &Path, does: tool::Kind, facts: &Facts) -> Option<(Kind, String)> {
    let own = || facts.is_own(path).then(|| (Kind::Portolan, path.display().to_string()));
    let found = own().or_else(|| protected(path))?;
    let is_secret = matches!(found.0, Kind::Credentials | Kind::Portolan);
    (is_secret || does != tool::Kind::Read).then_some(found)
}

/// Every protected name. Each word of each command is looked up here, so the lists are not read again each time.
static BY_NAME: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for (kind, names) in NAMES {
        for name in names.split_ascii_whitespace() {
            all.entry(name).or_insert(kind);
        }
    }
    all
});

fn kind_of(name: &str) -> Option<Kind> {
    let whole = || BY_NAME.get(name).copied();
    let begins = || BEGINNINGS.iter().find(|(_, begin)| name.starts_with(begin)).map(|(kind, _)| *kind);
    let ends = || ENDINGS.iter().find(|(_, end)| name.ends_with(end)).map(|(kind, _)| *kind);
    whole().or_else(begins).or_else(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_other_programs_run_something_is_protected_wherever_it_lies_and_in_any_case() {
        for (kind, path) in [
            (Kind::VersionControl, "/home/ada/shop/.git/hooks/pre-commit"),
            (Kind::VersionControl, "/home/ada/shop/vendored/.GIT/config"),
            (Kind::VersionControl, "/home/ada/shop/.git"),
            (Kind::VersionControl, "/home/ada/shop/HEAD"),
            (Kind::VersionControl, "/home/ada/shop/.gitlab-ci.yml"),
            (Kind::Startup, "/home/ada/shop/.mvn/extensions.xml"),
            (Kind::Agent, "/home/ada/shop/.claude/settings.json"),
            (Kind::Agent, "/home/ada/shop/.Claude/Settings.json"),
            (Kind::Agent, "/home/ada/shop/.codex/config.toml"),
            (Kind::Agent, "/home/ada/shop/.gemini/settings.json"),
            (Kind::Agent, "/home/ada/shop/.qwen/settings.json"),
            (Kind::Agent, "/home/ada/shop/.opencode/plugin/a.ts"),
            (Kind::Agent, "/home/ada/shop/.goose/config.yaml"),
            (Kind::Agent, "/home/ada/shop/web/.mcp.json"),
            (Kind::Agent, "/home/ada/shop/.github/hooks/a.json"),
            (Kind::Editor, "/home/ada/shop/.vscode/tasks.json"),
            (Kind::Editor, "/home/ada/shop/shop.code-workspace"),
            (Kind::Startup, "/home/ada/shop/.envrc"),
            (Kind::Startup, "/home/ada/.bashrc"),
            (Kind::Startup, "/home/ada/.config/fish/config.fish"),
            (Kind::Startup, "/home/ada/shop/.cargo/config.toml"),
            (Kind::Credentials, "/home/ada/.ssh/authorized_keys"),
            (Kind::Credentials, "/home/ada/shop/.env.local"),
            (Kind::Credentials, "/home/ada/shop/tls/server.KEY"),
            (Kind::Portolan, "/srv/portolan.toml"),
        ] {
            assert_eq!(protected(Path::new(path)).map(|(kind, _)| kind), Some(kind), "{path}");
        }
    }

    #[test]
    fn ordinary_files_are_not_protected() {
        for path in [
            "/home/ada/shop/src/git.rs",
            "/home/head/shop/components/head/index.tsx",
            "/home/ada/shop/src/.gitignore",
            "/home/ada/shop/environment.rs",
            "/home/ada/shop/src/keys.rs",
            "/home/ada/shop/docs/claude.md",
            "/home/ada/shop/CLAUDE.md",
            "/home/ada/shop/hooks/use_cart.ts",
            "/home/ada/shop/config/a.toml",
            "/home/ada/shop/notebook.ipynb",
        ] {
            assert_eq!(protected(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn every_name_is_in_lower_case_or_it_would_never_be_found() {
        let names = NAMES.iter().flat_map(|(_, names)| names.split(' '));
        let edges = BEGINNINGS.iter().chain(&ENDINGS).map(|(_, edge)| *edge);
        for name in names.chain(edges) {
            assert_eq!((name, name.is_empty()), (name.to_lowercase().as_str(), false));
        }
    }
}
