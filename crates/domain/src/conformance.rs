//! The macros that make a conformance suite from its list of cases. The crate of a contract has the list, and every
//! implementation of the contract runs all cases in its tests.
//!
//! The module `conformance` of such a crate has a module for each theme, and in it a function for each case:
//! `async fn case(harness: &dyn Harness)`. The list is a macro of that crate, which calls a macro of this file back as
//! `callback! { (arguments) theme { case … } … }`.

/// One test for every case, in a module for every theme.
///
/// The arguments are the crate of the suite, the attribute of a test, and an expression that makes a harness and may
/// await.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($suite:tt, #[$test:meta], $make_harness:expr) $($theme:ident { $($case:ident)+ })+) => {$(
        mod $theme {
            #[allow(unused_imports, reason = "the expression may use any name of its file")]
            use super::*;
            $(
                #[$test]
                async fn $case() {
                    let harness = $make_harness;
                    $suite::conformance::cases::$theme::$case(&harness).await;
                }
            )+
        }
    )+};
}

/// The module `cases` with the public form of all cases, for `conformance_tests!`.
///
/// The arguments are the trait of a harness, and a function that takes the future of a case and may limit its time.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    (($harness:path, $in_time:path) $($theme:ident { $($case:ident)+ })+) => {
        /// The cases, for the macro; each fails by panicking.
        pub mod cases {$(
            pub mod $theme {
                $(
                    pub async fn $case(harness: &dyn $harness) {
                        $in_time(Box::pin(super::super::$theme::$case(harness))).await;
                    }
                )+
            }
        )+}
    };
}

/// The function `run_all`, which runs all cases on one harness, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_run {
    (($harness:path) $($theme:ident { $($case:ident)+ })+) => {
        /// Runs all cases on one harness, one after the other. For an implementation that starts slowly.
        pub async fn run_all(harness: &dyn $harness) {
            $($(
                Box::pin(cases::$theme::$case(harness)).await;
            )+)+
        }
    };
}
