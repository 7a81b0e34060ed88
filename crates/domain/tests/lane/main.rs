//! The lane, table by table: given a lane and a fact, these effects.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test fail like the test itself")]

mod bench;
mod doubted;
mod ledger;

mod binding;
mod borrowers;
mod canceling;
mod contested;
mod doubts;
mod ending;
mod funds;
mod lending;
mod mining;
mod orders;
mod outbidding;
mod outcomes;
mod protecting;
mod raising;
mod recovering;
mod restoring;
mod roaming;
mod sending;
mod starting;
mod telling;
mod trouble;
