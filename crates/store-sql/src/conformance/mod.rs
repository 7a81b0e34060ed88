//! Migrations: a database of an older schema is opened with the rows that it holds, and work goes on.
//!
//! A store calls [`migration_suite!`](crate::migration_suite) in its tests, with an expression that makes a
//! [`MigrationHarness`]. Every case gets a fresh database. The rows are written with plain SQL in the form that the
//! code of that schema wrote, so that no case depends on the code that it tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "the suite is test code in a library, so that every store can run it"
)]

mod harness;
mod migrations;
mod newest;
mod rows;

#[doc(hidden)]
pub use gapless_domain::{conformance_cases, conformance_tests};
pub use harness::{ArchivedIntent, FixtureRow, FixtureValue, MigrationHarness};

/// All cases. Calls back `$callback! { $args theme { case … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_migration_case {
    ($callback:ident ($($args:tt)*)) => {
        $crate::conformance::$callback! {
            ($($args)*)
            migrations {
                schema_1_lane_with_an_open_nonce_is_found_by_the_sweep
                schema_2_rows_load_without_notices_and_tails
                schema_3_rows_load_without_audit_log_and_evidence
                schema_4_slot_without_block_hash_is_above_no_block
                schema_5_queue_behind_bound_intents_is_peeked_in_order
                schema_6_rows_load_without_replacement_and_history
                schema_9_archived_intent_loses_events_and_attempts_to_retention
            }
            newest {
                schema_7_rows_of_every_kind_load_and_go_on
                schema_8_rows_of_every_kind_load_and_go_on
                schema_9_rows_of_every_kind_load_and_go_on
                schema_10_rows_of_every_kind_load_and_go_on
            }
        }
    };
}

/// One `#[tokio::test]` for every case. The argument is an expression that makes a [`MigrationHarness`]; it may await.
#[macro_export]
macro_rules! migration_suite {
    ($make_harness:expr) => {
        $crate::for_each_migration_case!(conformance_tests(
            $crate,
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)],
            $make_harness
        ));
    };
}

crate::for_each_migration_case!(conformance_cases(crate::conformance::MigrationHarness, std::convert::identity));
