//! Reactions to the outcomes of a send, one row for each outcome of DESIGN §7.

use gapless_domain::{
    AttemptKind, EvmCall, Fees, Goal, PrepareFailure, PrepareKey, Prepared, SendOutcome, Sighting, StateName,
    SubStateName, Work,
};

use crate::harness::{FEES, GAS, Hold, LaneHarness, block, kinds, mined, window};
use crate::reconcile_fixtures::sent;

/// State of the only intent of a strict lane after the answer to its first send.
struct Row {
    outcome: SendOutcome,
    state: StateName,
    sub_state: SubStateName,
    /// Seconds until the same attempt is sent again; `None` if another attempt is made.
    again: Option<u64>,
    /// The answer triggers a lookup of the hashes.
    looks_up: bool,
}

const fn row(outcome: SendOutcome, state: StateName, sub_state: SubStateName, again: Option<u64>) -> Row {
    Row { outcome, state, sub_state, again, looks_up: false }
}

/// proves S04, S06, C06
#[test]
fn every_send_outcome_keeps_the_nonce() {
    use SendOutcome as O;
    use StateName::{Allocated, Tracking};
    use SubStateName::{AwaitingFunds, Canceling, Pending};
    let rows = [
        row(O::Accepted, Tracking, Pending, Some(60)),
        row(O::AlreadyKnown, Tracking, Pending, Some(60)),
        Row { looks_up: true, ..row(O::NonceTooLow, Allocated, Pending, Some(1)) },
        row(O::NonceTooHigh, Allocated, Pending, Some(1)),
        row(O::ReplacementUnderpriced, Allocated, Pending, Some(1)),
        row(O::Underpriced, Allocated, Pending, Some(1)),
        row(O::InsufficientFunds, Allocated, AwaitingFunds, Some(1)),
        // A cancel takes the nonce.
        row(O::Rejected, Allocated, Canceling, None),
        row(O::Wait, Allocated, Pending, Some(1)),
        row(O::PoolFull, Allocated, Pending, Some(1)),
        row(O::RateLimited, Allocated, Pending, Some(1)),
        row(O::Unavailable, Allocated, Pending, Some(1)),
        row(O::Unknown, Allocated, Pending, Some(1)),
    ];
    for Row { outcome, state, sub_state, again, looks_up } in rows {
        let mut harness = LaneHarness::with_intents(window(1), 2);
        let looked_up = harness.looked_up().len();
        let first = harness.answer(outcome);
        let name = outcome.as_str();
        let tx = &harness.ledger.txs[&1];
        assert_eq!((tx.state.name(), tx.state.sub_state()), (state, Some(sub_state)), "{name}");
        assert_eq!(harness.nonces(), [Some(0), None], "{name}: the nonce stays, and no other intent gets one");
        assert_eq!(harness.looked_up().len() > looked_up, looks_up, "{name}");
        assert_eq!(harness.protect_code(), None, "{name}: no answer puts the lane into PROTECT");
        if let Some(seconds) = again {
            harness.advance_secs(seconds - 1);
            assert!(harness.broadcasts.is_empty(), "{name}: too early");
            harness.advance_secs(1);
            assert_eq!(harness.take_broadcast(), first, "{name}: the same bytes");
        } else {
            let next = harness.take_broadcast();
            assert_ne!(next, first, "{name}");
            assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel], "{name}");
        }
        // If the chain includes the original, the intent is confirmed, whatever the node answered.
        harness.finish(harness.hash(0, 0), block(1));
        assert_eq!(harness.state(1), StateName::Confirmed, "{name}");
    }
}

/// The pause grows after each refusal, up to a limit.
#[test]
fn refused_sends_back_off() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    for outcome in [SendOutcome::PoolFull, SendOutcome::RateLimited, SendOutcome::Unknown, SendOutcome::Wait] {
        harness.answer(outcome);
        harness.advance_secs(64);
    }
    harness.answer(SendOutcome::PoolFull);
    harness.advance_secs(15);
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(50);
    assert_eq!(harness.sending(), [0]);
}

#[test]
fn nonce_too_high_resends_lower_nonces() {
    let mut harness = LaneHarness::with_intents(window(3), 3);
    let sent = harness.take_broadcast();
    harness.answer_each(&sent, &[SendOutcome::Accepted, SendOutcome::Accepted, SendOutcome::NonceTooHigh]);
    assert_eq!(harness.sending(), [0, 1], "a node without the lower nonces cannot accept the third");
}

fn underpriced() -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Prepare);
    harness.answer(SendOutcome::Underpriced);
    assert!(harness.unanswered.is_empty(), "the price was requested without a pause");
    harness.advance_secs(1);
    harness
}

