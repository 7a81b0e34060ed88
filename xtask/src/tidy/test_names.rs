//! Tests are named `subject_condition_result`, in at most 60 characters, and the subject is a noun.
//!
//! The rule scans the text and not the syntax tree, because tests inside of macros are not in the tree.

use super::Finding;
use super::files::SourceFile;

const CHARACTERS: usize = 60;
const BANNED: &[&str] = &[
    "a",
    "an",
    "everybody",
    "everything",
    "it",
    "nobody",
    "nothing",
    "somebody",
    "the",
    "these",
    "they",
    "those",
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
    "whose",
];

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    sources.iter().filter(|source| source.has_extension("rs")).flat_map(check_file).collect()
}

fn check_file(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_test = false;
    for (number, line) in source.text.lines().map(str::trim).enumerate() {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let Some(name) = is_test.then(|| function_name(line)).flatten() else { continue };
        is_test = false;
        findings.extend(problem(name).map(|text| Finding::at(&source.path, number + 1, text)));
    }
    findings
}

fn problem(name: &str) -> Option<String> {
    let first = name.split('_').next().unwrap_or_default();
    let length = name.chars().count();
    if length > CHARACTERS {
        Some(format!("test `{name}` has a name of {length} characters; at most {CHARACTERS}"))
    } else if BANNED.contains(&first) {
        Some(format!("test `{name}` begins with \"{first}\": begin with the subject"))
    } else {
        None
    }
}

fn function_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&[SourceFile { path: "a.rs".into(), text: text.to_owned() }]).len()
    }

    #[test]
    fn long_name_and_leading_article_are_found() {
        assert_eq!(findings(&format!("#[test]\nfn {}() {{}}\n", "x".repeat(61))), 1);
        assert_eq!(findings("#[tokio::test(start_paused = true)]\n#[cfg(unix)]\nasync fn a_lease_expires() {}\n"), 1);
    }

    #[test]
    fn good_names_and_other_functions_pass() {
        assert_eq!(findings(&format!("#[test]\nfn {}() {{}}\n", "x".repeat(60))), 0);
        assert_eq!(findings("#[test]\nfn lease_expires() {}\nfn the_helper() {}\n"), 0);
    }
}
