//! Replace and resubmit: what is asked for is done in the commit that holds the attempt for it, or not at all.

use gapless_domain::{
    Address, Amount, AttemptKind, BumpPolicy, CommandKind, EvmCall, FeePolicy, Fees, Payload, PrepareFailure,
    SendOutcome, StateName, SubStateName,
};

use crate::bench::{Bench, FEES, GAS, Hold, block, kinds, mined, nonce, text, window};

fn call(to: u8) -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(to)), value: Amount::from(u64::from(to)), ..EvmCall::default() }
}

fn replace(bench: &mut Bench, seq: u64, call: EvmCall) {
    bench.command(CommandKind::Replace { tx_id: bench.id(seq), payload: Payload::Evm(call) });
}

fn resubmit(bench: &mut Bench, seq: u64, fees: Option<Fees>) {
    bench.command(CommandKind::Resubmit { tx_id: bench.id(seq), fees });
}

fn tracked(size: u16, intents: u64) -> Bench {
    let mut bench = Bench::busy(window(size), intents);
    bench.answer(SendOutcome::Accepted);
    bench
}

fn newest_fees(bench: &Bench) -> Fees {
    bench.ledger.attempts.values().last().unwrap().fees
}

/// proves S14
#[test]
fn another_payload_takes_the_same_nonce() {
    let mut bench = tracked(1, 1);
    replace(&mut bench, 1, call(7));
    assert!(bench.result().0, "{:?}", bench.result());
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Replace]);
    let tx = &bench.ledger.txs[&1];
    assert_eq!(tx.payload(), &Payload::Evm(call(7)));
    assert_eq!((tx.state.sub_state(), bench.nonces()), (Some(SubStateName::Replacing), vec![Some(0)]));
    assert_eq!(newest_fees(&bench), Fees::Eip1559 { max_fee: 113, max_priority_fee: 12 });
    let sent = bench.answer(SendOutcome::Accepted);
    assert_eq!(sent[0].tx.hash, bench.hash(0, 1));
    bench.finish(bench.hash(0, 1), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// proves S14, S07
#[test]
fn the_payload_that_is_mined_counts_whichever_it_is() {
    let mut bench = tracked(1, 1);
    replace(&mut bench, 1, call(7));
    bench.answer(SendOutcome::Accepted);
    let first = bench.hash(0, 0);
    bench.finish(first, block(1));
    let gapless_domain::TxState::Confirmed(settled) = &bench.ledger.txs[&1].state else { panic!() };
    assert_eq!((settled.inclusion.hash, settled.inclusion.kind), (first, AttemptKind::Original));
}

/// proves S14
#[test]
fn in_the_queue_it_keeps_its_place() {
    let mut bench = tracked(1, 3);
    replace(&mut bench, 2, call(7));
    assert!(bench.result().0);
    assert_eq!((bench.state(2), bench.ledger.txs[&2].payload()), (StateName::Queued, &Payload::Evm(call(7))));
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.nonces(), [Some(0), Some(1), None]);
    assert_eq!(kinds(&bench, 1), [AttemptKind::Replace], "it carries the payload that took the first one's place");
    let raw = String::from_utf8(bench.ledger.attempts[&(nonce(1), 0)].raw.to_vec()).unwrap();
    assert!(raw.contains(&Address::repeat_byte(7).to_string()), "{raw}");
}

/// Nothing has changed before the attempt is durable, and the command is still open.
///
/// proves S01
#[test]
fn a_crash_before_its_commit_begins_it_anew() {
    for hold in [Hold::Prepare, Hold::Sign, Hold::Commit] {
        let mut bench = tracked(1, 1);
        bench.hold.insert(hold);
        replace(&mut bench, 1, call(7));
        assert_eq!((bench.ledger.results.len(), bench.ledger.txs[&1].replacement.is_some()), (0, false), "{hold:?}");
        bench.crash();
        bench.run();
        assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Replace], "{hold:?}");
        assert_eq!(bench.ledger.results.len(), 1, "{hold:?}");
    }
}

