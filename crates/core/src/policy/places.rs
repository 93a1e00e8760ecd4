//! Protected places: files that make other programs run something, or that hold secrets. Writing to one of them is as good
//! as a shell, so that nothing may approve it but a person who was asked about that file.
//!
//! A place is protected by its name, wherever it lies: a path of which any part has such a name is inside one. Some names
//! count only below a folder with a certain name. Names are compared without case, since some disks do not tell cases
//! apart. A path may be inside several places: a secret in the settings of an agent is both.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::LazyLock,
};

use super::{
    facts::Facts,
    glob, tool,
    words::{UNKNOWN, WILDCARD},
};

/// What a protected place belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Is reading guarded, too?
    pub(super) fn is_secret(self) -> bool {
        matches!(self, Self::Credentials | Self::Portolan)
    }
}

/// Names of protected files and folders, in lower case.
const NAMES: [(Kind, &str); 6] = [
    (
        Kind::VersionControl,
        ".git .gitmodules .githooks .husky .hg .svn .jj .pre-commit-config.yaml lefthook.yml \
         lefthook.yaml .lefthook.yml .lefthook.yaml .gitlab-ci.yml .gitlab-ci.yaml .gitlab .circleci .travis.yml \
         .drone.yml .woodpecker .woodpecker.yml .woodpecker.yaml .buildkite .gitea .forgejo azure-pipelines.yml \
         bitbucket-pipelines.yml jenkinsfile appveyor.yml .appveyor.yml",
    ),
    (
        Kind::Agent,
        // Copilot reads its hooks in `.github`, and a push runs what stands in its `workflows`.
        ".claude .claude-plugin .codex .gemini .qwen .opencode opencode.json opencode.jsonc .kilo \
         .kilocode kilo.json kilo.jsonc .goose .copilot .cline .clinerules .kiro .cursor .cursorrules .windsurfrules .roo .roomodes .windsurf .codeium \
         .continue .amp .augment .crush crush.json .crush.json .factory .junie .openhands .trae .vibe \
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
         mise.toml .yarn .pnpmfile.cjs .cargo .gradle .m2 .mvn .bundle .pythonrc .gdbinit .lldbinit \
         .irbrc .pryrc .rprofile .ghci .psqlrc .sqliterc",
    ),
    (
        Kind::Credentials,
        // Some of these are settings first, which hold a token or a password only sometimes.
        ".ssh .gnupg .password-store .aws .azure .gcloud .oci .kube .docker .dockercfg .fly .netrc _netrc .pgpass \
         .my.cnf .mylogin.cnf .git-credentials .gitconfig .hgrc .pypirc pip.conf .npmrc .yarnrc .yarnrc.yml .curlrc \
         .wgetrc .vault-token .terraformrc .terraform.d .s3cfg .boto rclone.conf .databrickscfg .snowsql .sentryclirc \
         .huggingface .kaggle .env .credentials credentials.json .credentials.json credentials.toml \
         application_default_credentials.json .claude.json oauth_creds.json mcp-oauth-tokens.json .aider.conf.yml \
         id_rsa id_dsa id_ecdsa id_ed25519 authorized_keys known_hosts",
    ),
    (Kind::Portolan, ".portolan portolan.toml"),
];

/// Files and folders with credentials whose own name says too little, with the folders that say the rest, in lower case.
/// Other folders may lie between the names: `.git/modules/x/config`.
const BELOW: &str = ".git/config .git/config.worktree .hg/hgrc .subversion/auth .config/git/credentials .config/gh \
    .config/hub .config/glab-cli .config/github-copilot .config/gcloud .config/op .config/doctl .config/hcloud \
    .config/sops .config/age .config/rclone .config/containers/auth.json .config/composer/auth.json \
    .config/cursor/auth.json .config/goose/secrets.yaml .composer/auth.json .local/share/keyrings share/opencode/auth.json \
    share/opencode/mcp-auth.json share/kilo/auth.json share/crush/crush.json share/amp/secrets.json .codex/auth.json \
    .copilot/config.json .cline/secrets.json .continue/config.json .continue/config.yaml .kimi/credentials \
    .cargo/credentials .gem/credentials .bundle/config .m2/settings.xml .m2/settings-security.xml \
    .gradle/gradle.properties";

/// How protected names can begin, in lower case.
const BEGINNINGS: [(Kind, &str); 2] = [(Kind::Credentials, ".env."), (Kind::Credentials, ".claude.json.")];

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

