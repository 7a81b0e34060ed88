//! Replace and resubmit: the command is executed in the commit that holds its attempt, or not at all.

use gapless_domain::{
    Address, Amount, AttemptKind, BumpPolicy, CommandKind, EvmCall, FeePolicy, Fees, Payload, PrepareFailure,
    SendOutcome, StateName, SubStateName,
};

use crate::harness::{FEES, GAS, Hold, LaneHarness, block, kinds, mined, nonce, text, window};

fn call(to: u8) -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(to)), value: Amount::from(u64::from(to)), ..EvmCall::default() }
}

fn replace(harness: &mut LaneHarness, seq: u64, call: EvmCall) {
    harness.command(CommandKind::Replace { tx_id: harness.id(seq), payload: Payload::from(call) });
}

fn resubmit(harness: &mut LaneHarness, seq: u64, fees: Option<Fees>) {
    harness.command(CommandKind::Resubmit { tx_id: harness.id(seq), fees });
}

fn tracked(size: u16, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(size), intents);
    harness.answer(SendOutcome::Accepted);
    harness
}

fn newest_fees(harness: &LaneHarness) -> Fees {
    harness.ledger.attempts.values().last().unwrap().fees
}

/// proves S14
#[test]
fn replacement_is_sent_at_the_same_nonce() {
    let mut harness = tracked(1, 1);
    replace(&mut harness, 1, call(7));
    assert!(harness.result().0, "{:?}", harness.result());
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Replace]);
    let tx = &harness.ledger.txs[&1];
    assert_eq!(tx.payload(), &Payload::from(call(7)));
    assert_eq!((tx.state.sub_state(), harness.nonces()), (Some(SubStateName::Replacing), vec![Some(0)]));
    assert_eq!(newest_fees(&harness), Fees::Eip1559 { max_fee: 113, max_priority_fee: 12 });
    let sent = harness.answer(SendOutcome::Accepted);
    assert_eq!(sent[0].tx.hash, harness.hash(0, 1));
    harness.finish(harness.hash(0, 1), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// proves S14, S07
#[test]
fn replaced_intent_ends_by_the_payload_that_is_mined() {
    let mut harness = tracked(1, 1);
    replace(&mut harness, 1, call(7));
    harness.answer(SendOutcome::Accepted);
    let first = harness.hash(0, 0);
    harness.finish(first, block(1));
    let gapless_domain::TxState::Confirmed(settled) = &harness.ledger.txs[&1].state else { panic!() };
    assert_eq!((settled.inclusion.hash, settled.inclusion.kind), (first, AttemptKind::Original));
}

/// proves S14
#[test]
fn replaced_queued_intent_keeps_its_position() {
    let mut harness = tracked(1, 3);
    replace(&mut harness, 2, call(7));
    assert!(harness.result().0);
    assert_eq!((harness.state(2), harness.ledger.txs[&2].payload()), (StateName::Queued, &Payload::from(call(7))));
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.nonces(), [Some(0), Some(1), None]);
    assert_eq!(kinds(&harness, 1), [AttemptKind::Replace], "the attempt carries the new payload");
    let raw = String::from_utf8(harness.ledger.attempts[&(nonce(1), 0)].raw.to_vec()).unwrap();
    assert!(raw.contains(&Address::repeat_byte(7).to_string()), "{raw}");
}

/// The ledger does not change before the attempt is durable, and the command stays open.
///
/// proves S01
#[test]
fn replace_is_started_again_after_a_crash() {
    for hold in [Hold::Prepare, Hold::Sign, Hold::Commit] {
        let mut harness = tracked(1, 1);
        harness.hold.insert(hold);
        replace(&mut harness, 1, call(7));
        assert_eq!(
            (harness.ledger.results.len(), harness.ledger.txs[&1].replacement.is_some()),
            (0, false),
            "{hold:?}"
        );
        harness.crash();
        harness.run();
        assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Replace], "{hold:?}");
        assert_eq!(harness.ledger.results.len(), 1, "{hold:?}");
    }
}

