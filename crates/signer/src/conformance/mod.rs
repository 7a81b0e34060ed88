//! The conformance suite of the signer contract. An implementation calls
//! [`conformance_suite!`](crate::conformance_suite) in its tests:
//!
//! ```ignore
//! gapless_signer::conformance_suite!(MyHarness::fresh().await);
//! ```
//!
//! The list of cases is [`for_each_case!`](crate::for_each_case) in this file, and only there. So no signer can leave a
//! case out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the suite is test code that lives in a library, so that every signer can run it"
)]

mod batches;
mod contents;
mod harness;

use std::time::Duration;

#[doc(hidden)]
pub use gapless_domain::{conformance_cases, conformance_tests};
pub use harness::{Harness, input, verify};

/// The time limit of a case.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

/// All cases, by theme. Calls back `$callback! { $args theme { case … } … }`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_case {
    ($callback:ident ($($args:tt)*)) => {
        $crate::conformance::$callback! {
            ($($args)*)
            contents {
                signature_is_of_digest_and_public_key
                signature_has_low_s
                digest_is_not_hashed_again
                public_key_of_reopened_signer_is_equal
                debug_shows_no_key
            }
            batches {
                batch_is_answered_in_order
                equal_inputs_are_signed_each
                concurrent_calls_get_own_answers
                dropped_call_leaves_signer_usable
            }
        }
    };
}

/// One `#[tokio::test]` for every case. The argument is an expression that makes a [`Harness`]; it may await.
#[macro_export]
macro_rules! conformance_suite {
    ($make_harness:expr) => {
        $crate::for_each_case!(conformance_tests(
            $crate,
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)],
            $make_harness
        ));
    };
}

crate::for_each_case!(conformance_cases(crate::conformance::Harness, crate::conformance::in_time));

#[expect(clippy::disallowed_methods, reason = "a hanging signer must fail the suite and not stop it")]
async fn in_time(case: impl Future<Output = ()>) {
    tokio::time::timeout(CASE_TIMEOUT, case).await.expect("the case hangs");
}
