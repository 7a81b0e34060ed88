//! The conformance suite of the store contract, on PostgreSQL.

mod support;

gapless_store::conformance_suite!(support::Database::shared().await);
