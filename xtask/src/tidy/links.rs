//! Every relative link in a Markdown file points to an existing file.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::files::SourceFile;

pub(crate) fn check(root: &Path, sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension("md")) {
        for (line, target) in links(&source.text) {
            let Some(path) = resolve(&source.path, target) else { continue };
            if !root.join(&path).exists() {
                let text = format!("the link to `{target}` leads nowhere ({} does not exist)", path.display());
                findings.push(Finding::at(&source.path, line, text));
            }
        }
    }
    findings
}

/// The file that a link means, relative to the root; `None` for other sites and for places in the same file.
fn resolve(from: &Path, target: &str) -> Option<PathBuf> {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphanumeric));
    let path = target.split(['#', '?']).next().unwrap_or_default();
    if has_scheme || target.starts_with("//") || path.is_empty() {
        return None;
    }
    let joined = match path.strip_prefix('/') {
        Some(from_root) => PathBuf::from(from_root),
        None => from.parent().unwrap_or(Path::new("")).join(path),
    };
    // Resolved by text, so that `a/missing/../b` is judged by where it leads.
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Inline links `[text](target)` and definitions `[name]: target`, with their line; not what stands in code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_fence = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        links.extend(inline_links(line).into_iter().chain(definition(line)).map(|target| (number + 1, target)));
    }
    links
}

fn inline_links(line: &str) -> Vec<&str> {
    let in_code = |at: usize| line[..at].matches('`').count() % 2 == 1;
    line.match_indices("](")
        .filter(|(at, _)| !in_code(*at))
        .filter_map(|(at, opening)| {
            let rest = &line[at + opening.len()..];
            let inside = &rest[..rest.find(')')?];
            // `[text](target "title")` and `[text](<target>)`.
            Some(inside.split_whitespace().next()?.trim_matches(['<', '>']))
        })
        .collect()
}

fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
    let is_footnote = name.starts_with('^');
    (!is_footnote && !name.contains(']')).then(|| target.split_whitespace().next())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_link_is_found_and_others_pass() {
        let text = "[here](Cargo.toml) [gone](../docs/gone.md#part) [far](https://example.org/x) [part](#part)\n\
                    `[code](gone.md)`\n```\n[code](gone.md)\n```\n[name]: gone2.md\n\
                    [main](../xtask/src/main.rs \"t\")\n";
        let root = crate::workspace_root();
        let findings = check(&root, &[SourceFile { path: "xtask/README.md".into(), text: text.to_owned() }]);
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [Some(1), Some(6)], "{findings:?}");
        assert!(findings[0].text.contains("docs/gone.md"));
    }
}
