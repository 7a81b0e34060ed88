//! Statements with named parameters, at the price of numbered ones.
//!
//! [`statement!`](crate::statement::statement) declares the parameters of a statement once, as the fields of a struct.
//! The SQL names them in braces. The numbers in the SQL and the order of the values come from the same declaration, so
//! a value cannot get into another parameter. SQLite's own named parameters would be looked up by name at every
//! execution.

use gapless_store_sql::fill_template;

/// Makes the SQL of a statement. The template may name each parameter, and for an INSERT `{columns}` (all parameters as
/// columns) and `{values}` (all parameters as values).
pub(crate) fn numbered_sql(template: &str, names: &[&str]) -> String {
    let number = |index: usize| format!("?{}", index + 1);
    fill_template(template, |name| match name {
        "columns" => Some(names.join(", ")),
        "values" => Some((0..names.len()).map(number).collect::<Vec<_>>().join(", ")),
        _ => names.iter().position(|known| *known == name).map(number),
    })
}

/// Declares one statement with its parameters:
///
/// ```ignore
/// statement! {
///     struct AuditInsert<'a> { at: i64, subject: &'a str } = "INSERT INTO audit_log ({columns}) VALUES ({values})";
/// }
/// ```
macro_rules! statement {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? { $($param:ident: $type:ty),+ $(,)? } = $template:expr;
    ) => {
        $(#[$doc])*
        $vis struct $name $(<$life>)? {
            $($vis $param: $type),+
        }

        #[allow(dead_code, reason = "a statement is executed or queried, seldom both")]
        impl $(<$life>)? $name $(<$life>)? {
            $vis fn prepare(sql: &rusqlite::Connection) -> rusqlite::Result<rusqlite::CachedStatement<'_>> {
                static SQL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                    $crate::statement::numbered_sql($template, &[$(stringify!($param)),+])
                });
                sql.prepare_cached(&SQL)
            }

            /// The number of rows that were written.
            $vis fn execute(&self, sql: &rusqlite::Connection) -> rusqlite::Result<usize> {
                Self::prepare(sql)?.execute(self.params())
            }

            $vis fn params(&self) -> [&dyn rusqlite::ToSql; [$(stringify!($param)),+].len()] {
                [$(&self.$param),+]
            }
        }
    };
}

pub(crate) use statement;

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    statement! {
        struct NoteInsert<'a> { at: i64, text: &'a str } =
            "INSERT INTO note ({columns}, again) VALUES ({values}, {at})";
    }

    statement! {
        struct NoteQuery { latest: i64, earliest: i64 } =
            "SELECT text FROM note WHERE at >= {earliest} AND at < {latest}";
    }

    #[test]
    fn statement_binds_parameters_by_their_names() {
        let sql = Connection::open_in_memory().unwrap();
        sql.execute_batch("CREATE TABLE note (text TEXT, at INTEGER, again INTEGER) STRICT").unwrap();
        assert_eq!(NoteInsert { text: "one", at: 1 }.execute(&sql).unwrap(), 1);
        assert_eq!(NoteInsert { text: "two", at: 2 }.execute(&sql).unwrap(), 1);
        let query = NoteQuery { earliest: 1, latest: 2 };
        let found: String = NoteQuery::prepare(&sql).unwrap().query_one(query.params(), |row| row.get(0)).unwrap();
        assert_eq!(found, "one");
    }
}
