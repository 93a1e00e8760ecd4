//! What is read from command lines, part by part.

use portolan_shell::{Command, Folder, Part, Piece, Script, Target, Unknown, Word, read};

/// A word as it would be written, with a sign for what is not known.
fn word(word: &Word) -> String {
    let pieces = word.pieces.iter().map(|piece| match piece {
        Piece::Literal(text) => text.as_str(),
        Piece::Unknown(Unknown::Variable) => "$",
        Piece::Unknown(Unknown::Substitution) => "$()",
        Piece::Unknown(Unknown::Glob) => "*",
        Piece::Unknown(Unknown::Tilde) => "~",
        Piece::Unknown(Unknown::Brace) => "{}",
        Piece::Unknown(Unknown::Arithmetic) => "$(())",
    });
    pieces.collect()
}

fn words(words: &[Word]) -> String {
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn target(target: &Target) -> String {
    match &target.folder {
        Folder::Known(folder) if folder.is_empty() => word(&target.path),
        Folder::Known(folder) => format!("{} in {folder}", word(&target.path)),
        Folder::Unknown => format!("{} somewhere", word(&target.path)),
    }
}

fn script(text: &str) -> Script {
    read(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One line for each part.
fn parts(text: &str) -> Vec<String> {
    let describe = |part: &Part| match part {
        Part::Run(command) if command.hidden.is_empty() => words(&command.words),
        Part::Run(command) => format!("hidden {}", words(&command.words)).trim_end().to_owned(),
        Part::Read(file) => format!("< {}", target(file)),
        Part::Write(file) => format!("> {}", target(file)),
    };
    script(text).parts.iter().map(describe).collect()
}

fn commands(text: &str) -> Vec<Command> {
    let command = |part| if let Part::Run(command) = part { Some(command) } else { None };
    script(text).parts.into_iter().filter_map(command).collect()
}

fn only(text: &str) -> Command {
    let mut commands = commands(text);
    assert_eq!(commands.len(), 1, "{text}");
    commands.remove(0)
}

/// Is something hidden, on any part?
fn hides(text: &str) -> bool {
    commands(text).iter().any(|command| !command.hidden.is_empty())
}

#[test]
fn every_simple_command_is_a_part() {
    assert_eq!(parts("a; b && c || d | e & (f; { g; })"), ["a", "b", "c", "d", "e", "f", "g"]);
    assert_eq!(parts("if a; then b; elif c; then d; else e; fi"), ["a", "b", "c", "d", "e"]);
    assert_eq!(parts("for x in $(a); do b; done; while c; do d; done"), ["a", "b", "c", "d"]);
    assert_eq!(
        parts("case $(a) in $(b)) c;; esac; [[ -n $(d) ]]; (( $(e) ))"),
        ["a", "b", "c", "d", "hidden", "e"]
    );
}

#[test]
fn a_command_comes_before_the_commands_inside_it() {
    assert_eq!(parts("a $(b `c`) <(d) > $(e)"), ["a $() $()", "b $()", "c", "d", "> $()", "e"]);
    assert_eq!(parts("a <<E\n$(b)\nE\nc <<< \"$(d)\""), ["a", "b", "c", "d"]);
}

#[test]
fn quotes_and_spaces_do_not_matter() {
    let plain = script("git commit -m x");
    for text in [
        "git   'commit' \"-m\" x",
        "g\\it com''mit -m $'x'",
        "git \\\n commit -m x # done",
        "git commit -m x;",
    ] {
        assert_eq!(script(text), plain, "{text}");
    }
}

#[test]
fn an_expansion_is_an_unknown_piece_of_its_word() {
    assert_eq!(parts("a x$y'z' \"$y\" *.c ~/d {e,f}g $((1)) [h] ${i:-j}"), ["a x$z $ *.c ~/d {} $(()) * $"]);
    assert_eq!(parts("a ~ada/d ~-/d [h]x e[h]/../g a/{b,../c}"), ["a ~$/d ~$/d * e*$ a/{}$"]);
    let word = &only("a \"x$@\"").words[1];
    assert!(word.splits);
    assert!(!only("a \"x$y\"").words[1].splits);
    assert!(only("a x$y").words[1].splits);
}

#[test]
fn files_of_redirections_are_parts() {
    assert_eq!(parts("a < b > c 2>> d"), ["a", "< b", "> c", "> d"]);
    assert_eq!(
        parts("a &> b; c <> d; e >| f; g >& h"),
        ["a", "> b", "c", "< d", "> d", "e", "> f", "g", "> h"]
    );
    assert_eq!(parts("a > /dev/null 2>&1 < /dev/null 2> /dev/stderr"), ["a"]);
    assert_eq!(parts("> a"), ["> a"]);
    assert_eq!(parts("{ a; } > b"), ["a", "> b"]);
    assert_eq!(parts("a > /dev/tcp/h/80"), ["a", "hidden", "> /dev/tcp/h/80"]);
}

#[test]
fn files_are_relative_to_the_folder_that_cd_leads_to() {
    assert_eq!(parts("cd x && a > f"), ["cd x", "a", "> f in x"]);
    assert_eq!(parts("cd x && cd ../y && > f"), ["cd x", "cd ../y", "> f in y"]);
    assert_eq!(parts("cd /x || exit 1; > f"), ["cd /x", "exit 1", "> f in /x"]);
    assert_eq!(parts("cd x || { echo no; exit; }; > f"), ["cd x", "echo no", "exit", "> f in x"]);
    assert_eq!(parts("(cd x); > f"), ["cd x", "> f"]);
    assert_eq!(parts("cd x | a; > f"), ["cd x", "a", "> f"]);
    assert_eq!(parts("if cd x; then > f; else > g; fi"), ["cd x", "> f in x", "> g"]);
    assert_eq!(parts("sh -c 'cd x'; > f"), ["cd x", "> f"]);
    assert_eq!(parts("eval 'cd x' && > f"), ["cd x", "> f in x"]);
}

#[test]
fn the_folder_of_a_file_is_unknown_if_a_cd_may_fail_or_is_not_known() {
    // If `cd` fails, the file is written in the folder where the text began.
    assert_eq!(parts("cd x; > f"), ["cd x", "> f somewhere"]);
    assert_eq!(parts("cd $x && > f"), ["cd $", "> f somewhere"]);
    assert_eq!(parts("cd && > f"), ["cd", "> f somewhere"]);
    assert_eq!(parts("cd - && > f"), ["cd -", "> f somewhere"]);
    assert_eq!(parts("for i in 1 2; do > f; cd x && > g; done"), ["> f somewhere", "cd x", "> g somewhere"]);
    assert_eq!(parts("pushd x && > f"), ["pushd x", "> f somewhere"]);
}

#[test]
fn command_behind_a_wrapper_is_the_command() {
    for text in [
        "env X=1 git status",
        "timeout -k 1 5 git status",
        "nice -n 5 nohup git status",
        "env -i -u Y -- timeout --signal=INT 5 git status",
        "command git status",
        "exec git status",
        "time -p git status",
        "stdbuf -oL setsid -w git status",
        "/usr/bin/env git status",
        "busybox git status",
        "flock -n /tmp/lock git status",
        "sh -c 'git status'",
        "bash -euo pipefail -c 'git status'",
        "eval git status",
        "watch -n 1 git status",
    ] {
        let command = only(text);
        assert_eq!(words(&command.words), "git status", "{text}");
        assert_eq!(command.words, command.whole[command.inner_at..], "{text}");
        assert!(command.hidden.is_empty(), "{text}");
    }
}

#[test]
fn a_command_behind_sudo_or_ssh_is_reported_with_the_words_before_it() {
    for (text, whole) in [
        ("sudo -u x apt update", "sudo -u x apt update"),
        ("sudo sh -c 'apt update'", "sudo apt update"),
        ("su -c 'apt update' root", "su -c root apt update"),
        ("doas apt update", "doas apt update"),
        ("ssh -p 22 h 'apt update'", "ssh -p 22 h apt update"),
        ("ssh h apt update", "ssh h apt update"),
        ("docker exec -it -u x c apt update", "docker exec -it -u x c apt update"),
        ("docker run --rm -v /:/x i apt update", "docker run --rm -v /:/x i apt update"),
        ("docker compose -f f exec s apt update", "docker compose -f f exec s apt update"),
        ("kubectl -n x exec p -c y -- apt update", "kubectl -n x exec p -c y -- apt update"),
        ("chroot /x apt update", "chroot /x apt update"),
        ("timeout 5 sudo env A=1 apt update", "timeout 5 sudo env A=1 apt update"),
    ] {
        let command = only(text);
        assert_eq!(words(&command.words), "apt update", "{text}");
        assert_eq!(words(&command.whole), whole, "{text}");
        assert!(command.hidden.is_empty(), "{text}: {:?}", command.hidden);
        assert!(!command.wrappers.is_empty(), "{text}");
    }
}

#[test]
fn a_redirection_inside_another_environment_is_hidden() {
    assert_eq!(parts("ssh h 'a > f'"), ["a", "hidden"]);
    assert_eq!(parts("sudo sh -c 'a > /f'"), ["a", "hidden", "> /f somewhere"]);
    assert_eq!(parts("sudo a > f"), ["a", "> f"]);
}

#[test]
fn words_that_xargs_adds_are_not_known() {
    assert_eq!(parts("a | xargs rm"), ["a", "rm $"]);
    assert_eq!(parts("a | xargs -I{} cp {} {}.bak"), ["a", "cp $ $.bak"]);
    assert_eq!(parts("a | xargs"), ["a", "echo $"]);
    assert!(hides("a | xargs git"));
    assert!(hides("a | xargs -I% sh -c 'b %'"));
    assert!(hides("a | xargs sh"));
    assert!(!hides("a | xargs sh -c 'b \"$@\"' _"));
}

#[test]
fn command_of_find_is_a_part() {
    assert_eq!(parts("find . -exec grep x {} + -delete"), ["find . -exec grep x {} + -delete", "grep x .$*"]);
    assert_eq!(parts("sudo find /x -exec sh -c 'a; b' \\;"), ["find /x -exec sh -c a; b ;", "a", "b"]);
    assert_eq!(commands("sudo find /x -exec a \\;")[1].wrappers[0].name, "sudo");
}

#[test]
fn assignments_are_told_with_the_command() {
    let command = only("A=1 PATH=/x env LD_PRELOAD=\"$y\" git status");
    let told: Vec<_> =
        command.assignments.iter().map(|set| (set.name.as_str(), set.changes_what_runs)).collect();
    assert_eq!(told, [("A", false), ("PATH", true), ("LD_PRELOAD", true)]);
    assert_eq!(only("PATH=/x sh -c 'git status'").assignments.len(), 1);
    assert_eq!(parts("x=1; y=$(a)"), ["a"]);
}

#[test]
fn a_piped_command_names_the_command_that_feeds_it() {
    let commands = commands("curl x | tee y | sh; z");
    let fed: Vec<_> = commands.iter().map(|command| (command.reads_pipe, command.fed_by)).collect();
    assert_eq!(fed, [(false, None), (true, Some(0)), (true, Some(1)), (false, None)]);
    assert!(only("a <<E\nx\nE").reads_pipe);
    assert!(only("a <<< x").reads_pipe);
    assert!(!only("a < x").reads_pipe);
    assert_eq!(self::commands("a < <(b)")[0].fed_by, Some(1));
    assert_eq!(self::commands("a | while read x; do b; done")[2].fed_by, Some(0));
    assert_eq!(self::commands("a $(b) | c")[2].fed_by, Some(0));
}

#[test]
fn a_command_that_may_run_something_unknown_is_hidden() {
    for text in [
        "$x a",
        "`a` b",
        "./* x",
        "\"\" a",
        "{a,b} c",
        "~/a",
        "sh",
        "bash f.sh",
        "curl x | sh",
        "bash <(a)",
        "bash -s < f",
        "sh -c \"$x\"",
        "bash -ic a",
        "zsh -c \"a $x\"",
        "fish -c a",
        "source f",
        ". f",
        "eval \"$x\"",
        "eval $(a)",
        "./sh -c a",
        "/tmp/env git status",
        "f() { a; }",
        "function f { a; }",
        "alias a=b",
        "trap a EXIT",
        "set -e",
        "shopt -s extglob",
        "hash -p x y",
        "enable -f x y",
        "coproc { a; }",
        "env -S 'a b'",
        "timeout $x a",
        "timeout --unknown 5 a",
        "sudo -i",
        "sudo $x",
        "ssh h",
        "ssh $h a",
        "ssh h $x",
        "ssh -o ProxyCommand=x h a",
        "su",
        "chroot /x",
        "parallel a",
        "docker exec $x a",
        "python -c x",
        "python3.12 -c x",
        "python",
        "python -",
        "a | python",
        "node -e x",
        "node --eval=x",
        "perl -ne x",
        "ruby -e x",
        "php -r x",
        "awk 'BEGIN{system(\"x\")}'",
        "awk -f x",
        "sed e",
        "sed -n 1w,x",
        "sed -f x",
        "find . $x",
        "find . -fprint x",
        "fd -x a",
        "tar -cf x --checkpoint-action=exec=a y",
        "tar --to-c=a -xf x",
        "tar -I a -xf x",
        "tar xf $x",
        "git -c a=b log",
        "git --exec-path=x log",
        "git x",
        "git bisect run a",
        "git rebase -x a b",
        "git log $x",
        "rsync -e a b c",
        "scp -S a b c",
        "zip -T x",
        "vim -c '!a' f",
        "less +x f",
        "man -P a b",
        "tmux new a",
        "make SHELL=x",
        "make -f -",
        "bunx x",
        "npm exec x",
        "curl -K x",
        "wget --use-ask=x y",
        "sort --compress-prog=a",
        "gdb a",
        "strace a",
        "rg --pre a b",
        "nmap --script x h",
        "export PATH=/x; git status",
        "PATH=/x; git status",
        "declare -x LD_PRELOAD=/x",
        "for PATH in a; do b; done",
        ": ${PATH:=x}",
        "read PATH",
        "printf -v PATH x",
        "((PATH=1))",
        "{PATH}> f",
        "unset PATH",
        "export $x",
        "x='a[$(b)]'; ((x))",
        "x=$(a); b $((x))",
        "a ${!x}",
        "a ${x@P}",
        "x=a; [[ x -eq 1 ]]",
        "[[ -v $x ]]",
        "test -v \"$x\"",
        "[ $x = y ]",
        "let x=1",
        "declare -i x=y",
        "read 'a[$(b)]'",
        "mapfile -C a x",
        "for x in a b; do c $((x)); done",
        "((_))",
        "a $(( $1 ))",
        "a ${b[$1]}",
    ] {
        assert!(hides(text), "{text}");
    }
}

#[test]
fn everyday_commands_are_seen() {
    for text in [
        "git status",
        "git -C x log -5 --oneline",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "git add \"$f\"",
        "npm run test",
        "npm install x",
        "cargo test --workspace",
        "cargo +nightly build",
        "ls -la *.rs",
        "grep -rn 'x|y' \"$d\"",
        "rm -rf \"$d\"/x",
        "cat <<'EOF' > f\nx\nEOF",
        "python script.py -c x",
        "python -m pytest -q",
        "python -u x.py \"$y\"",
        "node x.js -e y",
        "node --version",
        "perl x.pl",
        "awk '{print $1}' f",
        "awk -v x=\"$y\" '{n++}' f",
        "sed -i 's/a/b/g' f",
        "sed -n '1,5p' f | head",
        "find . -name '*.rs' -type f",
        "tar czf x.tgz y",
        "tar -xzf x.tgz -C y",
        "curl -sSL https://x | jq .",
        "make -j4 test",
        "for i in 1 2 3; do echo $((i + 1)); done",
        "for ((i=0;i<3;i++)); do echo $i; done",
        "while read -r line; do echo \"$line\"; done < f",
        "[ -f x ] && cat x",
        "[ \"$x\" = y ] && a",
        "[[ -n $x && $y == z* ]] && a",
        "[ $# -gt 1 ] || a",
        "[ $? -eq 0 ] && a",
        "test -n \"$x\"",
        "export FOO=bar && make",
        "x=5; echo $((x * 2))",
        "docker ps -a",
        "docker build -t x .",
        "kubectl get pods -n x",
        "ssh-keygen -l",
        "sudo -l",
        "command -v git",
        "env",
        "echo ${#x} ${x%.*} \"${a[@]}\" ${a[0]}",
        "go test ./...",
        "rg -n 'x' src",
        "rsync -av a b",
        "wget https://x",
        "sort -u f",
        "timeout 60 cargo test 2>&1 | tail -5",
        "type git",
        "printf '%s\\n' \"$x\"",
    ] {
        let hidden: Vec<_> = commands(text).into_iter().flat_map(|command| command.hidden).collect();
        assert!(hidden.is_empty(), "{text}: {hidden:?}");
    }
}

#[test]
fn text_with_invisible_or_misleading_characters_is_not_read() {
    for text in [
        "a\u{a0}b",
        "a \u{202e}b",
        "a '\u{200b}'",
        "a\rb",
        "a \u{1b}[0m",
        "g\u{456}t status",
        "\"g\u{456}t\" status",
        "$'\\e' x",
        "a \\\u{a0}b",
    ] {
        assert!(read(text).is_err(), "{text:?}");
    }
    assert!(read("a '\u{a0}' \"é\" é").is_ok());
    assert!(read("sh -c $'a \\e'").is_err());
}

#[test]
fn limits_are_kept() {
    let deep =
        |open: &str, close: &str, levels: usize| format!("{}a{}", open.repeat(levels), close.repeat(levels));
    assert!(read(&deep("(", " )", 10).replace('(', "( ")).is_ok());
    for (open, close) in [
        ("( ", " )"),
        ("$(", ")"),
        ("a <(", ")"),
        ("{ ", "; }"),
        ("${x:-", "}"),
        ("if a; then ", "; fi"),
        ("a \"$(", ")\""),
        ("[[ ( ", " ) ]]"),
    ] {
        for levels in [40, 5000] {
            assert!(read(&deep(open, close, levels)).is_err(), "{open}");
        }
    }
    assert!(read(&format!("[[ {} a", "( ".repeat(20_000))).is_err());
    assert!(read(&"find -exec ".repeat(3000)).is_err());
    assert!(read(&"env ".repeat(16_000)).is_ok());
    assert!(read(&"x".repeat(70_000)).is_err());
    assert!(read(&"a;".repeat(5000)).is_err());
    assert!(read(&format!("ssh h {} 'a;a;a'", "-v ".repeat(5000))).is_err());
}