#[test]
fn a_commit_that_was_not_written_is_written_again() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Commit);
    replace(&mut bench, 1, call(7));
    bench.commit_not_written();
    bench.hold.clear();
    bench.pass_secs(9);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Replace]);
    assert_eq!(bench.ledger.results.len(), 1);
}

/// proves S14
#[test]
fn a_new_owner_knows_which_attempt_is_wanted() {
    let mut bench = tracked(1, 1);
    replace(&mut bench, 1, call(7));
    bench.answer(SendOutcome::Unknown);
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
    replace(&mut bench, 1, call(8));
    assert_eq!(kinds(&bench, 0)[1..], [AttemptKind::Replace, AttemptKind::Replace]);
    bench.answer(SendOutcome::Unknown);
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 2));
}

/// It goes through the checks of a new intent.
#[test]
fn what_cannot_go_through_is_refused_and_nothing_has_changed() {
    let failures = [
        (PrepareFailure::Reverted { at: block(1), text: text("no") }, "it would revert: no"),
        (PrepareFailure::Invalid(text("odd")), "no node would take it: odd"),
        (PrepareFailure::InsufficientFunds(text("poor")), "it cannot be paid for: poor"),
    ];
    for (failure, expected) in failures {
        let mut bench = tracked(1, 1);
        bench.hold.insert(Hold::Prepare);
        replace(&mut bench, 1, call(7));
        let asked = bench.take_prepare();
        assert_eq!(asked[0].call, call(7));
        bench.prepared(vec![(asked[0].key, Err(failure))]);
        assert_eq!(bench.result(), (false, expected));
        assert_eq!((kinds(&bench, 0).len(), bench.ledger.txs[&1].replacement.is_some()), (1, false));
    }
}

#[test]
fn what_cannot_be_said_yet_is_asked_again() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Prepare);
    replace(&mut bench, 1, call(7));
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, Err(PrepareFailure::Unavailable(text("away"))))]);
    assert_eq!(bench.ledger.results.len(), 0);
    bench.hold.clear();
    bench.pass_secs(1);
    assert!(bench.result().0);
}

#[test]
fn more_than_the_account_has_is_refused() {
    let mut bench = Bench::new(window(1));
    bench.account.balance = Amount::from(GAS * 120);
    bench.queue(1);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    replace(&mut bench, 1, EvmCall { value: Amount::from(u64::MAX), ..call(7) });
    bench.pass_secs(1);
    assert!(!bench.result().0, "{:?}", bench.result());
    assert!(bench.result().1.starts_with("it may cost"), "{:?}", bench.result());
}

/// proves S13
#[test]
fn what_is_canceled_mined_or_lent_is_not_replaced() {
    let mut bench = tracked(1, 2);
    bench.cancel(1);
    replace(&mut bench, 1, call(7));
    assert_eq!(bench.result(), (false, "it is being canceled"));
    let mut bench = tracked(1, 1);
    bench.see(mined(bench.hash(0, 0), block(1)));
    replace(&mut bench, 1, call(7));
    assert_eq!(bench.result(), (false, "it is mined already; the chain has decided"));
    resubmit(&mut bench, 1, None);
    assert!(!bench.result().0);
    let mut bench = Bench::new(window(1));
    bench.queue_external("me", std::time::Duration::from_secs(60));
    bench.run();
    replace(&mut bench, 1, call(7));
    assert_eq!(bench.result(), (false, "its nonce is lent, and nothing was given to us for it"));
}

/// A cancel that comes while the replacement is being made: one of the two is written, and the other refused.
#[test]
fn a_cancel_overtakes_an_order() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 1, call(7));
    bench.cancel(1);
    assert_eq!(bench.ledger.results.len(), 2, "{:?}", bench.ledger.results);
    bench.hold.clear();
    let held = std::mem::take(&mut bench.held);
    for effect in held {
        let gapless_domain::Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        bench.tell(gapless_domain::Fact::Signed(requests.iter().map(|r| Ok(crate::bench::sign(r))).collect()));
    }
    bench.pass_secs(2);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(bench.ledger.txs[&1].replacement, None);
}

