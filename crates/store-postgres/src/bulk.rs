//! Statements that take many rows as arrays, one array for each column.
//!
//! [`bulk_statement!`](crate::bulk::bulk_statement) declares the columns of a statement once: names, Rust types and SQL
//! types. The macro makes the type of a row, and a function that binds rows to the statement. The list of columns in
//! the SQL and the order of the parameters come from the same declaration, so a value cannot get into another column.

use gapless_store_sql::fill_template;
use tokio_postgres::types::ToSql;

/// One statement with its parameters.
pub(crate) struct BulkStatement<'a> {
    pub(crate) sql: &'static str,
    params: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> BulkStatement<'a> {
    pub(crate) fn new(sql: &'static str, params: Vec<Box<dyn ToSql + Sync + Send + 'a>>) -> Self {
        BulkStatement { sql, params }
    }

    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|param| param.as_ref() as &(dyn ToSql + Sync)).collect()
    }
}

/// A column or a scalar parameter: its name and its SQL type.
pub(crate) type Declared = (&'static str, &'static str);

/// Makes the SQL of a bulk statement. The template may name:
/// - `{rows}`: the rows as a table `i`;
/// - `{ordered_rows}`: the rows as a table `i` with their number in the additional column `place`;
/// - `{columns}`: the names of the columns;
/// - `{count}`: the number of rows;
/// - each scalar parameter by its name.
pub(crate) fn bulk_sql(template: &str, columns: &[Declared], scalars: &[Declared]) -> String {
    let list = |text: &dyn Fn(usize, &Declared) -> String| {
        columns.iter().enumerate().map(|(index, column)| text(index, column)).collect::<Vec<_>>().join(", ")
    };
    let names = list(&|_, (name, _)| (*name).to_owned());
    let arrays = list(&|index, (_, sql_type)| format!("${}::{sql_type}[]", index + 1));
    fill_template(template, |name| match name {
        "rows" => Some(format!("unnest({arrays}) AS i ({names})")),
        "ordered_rows" => Some(format!("unnest({arrays}) WITH ORDINALITY AS i ({names}, place)")),
        "columns" => Some(names.clone()),
        "count" => columns.first().map(|(_, sql_type)| format!("cardinality($1::{sql_type}[])")),
        _ => {
            let index = scalars.iter().position(|(scalar, _)| *scalar == name)?;
            Some(format!("${}::{}", columns.len() + index + 1, scalars[index].1))
        }
    })
}

/// Declares one bulk statement:
///
/// ```ignore
/// bulk_statement! {
///     fn write_slots(
///         SlotWrite<'a> { submitter: &'a str as "text", nonce: i64 as "bigint" },
///         at: SystemTime as "timestamptz",
///     ) = "INSERT INTO slot ({columns}, bound_at) SELECT {columns}, {at} FROM {rows}";
/// }
/// ```
///
/// The function gives None if there are no rows. Columns and scalars must have different names.
macro_rules! bulk_statement {
    (
        $(#[$doc:meta])*
        $vis:vis fn $function:ident(
            $row:ident $(<$life:lifetime>)? { $($column:ident: $type:ty as $sql_type:literal),+ $(,)? }
            $(, $scalar:ident: $scalar_type:ty as $scalar_sql_type:literal)* $(,)?
        ) = $template:expr;
    ) => {
        $vis struct $row $(<$life>)? {
            $($vis $column: $type),+
        }

        $(#[$doc])*
        $vis fn $function $(<$life>)? (
            rows: Vec<$row $(<$life>)?>
            $(, $scalar: $scalar_type)*
        ) -> Option<$crate::bulk::bulk_statement!(@statement $($life)?)> {
            static SQL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                $crate::bulk::bulk_sql(
                    $template,
                    &[$((stringify!($column), $sql_type)),+],
                    &[$((stringify!($scalar), $scalar_sql_type)),*],
                )
            });
            if rows.is_empty() {
                return None;
            }
            $(let mut $column: Vec<$type> = Vec::with_capacity(rows.len());)+
            for row in rows {
                $($column.push(row.$column);)+
            }
            let params: Vec<Box<dyn tokio_postgres::types::ToSql + Sync + Send + '_>> =
                vec![$(Box::new($column)),+ $(, Box::new($scalar))*];
            Some($crate::bulk::BulkStatement::new(SQL.as_str(), params))
        }
    };
    (@statement $life:lifetime) => { $crate::bulk::BulkStatement<$life> };
    (@statement) => { $crate::bulk::BulkStatement<'static> };
}

pub(crate) use bulk_statement;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_sql_numbers_columns_and_scalars_in_order() {
        let columns = [("submitter", "text"), ("nonce", "bigint")];
        let scalars = [("at", "timestamptz"), ("kept", "bigint")];
        let sql = |template| bulk_sql(template, &columns, &scalars);
        assert_eq!(sql("FROM {rows}"), "FROM unnest($1::text[], $2::bigint[]) AS i (submitter, nonce)");
        assert_eq!(
            sql("FROM {ordered_rows}"),
            "FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS i (submitter, nonce, place)"
        );
        assert_eq!(sql("({columns}, at) {at} {kept}"), "(submitter, nonce, at) $3::timestamptz $4::bigint");
        assert_eq!(sql("{count} '{}' {other}"), "cardinality($1::text[]) '{}' {other}");
    }
}
