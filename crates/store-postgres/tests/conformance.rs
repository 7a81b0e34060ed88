//! The one suite, on PostgreSQL.

mod support;

gapless_store::conformance_suite!(support::Database::shared().await);