/// Every part of a path that is protected by its name, and what it belongs to.
pub fn protected(path: &Path) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    // A folder with a `HEAD` may be a repository, whose settings name programs that every `git` runs.
    if path.file_name().is_some_and(|name| name == "HEAD") {
        found.push((Kind::VersionControl, "HEAD".into()));
    }
    let mut names = Vec::new();
    for part in path.components() {
        let name = part.as_os_str().to_string_lossy();
        let lower = name.to_lowercase();
        found.extend(kind_of(&lower).map(|kind| (kind, name.into_owned())));
        names.push(lower);
    }
    let is_below = |below: &&&str| {
        let mut left = names.iter();
        below.split('/').all(|wanted| left.any(|name| name == wanted))
    };
    found.extend(ALL_BELOW.iter().filter(is_below).map(|below| (Kind::Credentials, (*below).to_owned())));
    found
}

/// What a protected name belongs to.
pub(super) fn of_name(name: &str) -> Option<Kind> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        return kind_of(&name.to_lowercase());
    }
    kind_of(name)
}

/// The first credentials with a name of several parts among the names of a word, which may have wildcards or unknown places
/// in them. The names before number `of_word` are those of the folder that the word begins in.
pub(super) fn that_may_be_below(names: &[&str], of_word: usize) -> Option<(Kind, String)> {
    let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    // Most words have no name that such a name begins with.
    if !names.iter().any(|name| name.contains(MARKS) || FIRST_BELOW.contains(name.as_str())) {
        return None;
    }
    let is_below = |below: &&&str| {
        let Some((folders, last)) = below.rsplit_once('/') else { return false };
        let mut at = 0;
        let found_all = folders.split('/').all(|folder| {
            let found = names[at..].iter().position(|name| may_become(name, folder) && says_something(name));
            at += found.map_or(0, |found| found + 1);
            found.is_some()
        });
        // What is only a wildcard may be the file if it stands in the file's own folder.
        let is_last = |(number, name): (usize, &String)| {
            number >= at.max(of_word) && may_become(name, last) && (number == at || says_something(name))
        };
        found_all && names.iter().enumerate().any(is_last)
    };
    ALL_BELOW.iter().find(is_below).map(|below| (Kind::Credentials, (*below).to_owned()))
}

const MARKS: [char; 2] = [WILDCARD, UNKNOWN];

/// May this name with wildcards or unknown places become that one?
fn may_become(name: &str, known: &str) -> bool {
    let hides_dot = name.starts_with(WILDCARD) && known.starts_with('.');
    name == known || name.contains(MARKS) && !hides_dot && glob::matches(&name.replace(MARKS, "*"), known)
}

/// Is more known of a name than what any name has?
fn says_something(name: &str) -> bool {
    match name.replace(MARKS, "").as_str() {
        "" => false,
        // Every hidden file of a folder; but any file that a program finds there says nothing.
        "." => name == format!(".{WILDCARD}"),
        known => !COMMON_ENDINGS.contains(&known),
    }
}

/// How many protected files end. A wildcard before it says nothing about the name: `*.json`.
const COMMON_ENDINGS: [&str; 6] = [".json", ".jsonc", ".toml", ".yml", ".yaml", ".conf"];

/// The first protected name that `counts`, and that a name with wildcards or unknown places in it may become. What is
/// known of the name must say more than any name does.
pub(super) fn that_may_be(name: &str, counts: &dyn Fn(Kind) -> bool) -> Option<(Kind, String)> {
    if !name.contains(MARKS) {
        return None;
    }
    let name = name.to_lowercase();
    if !says_something(&name) {
        return None;
    }
    let pattern = name.replace(MARKS, "*");
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
                rest.contains(MARKS) && glob::matches(&rest.replace(MARKS, "*"), behind)
            })
        };
        counts(*kind) && (2..ending.len()).any(spelt)
    });
    let found = whole.map(|(name, kind)| (*kind, *name)).chain(begins.chain(ends).copied());
    found.min_by_key(|(_, name)| *name).map(|(kind, name)| (kind, name.to_owned()))
}