#[test]
fn replace_in_failed_commit_is_written_again() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Commit);
    replace(&mut harness, 1, call(7));
    harness.commit_not_written();
    harness.hold.clear();
    harness.advance_secs(9);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Replace]);
    assert_eq!(harness.ledger.results.len(), 1);
}

/// proves S14
#[test]
fn new_owner_sends_the_wanted_attempt() {
    let mut harness = tracked(1, 1);
    replace(&mut harness, 1, call(7));
    harness.answer(SendOutcome::Unknown);
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
    replace(&mut harness, 1, call(8));
    assert_eq!(kinds(&harness, 0)[1..], [AttemptKind::Replace, AttemptKind::Replace]);
    harness.answer(SendOutcome::Unknown);
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 2));
}

/// The replacement passes the checks of a new intent.
#[test]
fn replacement_that_cannot_be_prepared_is_refused() {
    let failures = [
        (PrepareFailure::Reverted { at: block(1), text: text("no") }, "the transaction would revert: no"),
        (PrepareFailure::Invalid(text("odd")), "no node would accept the transaction: odd"),
        (PrepareFailure::InsufficientFunds(text("poor")), "the account cannot pay for it: poor"),
    ];
    for (failure, expected) in failures {
        let mut harness = tracked(1, 1);
        harness.hold.insert(Hold::Prepare);
        replace(&mut harness, 1, call(7));
        let asked = harness.take_prepare();
        assert_eq!(asked[0].action, call(7).into());
        harness.prepared(vec![(asked[0].key, Err(failure))]);
        assert_eq!(harness.result(), (false, expected));
        assert_eq!((kinds(&harness, 0).len(), harness.ledger.txs[&1].replacement.is_some()), (1, false));
    }
}

#[test]
fn replacement_without_price_is_prepared_again() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Prepare);
    replace(&mut harness, 1, call(7));
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, Err(PrepareFailure::Unavailable(text("away"))))]);
    assert_eq!(harness.ledger.results.len(), 0);
    harness.hold.clear();
    harness.advance_secs(1);
    assert!(harness.result().0);
}

#[test]
fn unaffordable_replacement_is_refused() {
    let mut harness = LaneHarness::new(window(1));
    harness.account.balance = Amount::from(GAS * 120);
    harness.queue(1);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    replace(&mut harness, 1, EvmCall { value: Amount::from(u64::MAX), ..call(7) });
    harness.advance_secs(1);
    assert!(!harness.result().0, "{:?}", harness.result());
    assert!(harness.result().1.starts_with("the attempt may cost"), "{:?}", harness.result());
}

/// proves S13
#[test]
fn canceled_mined_or_reserved_intent_is_not_replaced() {
    let mut harness = tracked(1, 2);
    harness.cancel(1);
    replace(&mut harness, 1, call(7));
    assert_eq!(harness.result(), (false, "the intent is being canceled"));
    let mut harness = tracked(1, 1);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    replace(&mut harness, 1, call(7));
    assert_eq!(harness.result(), (false, "the transaction is already mined"));
    resubmit(&mut harness, 1, None);
    assert!(!harness.result().0);
    let mut harness = LaneHarness::new(window(1));
    harness.queue_reservation("me", std::time::Duration::from_secs(60));
    harness.run();
    replace(&mut harness, 1, call(7));
    assert_eq!(harness.result(), (false, "the nonce is reserved and no transaction was submitted for it"));
}

/// A cancel comes while the replacement is being made. One of them is written, and the other is refused.
#[test]
fn cancel_overtakes_a_replacement_at_the_signer() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Sign);
    replace(&mut harness, 1, call(7));
    harness.cancel(1);
    assert_eq!(harness.ledger.results.len(), 2, "{:?}", harness.ledger.results);
    harness.hold.clear();
    let held = std::mem::take(&mut harness.unanswered);
    for effect in held {
        let gapless_domain::Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        harness.give(gapless_domain::Fact::Signed(requests.iter().map(|r| Ok(crate::harness::sign(r))).collect()));
    }
    harness.advance_secs(2);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(harness.ledger.txs[&1].replacement, None);
}

