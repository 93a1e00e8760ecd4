//! A call, taken apart: what it names and what its command line runs. Pure.

use portolan_shell::{Folder, Piece, Script, Target, Unknown};

use super::{
    cover::{Guarded, Part, Run},
    decide::is_inside,
    facts::Facts,
    mentions,
    possible_files::{self, PossibleFile},
    tool::{Call, Kind, WorksIn},
};

/// A call, read once: what it names and what its command line runs.
#[derive(Debug)]
pub struct Reading<'a> {
    call: Call<'a>,
    works_in: WorksIn,
    script: Option<Result<Script, String>>,
    files: Option<Vec<String>>,
    possible_files: Vec<PossibleFile>,
}

impl<'a> Reading<'a> {
    /// Reads a call.
    pub fn of(call: Call<'a>) -> Self {
        let kind = call.kind();
        let works_in = call.works_in();
        let read = |text: String| {
            let script = portolan_shell::read(&text).map_err(|unreadable| unreadable.to_string());
            script.map(|script| from_folder(script, &works_in))
        };
        let script = if kind == Kind::Run { call.command().map(read) } else { None };
        let files = if matches!(kind, Kind::Read | Kind::Edit) { call.files() } else { Some(vec![]) };
        let files = files.and_then(|files| files.into_iter().map(|file| works_in.path(file)).collect());
        let possible_files = if matches!(kind, Kind::Unknown | Kind::Network) {
            possible_files::of(&call, &works_in)
        } else {
            Vec::new()
        };
        Self { call, works_in, script, files, possible_files }
    }

    /// The paths whose real places must be known.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = self.files.clone().unwrap_or_default();
        paths.extend(self.possible_files.iter().filter_map(|file| file.path.clone()));
        if let Some(Ok(script)) = &self.script {
            paths.extend(script.parts.iter().filter_map(|part| match part {
                portolan_shell::Part::Read(target) | portolan_shell::Part::Write(target) => {
                    target_path(target)
                }
                portolan_shell::Part::Run(_) => None,
            }));
        }
        if let WorksIn::Folder(folder) = &self.works_in {
            paths.push(folder.clone());
        }
        paths
    }

    /// The paths whose real places must be known if a rule [forbids files](super::RuleSet::forbids_files).
    pub fn mentioned(&self) -> Vec<String> {
        let Some(Ok(script)) = &self.script else { return Vec::new() };
        let mut paths: Vec<String> = Vec::new();
        for part in &script.parts {
            if let portolan_shell::Part::Run(command) = part {
                paths.extend(mentions::paths(command));
            }
        }
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The command line as it was read.
    pub(super) fn script(&self) -> Option<&Result<Script, String>> {
        self.script.as_ref()
    }

    /// The call.
    pub(super) fn call(&self) -> &Call<'a> {
        &self.call
    }

    /// Everything that the call does.
    pub(super) fn parts(&self, facts: &Facts) -> Vec<Part<'_>> {
        let searched = || self.call.searched();
        let file = |kind: Kind, path: &str, redirected: bool| {
            let place = facts.places.get(path).filter(|place| kind == Kind::Read || place.is_ordinary);
            let may_be_folder = place.is_none_or(|place| !place.is_ordinary);
            let below = |names| if may_be_folder { names } else { Vec::new() };
            let searched = if redirected { None } else { searched().map(below) };
            Part::File { kind, lies: place.map(|place| place.lies.clone()), redirected, searched }
        };
        let nowhere = |kind: Kind| Part::File { kind, lies: None, redirected: false, searched: searched() };
        match self.call.kind() {
            Kind::Run => match &self.script {
                None => vec![Part::Unseen],
                Some(Err(_)) => vec![Part::Unreadable],
                Some(Ok(script)) => script
                    .parts
                    .iter()
                    .filter_map(|part| match part {
                        portolan_shell::Part::Run(command) => Some(Part::Command(Run::of(command))),
                        portolan_shell::Part::Read(target) => redirected(Kind::Read, target, &file),
                        portolan_shell::Part::Write(target) => redirected(Kind::Edit, target, &file),
                    })
                    .chain(self.elsewhere(facts, &file))
                    .collect(),
            },
            kind @ (Kind::Read | Kind::Edit) => match &self.files {
                None => vec![nowhere(kind)],
                // Whoever searches without naming a folder searches the session's.
                Some(files) if files.is_empty() && kind == Kind::Read && self.call.reads_here() => {
                    match &self.works_in {
                        WorksIn::SessionFolder => {
                            let lies = Some(vec![facts.folder.clone()]);
                            vec![Part::File { kind, lies, redirected: false, searched: searched() }]
                        }
                        WorksIn::Folder(folder) => vec![file(kind, folder, false)],
                        WorksIn::Unclear => vec![nowhere(kind)],
                    }
                }
                Some(files) if files.is_empty() => vec![nowhere(kind)],
                Some(files) => files.iter().map(|path| file(kind, path, false)).collect(),
            },
            Kind::Network => match self.call.addresses() {
                addresses if addresses.is_empty() => vec![self.arguments(facts)],
                addresses => addresses.into_iter().map(Part::Address).collect(),
            },
            Kind::Unknown => vec![self.arguments(facts)],
        }
    }
}