/// The places that this real path is in, and that nobody reads or changes unseen. Reading is guarded only where a secret
/// may lie.
pub fn guarded(path: &Path, does: tool::Kind, facts: &Facts) -> Vec<(Kind, String)> {
    let own = facts.is_own(path).then(|| (Kind::Portolan, path.display().to_string()));
    let counts = |kind: Kind| does != tool::Kind::Read || kind.is_secret();
    own.into_iter().chain(protected(path)).filter(|(kind, _)| counts(*kind)).collect()
}

/// Does a pattern spell what the places are protected for: of each kind one of the names?
pub(super) fn are_spelt(places: &[(Kind, String)], spells: &dyn Fn(&str) -> bool) -> bool {
    let is_spelt = |wanted: Kind| places.iter().any(|(kind, name)| *kind == wanted && spells(name));
    places.iter().all(|(kind, _)| is_spelt(*kind))
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

/// Every protected name of several parts.
static ALL_BELOW: LazyLock<Vec<&str>> = LazyLock::new(|| BELOW.split_ascii_whitespace().collect());

/// The first parts of these names.
static FIRST_BELOW: LazyLock<HashSet<&str>> =
    LazyLock::new(|| ALL_BELOW.iter().filter_map(|below| below.split('/').next()).collect());

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
            (Kind::Credentials, "/home/ada/.npmrc"),
            (Kind::Credentials, "/home/ada/shop/.env.local"),
            (Kind::Credentials, "/home/ada/shop/tls/server.KEY"),
            (Kind::Portolan, "/srv/portolan.toml"),
        ] {
            assert_eq!(protected(Path::new(path)).first().map(|(kind, _)| *kind), Some(kind), "{path}");
        }
    }

    #[test]
    fn a_secret_is_found_wherever_it_lies_also_in_another_protected_place() {
        for path in [
            "/home/ada/shop/.claude/.credentials.json",
            "/home/ada/shop/.devcontainer/.env",
            "/home/ada/shop/.github/.env",
            "/home/ada/.config/x/id_rsa",
            "/home/ada/.ssh/HEAD",
            "/home/ada/.claude.json",
            "/home/ada/.claude.json.backup",
            "/home/ada/.codex/auth.json",
            "/home/ada/.Codex/Auth.json",
            "/home/ada/.codex/accounts/auth.json",
            "/home/ada/.gemini/oauth_creds.json",
            "/home/ada/.qwen/oauth_creds.json",
            "/home/ada/.local/share/opencode/auth.json",
            "/home/ada/.copilot/config.json",
            "/home/ada/.config/goose/secrets.yaml",
            "/home/ada/.config/gh/hosts.yml",
            "/home/ada/.config/gcloud/credentials.db",
            "/home/ada/.config/git/credentials",
            "/home/ada/.git-credentials",
            "/home/ada/shop/.git/config",
            "/home/ada/shop/.git/modules/till/config",
            "/home/ada/.cargo/credentials",
            "/home/ada/.cargo/credentials.toml",
            "/home/ada/.gem/credentials",
            "/home/ada/.npmrc",
            "/home/ada/.netrc",
            "/home/ada/.docker/config.json",
            "/home/ada/.kube/config",
            "/home/ada/.aws/config",
            "/home/ada/.m2/settings.xml",
        ] {
            let found = guarded(Path::new(path), tool::Kind::Read, &Facts::default());
            assert!(found.iter().any(|(kind, _)| *kind == Kind::Credentials), "{path}: {found:?}");
        }
        for path in [
            "/home/ada/shop/.git/HEAD",
            "/home/ada/shop/.claude/settings.json",
            "/home/ada/shop/.codex/config.toml",
            "/home/ada/shop/.cargo/config.toml",
            "/home/ada/shop/src/locales/auth.json",
            "/home/ada/shop/src/credentials/mod.rs",
            "/home/ada/shop/deploy/hosts.yml",
            "/home/ada/shop/config/.gitkeep",
        ] {
            assert_eq!(guarded(Path::new(path), tool::Kind::Read, &Facts::default()), [], "{path}");
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
            assert_eq!(protected(Path::new(path)), [], "{path}");
        }
    }

    #[test]
    fn every_name_is_in_lower_case_or_it_would_never_be_found() {
        let names = NAMES.iter().flat_map(|(_, names)| names.split(' '));
        let edges = BEGINNINGS.iter().chain(&ENDINGS).map(|(_, edge)| *edge);
        for name in names.chain(edges).chain(ALL_BELOW.iter().copied()) {
            assert_eq!((name, name.is_empty()), (name.to_lowercase().as_str(), false));
        }
    }
}
