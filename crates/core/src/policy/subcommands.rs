//! Subcommands: which words of a command are no flags, and which of them may be the subcommand of its program.

/// A program with subcommands, and its options before the subcommand.
struct Subcommands {
    program: &'static str,
    /// They take the next word as their value.
    valued: &'static str,
    /// They take none.
    flags: &'static str,
}

const KUBECTL_VALUED: &str = "-n --namespace --context --kubeconfig -s --server --cluster --user --as --as-group --as-uid --cache-dir \
     --certificate-authority --client-certificate --client-key --password --profile --profile-output \
     --request-timeout --tls-server-name --token --username -v --v --vmodule";

const DOCKER_VALUED: &str = "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey";

const NPM_FLAGS: &str = "-s --silent -q --quiet -d -dd -ddd --verbose --json -y --yes -g --global --workspaces -ws --offline \
     --prefer-offline --ignore-scripts --if-present --force -f --no-audit --no-fund --no-progress --long -l -p \
     --parseable --include-workspace-root --legacy-peer-deps";

/// Options before the subcommand. One that is missing here may have a value, so that it makes more words possible
/// subcommands.
const SUBCOMMANDS: [Subcommands; 14] = [
    Subcommands {
        program: "git",
        valued: "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --exec-path --attr-source",
        flags: "-p -P --paginate --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice \
                --bare --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs",
    },
    Subcommands {
        program: "npm",
        valued: "--prefix -C -w --workspace --userconfig --registry --loglevel --cache --omit --include --tag --otp",
        flags: NPM_FLAGS,
    },
    Subcommands {
        program: "pnpm",
        valued: "--prefix -C --dir -F --filter --loglevel --reporter --filter-prod",
        flags: "-r --recursive -s --silent -w --workspace-root --stream --aggregate-output --color --no-color \
                --if-present --offline --prefer-offline",
    },
    Subcommands {
        program: "yarn",
        valued: "--cwd --registry --cache-folder --modules-folder",
        flags: "-s --silent --verbose --json --offline --frozen-lockfile --ignore-scripts --non-interactive",
    },
    Subcommands {
        program: "cargo",
        valued: "-C -Z --config --color --manifest-path",
        flags: "-v -vv --verbose -q --quiet --frozen --locked --offline",
    },
    Subcommands { program: "docker", valued: DOCKER_VALUED, flags: "-D --debug --tls --tlsverify" },
    Subcommands {
        program: "podman",
        valued: "-c --connection --url --log-level --root",
        flags: "-r --remote --noout --syslog --transient-store",
    },
    Subcommands {
        program: "kubectl",
        valued: KUBECTL_VALUED,
        flags: "--disable-compression --insecure-skip-tls-verify --match-server-version --warnings-as-errors",
    },
    Subcommands { program: "gh", valued: "-R --repo", flags: "" },
    Subcommands { program: "go", valued: "-C", flags: "" },
    Subcommands { program: "pip", valued: PIP_VALUED, flags: PIP_FLAGS },
    Subcommands { program: "pip3", valued: PIP_VALUED, flags: PIP_FLAGS },
    Subcommands {
        program: "helm",
        valued: "-n --namespace --kube-context --kubeconfig --kube-token --kube-apiserver --registry-config \
                 --repository-cache --repository-config",
        flags: "--debug --kube-insecure-skip-tls-verify",
    },
    Subcommands {
        program: "systemctl",
        valued: "-H --host -M --machine -t --type --state -p --property -n --lines -o --output -s --signal --root",
        flags: "--user --system -q --quiet --no-pager --no-block --now -a --all -f --force -l --full --runtime \
                --no-legend --no-ask-password --plain",
    },
];

const PIP_VALUED: &str = "--proxy --log --cache-dir --python --timeout --retries --exists-action --trusted-host --cert --client-cert";
const PIP_FLAGS: &str = "-v -vv --verbose -q -qq --quiet --isolated --no-input --no-color --no-cache-dir --debug \
     --disable-pip-version-check --require-virtualenv";

/// The words of a command that are no flags.
pub(super) struct Positional<'a> {
    pub(super) all: Vec<&'a str>,
    /// So many of them, from the first on, may be the subcommand; `None` for a program without subcommands.
    pub(super) subcommands: Option<usize>,
}

impl<'a> Positional<'a> {
    /// Values of options before the subcommand are left out. A word behind an option that is not known may be such a
    /// value, and then the next word may be the subcommand.
    pub(super) fn of(program: &str, texts: &'a [String]) -> Self {
        let spec = SUBCOMMANDS.iter().find(|known| known.program == program);
        let is_in = |list: &str, word: &str| list.split_ascii_whitespace().any(|known| known == word);
        let (mut all, mut possible) = (Vec::new(), 0);
        let (mut is_open, mut may_be_value) = (true, false);
        let mut left = texts.iter();
        while let Some(word) = left.next() {
            if word.starts_with('-') && word != "-" {
                let Some(spec) = spec.filter(|_| is_open) else { continue };
                let is_valued = is_in(spec.valued, word);
                if is_valued && all.is_empty() {
                    left.next();
                }
                let has_value = word.contains('=') || is_in(spec.valued, word.get(..2).unwrap_or_default());
                may_be_value = if is_valued {
                    !all.is_empty()
                } else {
                    !has_value && word != "--" && !is_in(spec.flags, word)
                };
            } else if program == "cargo" && all.is_empty() && word.starts_with('+') {
                // The toolchain.
            } else {
                all.push(word.as_str());
                possible += usize::from(is_open);
                is_open &= may_be_value;
                may_be_value = false;
            }
        }
        Self { all, subcommands: spec.map(|_| possible) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subcommands(command: &str) -> String {
        let texts: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let (program, arguments) = texts.split_first().unwrap();
        let words = Positional::of(program, arguments);
        words.all[..words.subcommands.unwrap_or_default()].join(" ")
    }

    #[test]
    fn only_behind_an_option_that_is_not_known_several_words_may_be_the_subcommand() {
        for (command, expected) in [
            ("kubectl delete pod x", "delete"),
            ("kubectl -n prod delete pod", "delete"),
            ("kubectl -nprod delete pod", "delete"),
            ("kubectl --request-timeout 5s delete pod", "delete"),
            ("kubectl --request-timeout=5s delete pod", "delete"),
            ("kubectl --new 5s delete pod", "5s delete"),
            ("kubectl --new=5s delete pod", "delete"),
            ("kubectl --new 5s -x 1 delete pod", "5s 1 delete"),
            ("kubectl --new 5s -n 1 delete pod", "5s 1 delete"),
            ("git --no-pager log push", "log"),
            ("npm --silent run publish", "run"),
            ("npm -- run publish", "run"),
            ("cargo +nightly -q test publish", "test"),
            ("kubectl --new", ""),
            ("make --new 5 all", ""),
        ] {
            assert_eq!(subcommands(command), expected, "{command}");
        }
    }
}
