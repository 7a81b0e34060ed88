//! Columns for people.

/// Lines whose cells stand under each other, two spaces apart; the last column is as long as it likes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other() {
        let rows = [["a".to_owned(), "b".to_owned()], ["long".to_owned(), String::new()]];
        assert_eq!(columns(&rows), "a     b\nlong\n");
    }
}