/// proves F08
#[test]
fn resubmit_without_bumps_sends_the_same_bytes() {
    let mut harness = tracked(1, 2);
    resubmit(&mut harness, 1, None);
    assert_eq!(harness.result(), (true, "the same transaction is sent again"));
    assert_eq!(harness.answer(SendOutcome::AlreadyKnown)[0].tx.hash, harness.hash(0, 0));
    resubmit(&mut harness, 2, None);
    assert_eq!(harness.result(), (false, "the intent is still in the queue and has no nonce yet"));
    assert_eq!(harness.ledger.attempts.len(), 1);
}

/// proves F01
#[test]
fn resubmit_below_required_price_names_that_price() {
    let mut harness = tracked(1, 1);
    resubmit(&mut harness, 1, Some(Fees::Eip1559 { max_fee: 112, max_priority_fee: 50 }));
    let expected =
        "the price must be at least 113 with a tip of 12 wei per gas to replace the transactions that were sent";
    assert_eq!(harness.result(), (false, expected));
    let enough = Fees::Eip1559 { max_fee: 113, max_priority_fee: 50 };
    resubmit(&mut harness, 1, Some(enough));
    assert!(harness.result().0, "{:?}", harness.result());
    assert_eq!((newest_fees(&harness), kinds(&harness, 0)[1]), (enough, AttemptKind::Bump));
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
}

/// A bumped replacement still carries the new payload.
#[test]
fn resubmit_with_bumps_uses_the_price_of_the_policy() {
    let mut setup = window(1);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    replace(&mut harness, 1, call(7));
    harness.answer(SendOutcome::Accepted);
    resubmit(&mut harness, 1, None);
    assert!(harness.result().0, "{:?}", harness.result());
    assert_eq!(kinds(&harness, 0)[1..], [AttemptKind::Replace, AttemptKind::Replace]);
    let raw = String::from_utf8(harness.ledger.attempts[&(nonce(0), 2)].raw.to_vec()).unwrap();
    assert!(raw.contains(&Address::repeat_byte(7).to_string()), "{raw}");
}

/// proves F02
#[test]
fn resubmit_above_the_cap_is_refused() {
    let mut setup = window(1);
    setup.policy.bump.enabled = true;
    setup.policy.fees = FeePolicy { max_price: 112 };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    resubmit(&mut harness, 1, None);
    assert_eq!(
        harness.result(),
        (false, "the next attempt needs a price of at least 113 wei per gas, above the cap of 112")
    );
    assert_eq!(newest_fees(&harness), FEES);
}

/// proves S13
#[test]
fn cancel_can_be_resubmitted_at_a_higher_price() {
    let mut harness = tracked(1, 1);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    resubmit(&mut harness, 1, Some(Fees::Eip1559 { max_fee: 1000, max_priority_fee: 100 }));
    assert!(harness.result().0, "{:?}", harness.result());
    assert_eq!(kinds(&harness, 0)[1..], [AttemptKind::Cancel, AttemptKind::Cancel]);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 1), block(1));
    assert_eq!(harness.state(1), StateName::Canceled);
}

/// The store has refused the command meanwhile, so the replacement is not made.
#[test]
fn replacement_without_its_command_is_dropped() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Prepare);
    replace(&mut harness, 1, call(7));
    harness.ledger.commands.clear();
    harness.hold.clear();
    harness.give(gapless_domain::Fact::Woken);
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, crate::harness::price())]);
    harness.advance_secs(5);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
}

/// proves S15
#[test]
fn replacement_leaves_no_gap_and_delays_no_intent() {
    let mut harness = tracked(2, 4);
    replace(&mut harness, 2, call(7));
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    harness.finish(harness.hash(1, 1), block(2));
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2), Some(3)]);
}
