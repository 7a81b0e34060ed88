//! Text tables and durations.

/// Formats rows as aligned columns, two spaces apart. The last column is not padded.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats a duration in milliseconds with the unit that fits.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_uses_the_unit_that_fits() {
        let texts = [(0, "0 ms"), (999, "999 ms"), (1_999, "1.9 s"), (60_000, "1 min"), (u64::MAX, "5124095576030 h")];
        for (ms, text) in texts {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a".to_owned(), "b".to_owned()], ["long".to_owned(), String::new()]];
        assert_eq!(columns(&rows), "a     b\nlong\n");
    }
}
