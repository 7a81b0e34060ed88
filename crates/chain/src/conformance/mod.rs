//! The conformance suite of the chain contract. An implementation calls
//! [`conformance_suite!`](crate::conformance_suite) in its tests, for one test a case, or [`run_all`] for all cases on
//! one node:
//!
//! ```ignore
//! gapless_chain::conformance_suite!(MyHarness::fresh().await);
//! ```
//!
//! Every case takes its own accounts, so that cases can share a chain one after the other. The list of cases is
//! [`for_each_case!`](crate::for_each_case) in this file, and only there. So no chain can leave a case out, and the
//! compiler reports a case that is not in the list as dead code.
//!
//! A chain that cannot do what a case needs says so by [`Harness::lacks`], with a reason. The case
//! `abilities::lacking_abilities_are_stated` checks that the statement is true.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the suite is test code that lives in a library, so that every chain can run it"
)]

mod abilities;
mod accounts;
mod diagnosis;
mod fixtures;
mod harness;
mod headers;
mod prices;
mod receipts;
mod scans;
mod sends;

#[doc(hidden)]
pub use gapless_domain::{conformance_cases, conformance_run, conformance_tests};
pub use harness::{Ability, Harness, Lack};

/// All cases, by theme. Calls back `$callback! { $args headers { case … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ($callback:ident ($($args:tt)*)) => {
        $crate::conformance::$callback! {
            ($($args)*)
            headers {
                head_and_its_ancestors_are_linked
                header_is_found_by_number_and_by_hash
                unknown_header_is_none
            }
            receipts {
                receipt_is_found_by_block_and_by_hash
                unknown_receipt_is_none_in_its_place
                receipts_of_unknown_block_are_none
                failed_transaction_has_a_receipt
                revert_of_successful_or_unknown_transaction_is_none
            }
            accounts {
                counts_are_of_latest_pending_and_final_block
                balance_falls_by_value_and_fee
                accounts_are_answered_in_order
            }
            scans {
                scan_finds_own_and_foreign_transactions
                scanned_blocks_are_linked
                scan_above_the_head_is_none
            }
            prices {
                quote_is_above_zero_and_grows_with_speed
                measured_work_of_a_transfer_is_enough
                measure_of_a_revert_is_reverted
                measures_are_answered_in_order
            }
            sends {
                new_transactions_are_accepted_in_order
                sent_transaction_is_already_known
                used_nonce_is_too_low
                replacement_at_equal_price_is_underpriced
                dearer_replacement_is_mined
                unaffordable_transaction_is_refused
            }
            diagnosis {
                pooled_transaction_is_in_mempool
                unsent_transaction_is_likely_dropped
                foreign_transaction_is_likely_replacement
            }
            abilities {
                reorg_takes_back_blocks_and_receipts
                cut_endpoint_is_unavailable_until_restored
                lacking_abilities_are_stated
            }
        }
    };
}

/// One `#[tokio::test]` for every case. The argument is an expression that makes a [`Harness`]; it may await.
#[macro_export]
macro_rules! conformance_suite {
    ($make_harness:expr) => {
        $crate::for_each_case!(conformance_tests($crate, #[tokio::test], $make_harness));
    };
}

crate::for_each_case!(conformance_cases(crate::conformance::Harness, std::convert::identity));
crate::for_each_case!(conformance_run(crate::conformance::Harness));
