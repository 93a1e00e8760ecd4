//! Links: every relative link in our Markdown files points to a file, and to a heading if the link names one.
//!
//! Links to other hosts are not checked: a check must not fail because another server is down.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::project::{files, read, root};

/// Checks all Markdown files of the clone.
pub(crate) fn check() -> Result<()> {
    let (pages, broken) = broken(&root())?;
    if !broken.is_empty() {
        bail!("broken links:\n{}", broken.join("\n"));
    }
    println!("all relative links of {pages} pages are valid");
    Ok(())
}

fn broken(root: &Path) -> Result<(usize, Vec<String>)> {
    let (pages, mut broken) = (files(root, &["md"])?, Vec::new());
    for page in &pages {
        for (line, target) in targets(&read(&root.join(page))?) {
            if let Some(why) = wrong(root, page, &target)? {
                broken.push(format!("{}:{line}: `{target}` {why}", page.display()));
            }
        }
    }
    Ok((pages.len(), broken))
}

/// Why a link is wrong, if it is.
fn wrong(root: &Path, page: &Path, target: &str) -> Result<Option<&'static str>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    if target.starts_with('/') {
        return Ok(Some("is absolute; make it relative to its page"));
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(file) = resolved(page, path) else { return Ok(Some("points outside of the project")) };
    let file = root.join(file);
    if !file.exists() {
        return Ok(Some("does not exist"));
    }
    match anchor {
        Some(anchor) if file.extension().is_some_and(|ending| ending == "md") => {
            Ok((!anchors(&read(&file)?).contains(anchor)).then_some("has no such heading"))
        }
        _ => Ok(None),
    }
}

/// The target file of a link on `page`, without reading the disk. `None` if the target is outside of the clone.
fn resolved(page: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(page.to_path_buf());
    }
    let mut parts: Vec<_> = page.parent()?.components().collect();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.iter().collect())
}

/// The targets of all links on a page, with their line.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, words) in prose(text) {
        let mut rest = words.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            // A title may follow the target: [a](b.md "title").
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((line, target.to_owned()));
        }
        // [name]: target
        if let Some((name, target)) = words.split_once("]: ")
            && name.starts_with('[')
            && !name.contains(']')
        {
            found.push((line, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The lines of a page outside code blocks, each without its code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut fenced) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line.split('`').step_by(2).collect::<Vec<_>>().join("`")));
        }
    }
    lines
}

/// The names under which a page's headings can be linked to, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut names, mut fenced) = (BTreeSet::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let name: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        // The second heading with the same text gets a number.
        let free = (0..).map(|n| if n == 0 { name.clone() } else { format!("{name}-{n}") });
        names.extend(free.into_iter().find(|name| !names.contains(name)));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_found_outside_code_only() {
        let page = "a [b](c.md) and [d](e.md#f \"g\")\n```\n[no](no.md)\n```\n`[no](no.md)` ![h](i.png)\n[j]: k.md\n";
        let found: Vec<_> =
            targets(page).into_iter().map(|(line, target)| format!("{line} {target}")).collect();
        assert_eq!(found, ["1 c.md", "1 e.md#f", "5 i.png", "6 k.md"]);
    }

    #[test]
    fn headings_have_the_names_that_links_use() {
        let page = "# What is `kept`, and where?\n## Twice\n## Twice\n```\n# not a heading\n```\n#neither\n";
        let names: Vec<_> = anchors(page).into_iter().collect();
        assert_eq!(names, ["twice", "twice-1", "what-is-kept-and-where"]);
    }

    #[test]
    fn each_wrong_link_is_reported_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        fs::write(folder.path().join("README.md"), "# Here\n[a](docs/b.md#there) [c](https://example.org)\n")
            .unwrap();
        fs::write(
            folder.path().join("docs/b.md"),
            "# There\n[a](../README.md#here)\n[b](c.md)\n[c](#nowhere)\n[d](../../e.md)\n[f](/g.md)\n",
        )
        .unwrap();
        let (pages, broken) = broken(folder.path()).unwrap();
        assert_eq!(pages, 2);
        assert_eq!(
            broken,
            [
                "docs/b.md:3: `c.md` does not exist",
                "docs/b.md:4: `#nowhere` has no such heading",
                "docs/b.md:5: `../../e.md` points outside of the project",
                "docs/b.md:6: `/g.md` is absolute; make it relative to its page",
            ]
        );
    }
}
