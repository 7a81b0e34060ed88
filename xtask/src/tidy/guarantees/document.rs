//! The document's form: `- N01 statement`, which may go on in indented lines, and below it one line `  - …` for each
//! proof, or `  - open`. Everything else is left as it is.

use super::proofs::Proof;

const SUMMARY: &str = "Proven: ";

/// The line number and the id of every statement.
pub(crate) fn statements(text: &str) -> Vec<(usize, &str)> {
    let numbered = text.lines().enumerate();
    numbered.filter_map(|(number, line)| Some((number + 1, statement_id(line)?))).collect()
}

/// The document with its generated lines replaced by the given proofs.
pub(crate) fn rewrite(text: &str, proofs: &[Proof]) -> String {
    let mut out = String::new();
    let mut open_statement: Option<&str> = None;
    let (mut proven, mut all) = (0, 0);
    for line in text.lines() {
        let is_proof = line.starts_with("  - ");
        let goes_on = line.starts_with("  ") && !is_proof;
        if is_proof {
            continue;
        }
        if !goes_on && let Some(id) = open_statement.take() {
            out.push_str(&proof_lines(id, proofs));
        }
        if let Some(id) = statement_id(line) {
            open_statement = Some(id);
            all += 1;
            proven += usize::from(proofs.iter().any(|proof| proof.id == id));
        }
        out.push_str(line);
        out.push('\n');
    }
    if let Some(id) = open_statement {
        out.push_str(&proof_lines(id, proofs));
    }
    with_summary(&out, proven, all)
}

fn statement_id(line: &str) -> Option<&str> {
    let id = line.strip_prefix("- ")?.split(' ').next()?;
    let mut characters = id.chars();
    let is_id = characters.next().is_some_and(|first| first.is_ascii_uppercase())
        && characters.clone().count() == 2
        && characters.all(|digit| digit.is_ascii_digit());
    is_id.then_some(id)
}

fn proof_lines(id: &str, proofs: &[Proof]) -> String {
    let mut lines: Vec<String> = proofs
        .iter()
        .filter(|proof| proof.id == id)
        .map(|proof| format!("  - `{}` :: `{}`\n", proof.path.display(), proof.function))
        .collect();
    lines.sort();
    lines.dedup();
    if lines.is_empty() { "  - open\n".to_owned() } else { lines.concat() }
}

fn with_summary(text: &str, proven: usize, all: usize) -> String {
    text.lines()
        .map(|line| {
            if line.starts_with(SUMMARY) {
                format!("{SUMMARY}{proven} of {all} statements.\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_proofs_below_their_statement_and_keeps_the_rest() {
        let text = "Intro.\n- not a statement\n\nProven: 9 of 9 statements.\n\n## N\n- N01 One\n  goes on.\n\
                    - N02 Two.\n  - `old` :: `gone`\n\n## S\n- S01 Three.";
        let proof = |id: &str, function: &str| Proof {
            id: id.to_owned(),
            path: "crates/a.rs".into(),
            line: 1,
            function: function.to_owned(),
        };
        let proofs = [proof("N01", "z"), proof("N01", "b"), proof("S01", "c")];
        assert_eq!(
            rewrite(text, &proofs),
            "Intro.\n- not a statement\n\nProven: 2 of 3 statements.\n\n## N\n- N01 One\n  goes on.\n\
             \x20 - `crates/a.rs` :: `b`\n  - `crates/a.rs` :: `z`\n- N02 Two.\n  - open\n\n## S\n\
             - S01 Three.\n  - `crates/a.rs` :: `c`\n"
        );
        assert_eq!(statements(text), [(7, "N01"), (9, "N02"), (13, "S01")]);
    }
}