impl Reading<'_> {
    /// The arguments of a tool of an unknown kind, which may read or change what they name.
    fn arguments(&self, facts: &Facts) -> Part<'_> {
        let files = self.possible_files.iter();
        let guarded = files.map(|file| Guarded { key: &file.key, places: file.guarded(facts) });
        Part::Arguments {
            input: self.call.input,
            guarded: guarded.filter(|guarded| !guarded.places.is_empty()).collect(),
        }
    }

    /// A command line that runs outside of the session's folder reads the folder in which it runs, as after a `cd`.
    fn elsewhere<'b>(&self, facts: &Facts, file: &dyn Fn(Kind, &str, bool) -> Part<'b>) -> Option<Part<'b>> {
        let folder = match &self.works_in {
            WorksIn::SessionFolder => return None,
            WorksIn::Folder(folder) => file(Kind::Read, folder, true),
            WorksIn::Unclear => Part::File { kind: Kind::Read, lies: None, redirected: true, searched: None },
        };
        (!is_inside(&folder, facts)).then_some(folder)
    }
}

/// The same command line, with every folder counted from the session's folder instead of the one in which it runs.
fn from_folder(mut script: Script, works_in: &WorksIn) -> Script {
    if *works_in == WorksIn::SessionFolder {
        return script;
    }
    for part in &mut script.parts {
        let folder = match part {
            portolan_shell::Part::Run(command) => &mut command.folder,
            portolan_shell::Part::Read(target) | portolan_shell::Part::Write(target) => &mut target.folder,
        };
        *folder = match (std::mem::replace(folder, Folder::Unknown), works_in) {
            (Folder::Known(inside), WorksIn::Folder(outer)) if inside.is_empty() => {
                Folder::Known(outer.clone())
            }
            (Folder::Known(inside), works_in) => works_in.path(inside).map_or(Folder::Unknown, Folder::Known),
            (Folder::Unknown, _) => Folder::Unknown,
        };
    }
    script
}

/// What a redirection to nowhere reads or writes is no part.
const NOWHERE: [&str; 6] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero"];

fn redirected<'a>(
    kind: Kind,
    target: &Target,
    file: &dyn Fn(Kind, &str, bool) -> Part<'a>,
) -> Option<Part<'a>> {
    match target_path(target) {
        Some(path) if NOWHERE.contains(&path.as_str()) => None,
        Some(path) => Some(file(kind, &path, true)),
        None => Some(Part::File { kind, lies: None, redirected: true, searched: None }),
    }
}

/// The path of a redirection, from the session's folder; `None` if it is not known.
fn target_path(target: &Target) -> Option<String> {
    let path = match target.path.pieces.as_slice() {
        // `~/x` lies in the home folder, wherever the command runs.
        [Piece::Unknown(Unknown::Tilde), Piece::Literal(rest)] if rest.starts_with('/') => {
            return Some(format!("~{rest}"));
        }
        _ => target.path.literal()?,
    };
    if path.starts_with('/') {
        return Some(path.into_owned());
    }
    match &target.folder {
        Folder::Known(folder) if folder.is_empty() => Some(path.into_owned()),
        Folder::Known(folder) => Some(format!("{folder}/{path}")),
        Folder::Unknown => None,
    }
}
