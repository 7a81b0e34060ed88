//! What tests about doubts have in common.

use gapless_domain::{AccountFacts, CommandKind, LaneSetup, LostRule, ReservationPolicy, SendOutcome, Sighting};

use crate::bench::{Bench, account, block, window};

pub(crate) fn resync(lost: LostRule) -> CommandKind {
    CommandKind::Resync { lost, dry_run: false }
}

pub(crate) fn adopting(max_in_flight: u16) -> LaneSetup {
    let mut setup = window(max_in_flight);
    setup.policy.nonce.on_external_nonce = ReservationPolicy::Adopt;
    setup
}

/// A final count up to block 50.
pub(crate) fn final_count(count: u64) -> AccountFacts {
    AccountFacts { final_block: Some(block(50)), ..account(count) }
}

/// A lane whose intents nodes have taken.
pub(crate) fn sent(setup: LaneSetup, intents: u64) -> Bench {
    let mut bench = Bench::busy(setup, intents);
    answer_all(&mut bench, SendOutcome::Accepted);
    bench
}

pub(crate) fn answer_all(bench: &mut Bench, outcome: SendOutcome) {
    while !bench.broadcasts.is_empty() {
        bench.answer(outcome);
    }
}

/// Its first slot is used up by something, and nobody knows its hash.
pub(crate) fn missing(bench: &mut Bench, account: AccountFacts) {
    bench.account = account;
    bench.pass_secs(20);
    for _ in 0..6 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::NonceTooLow);
        }
    }
}
