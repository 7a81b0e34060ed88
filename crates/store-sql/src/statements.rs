//! Statements that are the same text in both databases.
//!
//! Parameters are written `$1`, `$2`, …. PostgreSQL takes them by number. To SQLite they are names, which it numbers as
//! they first occur, so a statement names its parameters first in their order.

/// The migrations that a database has, in order.
pub const MIGRATIONS_APPLIED: &str = "SELECT version, checksum FROM schema_migration ORDER BY version";

pub const SUBMITTERS: &str = "SELECT submitter, alias FROM submitter ORDER BY submitter";

/// The intent that a submitter ($1) and a request id ($2) stand for.
pub const FIND_REQUEST: &str = "SELECT tx_id FROM request_key WHERE submitter = $1 AND request_id = $2";

/// The intent that used the reserved nonce $2 of the lane $1.
pub const RESERVATION_USER: &str = "
    SELECT tx_id FROM submitter_nonce_allocation
    WHERE submitter = $1 AND nonce = $2 AND status = 'USED' AND tx_id IS NOT NULL";

// The audit log has two statements, so that each walks the index that fits and stops at the limit.

/// The newest entries below the id $1, at most $2.
pub const AUDIT_LOG: &str = "
    SELECT id, at, subject, actor, action, detail FROM audit_log WHERE id < $1 ORDER BY id DESC LIMIT $2";

/// The newest entries about the subject $1 below the id $2, at most $3.
pub const AUDIT_LOG_OF_SUBJECT: &str = "
    SELECT id, at, subject, actor, action, detail FROM audit_log
    WHERE subject = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_parameters_first_occur_in_order() {
        for sql in [FIND_REQUEST, RESERVATION_USER, AUDIT_LOG, AUDIT_LOG_OF_SUBJECT] {
            let places: Vec<usize> = (1..).map_while(|number| sql.find(&format!("${number}"))).collect();
            assert!(places.len() >= 2 && places.is_sorted(), "{sql}");
        }
    }
}
