//! Rust lines are at most 120 columns wide. rustfmt wraps neither comments nor long strings.

use super::Finding;
use super::files::SourceFile;

const COLUMNS: usize = 120;

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Finding> {
    sources.iter().filter(|source| source.has_extension("rs")).flat_map(check_file).collect()
}

fn check_file(source: &SourceFile) -> impl Iterator<Item = Finding> + '_ {
    source.text.lines().enumerate().filter_map(|(number, line)| {
        let width = line.chars().count();
        let text = format!("{width} columns; at most {COLUMNS}");
        (width > COLUMNS).then(|| Finding::at(&source.path, number + 1, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_121_columns_is_found_and_120_pass() {
        let line = |width: usize| format!("// {}\n", "é".repeat(width - 3));
        let text = line(120) + &line(121);
        let findings = check(&[SourceFile { path: "a.rs".into(), text }]);
        assert_eq!(findings, [Finding::at("a.rs", 2, "121 columns; at most 120")]);
    }

    #[test]
    fn other_files_may_be_wider() {
        let text = "x".repeat(200);
        assert!(check(&[SourceFile { path: "a.md".into(), text }]).is_empty());
    }
}