/// proves F08
#[test]
fn a_resubmit_without_bumps_is_the_same_bytes_now() {
    let mut bench = tracked(1, 2);
    resubmit(&mut bench, 1, None);
    assert_eq!(bench.result(), (true, "the same bytes are sent again"));
    assert_eq!(bench.answer(SendOutcome::AlreadyKnown)[0].tx.hash, bench.hash(0, 0));
    resubmit(&mut bench, 2, None);
    assert_eq!(bench.result(), (false, "it has no nonce yet, and is sent when it is its turn"));
    assert_eq!(bench.ledger.attempts.len(), 1);
}

/// proves F01
#[test]
fn a_resubmit_at_a_price_that_is_not_enough_says_what_would_be() {
    let mut bench = tracked(1, 1);
    resubmit(&mut bench, 1, Some(Fees::Eip1559 { max_fee: 112, max_priority_fee: 50 }));
    let expected = "to take the place of what was sent it has to offer at least 113 with a tip of 12";
    assert_eq!(bench.result(), (false, expected));
    let enough = Fees::Eip1559 { max_fee: 113, max_priority_fee: 50 };
    resubmit(&mut bench, 1, Some(enough));
    assert!(bench.result().0, "{:?}", bench.result());
    assert_eq!((newest_fees(&bench), kinds(&bench, 0)[1]), (enough, AttemptKind::Bump));
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
}

/// A replacement that is raised still carries what replaced.
#[test]
fn a_resubmit_with_bumps_offers_what_the_policy_makes_of_the_market() {
    let mut setup = window(1);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    replace(&mut bench, 1, call(7));
    bench.answer(SendOutcome::Accepted);
    resubmit(&mut bench, 1, None);
    assert!(bench.result().0, "{:?}", bench.result());
    assert_eq!(kinds(&bench, 0)[1..], [AttemptKind::Replace, AttemptKind::Replace]);
    let raw = String::from_utf8(bench.ledger.attempts[&(nonce(0), 2)].raw.to_vec()).unwrap();
    assert!(raw.contains(&Address::repeat_byte(7).to_string()), "{raw}");
}

/// proves F02
#[test]
fn an_order_above_the_cap_is_refused() {
    let mut setup = window(1);
    setup.policy.bump.enabled = true;
    setup.policy.fees = FeePolicy { max_price: 112 };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    resubmit(&mut bench, 1, None);
    assert_eq!(bench.result(), (false, "the market asks for 100 wei a gas, and at most 112 may be offered"));
    assert_eq!(newest_fees(&bench), FEES);
}

/// proves S13
#[test]
fn a_cancel_can_be_raised_too() {
    let mut bench = tracked(1, 1);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    resubmit(&mut bench, 1, Some(Fees::Eip1559 { max_fee: 1000, max_priority_fee: 100 }));
    assert!(bench.result().0, "{:?}", bench.result());
    assert_eq!(kinds(&bench, 0)[1..], [AttemptKind::Cancel, AttemptKind::Cancel]);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 1), block(1));
    assert_eq!(bench.state(1), StateName::Canceled);
}

/// What was asked for before a loss, and is refused by the store meanwhile, is not done after all.
#[test]
fn an_order_whose_command_is_gone_is_dropped() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Prepare);
    replace(&mut bench, 1, call(7));
    bench.ledger.commands.clear();
    bench.hold.clear();
    bench.tell(gapless_domain::Fact::Woken);
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, crate::bench::price())]);
    bench.pass_secs(5);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
}

/// proves S15
#[test]
fn orders_leave_no_gap_and_keep_nobody_waiting() {
    let mut bench = tracked(2, 4);
    replace(&mut bench, 2, call(7));
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(0, 0), block(1));
    bench.finish(bench.hash(1, 1), block(2));
    assert_eq!(bench.nonces(), [Some(0), Some(1), Some(2), Some(3)]);
}
