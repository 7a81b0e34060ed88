//! Fixtures of the reconcile tests.

use gapless_domain::{AccountFacts, CommandKind, ExternalNoncePolicy, LaneSetup, LostRule, SendOutcome, Sighting};

use crate::harness::{LaneHarness, account, block, window};

pub(crate) fn resync(lost: LostRule) -> CommandKind {
    CommandKind::Resync { lost, dry_run: false }
}

pub(crate) fn adopting(max_in_flight: u16) -> LaneSetup {
    let mut setup = window(max_in_flight);
    setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
    setup
}

/// The account's final nonce at block 50.
pub(crate) fn final_count(count: u64) -> AccountFacts {
    AccountFacts { final_block: Some(block(50)), ..account(count) }
}

/// A lane whose intents were sent and accepted.
pub(crate) fn sent(setup: LaneSetup, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(setup, intents);
    answer_all(&mut harness, SendOutcome::Accepted);
    harness
}

pub(crate) fn answer_all(harness: &mut LaneHarness, outcome: SendOutcome) {
    while !harness.broadcasts.is_empty() {
        harness.answer(outcome);
    }
}

/// The first nonce is consumed, and no endpoint knows the hash of its attempt.
pub(crate) fn missing(harness: &mut LaneHarness, account: AccountFacts) {
    harness.account = account;
    harness.advance_secs(20);
    for _ in 0..6 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::NonceTooLow);
        }
    }
}