#[test]
fn underpriced_attempt_is_bumped_in_a_dearer_market() {
    let mut harness = underpriced();
    let asked = harness.take_prepare();
    assert_eq!(asked[0].action.own_work(), Some(Work::new(GAS)), "the gas limit was chosen before");
    let fees = Fees::Eip1559 { max_fee: 105, max_priority_fee: 40 };
    harness.prepared(vec![(asked[0].key, Ok(Prepared::new(Work::new(GAS), fees)))]);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Bump]);
    let bump = harness.ledger.attempts.values().last().cloned().unwrap();
    // Each field is high enough for nodes to accept the replacement.
    assert_eq!(bump.fees, Fees::Eip1559 { max_fee: 113, max_priority_fee: 40 });
    assert_eq!(harness.take_broadcast()[0].tx.hash, bump.hash);
    harness.finish(harness.hash(0, 1), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

#[test]
fn underpriced_attempt_is_resent_in_an_equal_market() {
    let mut harness = underpriced();
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, Ok(Prepared::new(Work::new(GAS), FEES)))]);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
    assert_eq!(harness.sending(), [0]);
}

#[test]
fn underpriced_attempt_without_price_is_priced_again() {
    let mut harness = underpriced();
    let asked = harness.take_prepare();
    let unavailable = PrepareFailure::Unavailable(crate::harness::text("away"));
    harness.prepared(vec![(asked[0].key, Err(unavailable))]);
    harness.advance_secs(1);
    assert!(matches!(harness.take_prepare()[0].key, PrepareKey::Slot(at, _) if at == crate::harness::nonce(0)));
}

/// proves F03
#[test]
fn price_set_by_caller_is_not_bumped() {
    let mut harness = LaneHarness::new(window(1));
    let to = Some(gapless_domain::Address::ZERO);
    harness.queue_call(EvmCall { to, fees: Some(FEES), gas_limit: Some(GAS), ..EvmCall::default() }, None);
    harness.run();
    for _ in 0..3 {
        harness.answer(SendOutcome::Underpriced);
        harness.advance_secs(10);
    }
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
}

#[test]
fn bumps_are_limited_in_number() {
    let mut setup = window(1);
    setup.policy.bump.max_attempts = 3;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.hold.insert(Hold::Prepare);
    for round in 0..10_u128 {
        harness.answer(SendOutcome::Underpriced);
        harness.advance_secs(70);
        if harness.unanswered.iter().any(|effect| matches!(effect, gapless_domain::Effect::Prepare(_))) {
            let asked = harness.take_prepare();
            let fees = Fees::Eip1559 { max_fee: 1000 << round, max_priority_fee: 1000 << round };
            harness.prepared(vec![(asked[0].key, Ok(Prepared::new(Work::new(GAS), fees)))]);
        }
    }
    assert_eq!(harness.ledger.attempts.len(), 4, "the original and three bumps");
}

/// A foreign transaction in the pool is dearer than the cancel.
#[test]
fn underpriced_filler_is_bumped() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Rejected);
    harness.answer(SendOutcome::ReplacementUnderpriced);
    harness.advance_secs(2);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel, AttemptKind::Cancel]);
    let fees: Vec<u128> = harness.ledger.attempts.values().map(|attempt| attempt.fees.highest_price()).collect();
    assert_eq!(fees, [100, 100, 113], "a rejected attempt is in no pool");
    assert_eq!(
        harness.ledger.txs[&1].state.bound().unwrap().goal,
        Goal::Cancel(gapless_domain::CancelReason::Rejected)
    );
}

#[test]
fn bumps_are_not_used_up_in_one_moment() {
    let mut harness = sent(window(1), 1);
    harness.cancel(1);
    for _ in 0..40 {
        if harness.broadcasts.is_empty() {
            break;
        }
        harness.answer(SendOutcome::Underpriced);
    }
    assert!(kinds(&harness, 0).len() <= 4, "{} attempts within a second", kinds(&harness, 0).len());
}

#[test]
fn late_rejection_of_mined_intent_does_not_protect_lane() {
    let mut harness = sent(window(1), 1);
    harness.cancel(1);
    assert_eq!(harness.sending(), [0]);
    harness.sight(mined(harness.hash(0, 0), block(3)));
    harness.answer(SendOutcome::Rejected);
    assert_eq!(harness.protect_code(), None);
}

#[test]
fn late_rejection_of_mined_intent_cancels_nothing() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.sight(mined(harness.hash(0, 0), block(3)));
    harness.answer(SendOutcome::Rejected);
    harness.sight(Sighting::Unmined { hash: harness.hash(0, 0), block: block(3) });
    harness.advance_secs(1);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
}
