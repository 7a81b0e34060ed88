//! Tests of the lane: facts in, effects out, without a store, a chain or a clock. Start reading in `harness`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]

mod harness;
mod ledger;
mod lost_commits;
mod reconcile_fixtures;

mod binding;
mod bump_races;
mod bumping;
mod canceling;
mod command_races;
mod confirmations;
mod drain_and_release;
mod funds;
mod inclusions;
mod peeking;
mod protect;
mod random_walk;
mod reconcile_races;
mod reconciling;
mod rejections;
mod replacing;
mod reservations;
mod restoring;
mod send_outcomes;
mod sending;
mod signing;
mod start;
mod unsubmitted_transactions;
