//! Orders, raises and decisions that meet each other, late answers, other owners, and refusals: what a review of the first version has found.

use std::time::Duration;

use gapless_domain::{
    Address, Amount, AttemptKind, BumpPolicy, Command, CommandId, CommandKind, Decision, Effect, EvmCall, Fact, Fees,
    LaneEventKind, LaneSetup, LostRule, Payload, PrepareFailure, Prepared, ReservationStatus, SendOutcome, SignFailure,
    SignedTx, StateName, StuckRule,
};

use crate::bench::{Bench, FEES, Hold, block, kinds, mined, nonce, owner, stranger, submitter, text, window};

pub(crate) fn call(to: u8) -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(to)), value: Amount::from(u64::from(to)), ..EvmCall::default() }
}

pub(crate) fn fees(max_fee: u128, max_priority_fee: u128) -> Fees {
    Fees::Eip1559 { max_fee, max_priority_fee }
}

pub(crate) fn replace(bench: &mut Bench, seq: u64, call: EvmCall) {
    bench.command(CommandKind::Replace { tx_id: bench.id(seq), payload: Payload::Evm(call) });
}

pub(crate) fn resubmit(bench: &mut Bench, seq: u64, fees: Option<Fees>) {
    bench.command(CommandKind::Resubmit { tx_id: bench.id(seq), fees });
}

/// Several commands that the lane finds at one look.
pub(crate) fn commands(bench: &mut Bench, kinds: Vec<CommandKind>) {
    for kind in kinds {
        let id = CommandId((bench.ledger.commands.len() + bench.ledger.results.len()) as u64 + 1);
        let (issued_by, issued_at) = (text("test"), bench.ledger.now());
        bench.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by, issued_at });
    }
    bench.tell(Fact::Woken);
}

pub(crate) fn tracked(size: u16, intents: u64) -> Bench {
    let mut bench = Bench::busy(window(size), intents);
    bench.answer(SendOutcome::Accepted);
    bench
}

pub(crate) fn bumping(size: u16) -> LaneSetup {
    let mut setup = window(size);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    setup
}

pub(crate) fn offers(bench: &Bench, at: u64) -> Vec<Fees> {
    let attempts = bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts.map(|attempt| attempt.fees).collect()
}

pub(crate) fn told(bench: &Bench) -> Vec<LaneEventKind> {
    bench.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

/// What would really be signed: the bench writes the kind into the bytes, a chain does not.
pub(crate) fn bytes(bench: &Bench, at: u64) -> Vec<String> {
    let attempts = bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts
        .map(|attempt| {
            let raw = String::from_utf8(attempt.raw.to_vec()).unwrap();
            raw.replace(&format!(" {} ", attempt.kind.as_str()), " ")
        })
        .collect()
}

/// So many rounds of blocks and time, and the same answer to whatever is sent; what was sent, by ordinal.
pub(crate) fn rounds(bench: &mut Bench, rounds: u64, seconds: u64, outcome: SendOutcome) -> usize {
    let mut sends = 0;
    for _ in 0..rounds {
        bench.pass_blocks(5, seconds);
        while !bench.broadcasts.is_empty() {
            bench.answer(outcome);
            sends += 1;
        }
    }
    sends
}

/// Somebody who always says "cancel" is asked about a cancel that waits too long: the commit is an illegal transition, for ever,
/// and nothing else of the lane is written either.
#[test]
fn a_decision_to_cancel_what_is_being_canceled_stops_nothing() {
    let mut setup = window(2);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut bench = Bench::busy(setup, 2);
    bench.answer(SendOutcome::Accepted);
    bench.decision = Decision::Cancel;
    rounds(&mut bench, 20, 60, SendOutcome::AlreadyKnown);
    let notices: Vec<_> = bench.notices.iter().map(|notice| notice.as_str()).collect();
    assert!(notices.is_empty(), "{notices:?}");
    // Somebody else's command is never executed any more.
    let before = bench.ledger.results.len();
    bench.command(CommandKind::Pause);
    rounds(&mut bench, 5, 60, SendOutcome::AlreadyKnown);
    assert_eq!(bench.ledger.results.len(), before + 1, "the lane writes nothing any more");
}

/// The same by hand: canceled, out of tries, and the policy agrees with the user.
#[test]
fn a_policy_may_say_cancel_after_the_user_has() {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 2, ask_interval: Duration::from_secs(300) };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    bench.decision = Decision::Cancel;
    rounds(&mut bench, 4, 60, SendOutcome::AlreadyKnown);
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}

/// What the first payload would do is held against the second one: it fails, finally.
#[test]
fn a_late_answer_about_the_old_payload_does_not_fail_the_new_one() {
    let mut bench = Bench::new(window(1));
    bench.queue(1);
    bench.hold.insert(Hold::Prepare);
    bench.run();
    let asked_first = bench.take_prepare();
    replace(&mut bench, 1, call(7));
    assert!(bench.result().0);
    bench.prepared(vec![(asked_first[0].key, Err(PrepareFailure::Invalid(text("the old one is odd"))))]);
    assert_ne!(bench.state(1), StateName::FailedFinal, "nobody has asked about the new payload");
}

/// Or it is bound with the gas of the old one: on chain it runs out of it.
#[test]
fn a_late_answer_about_the_old_payload_is_not_the_gas_of_the_new_one() {
    let mut bench = Bench::new(window(1));
    bench.queue(1);
    bench.hold.insert(Hold::Prepare);
    bench.run();
    let asked_first = bench.take_prepare();
    replace(&mut bench, 1, call(7));
    bench.prepared(vec![(asked_first[0].key, Ok(Prepared::new(21_000, FEES)))]);
    let asked = bench.take_prepare();
    bench.prepared(vec![(asked[0].key, Ok(Prepared::new(90_000, FEES)))]);
    let raw = String::from_utf8(bench.ledger.attempts[&(nonce(0), 0)].raw.to_vec()).unwrap();
    assert!(raw.contains("|90000|"), "{raw}");
}

/// A replacement that was overtaken by a cancel: the cancel is priced by what the replacement's caller named.
#[test]
fn a_late_answer_about_an_order_does_not_price_the_cancel() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Prepare);
    replace(&mut bench, 1, EvmCall { fees: Some(fees(1_000_000, 500_000)), ..call(7) });
    let of_order = bench.take_prepare();
    bench.cancel(1);
    let of_cancel = bench.take_prepare();
    bench.prepared(vec![(of_order[0].key, Ok(Prepared::new(3_000_000, fees(1_000_000, 500_000))))]);
    bench.prepared(vec![(of_cancel[0].key, crate::bench::price())]);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(offers(&bench, 0)[1], fees(113, 12));
}

/// An order is refused for what was said of another one.
#[test]
fn a_late_answer_about_one_order_does_not_refuse_the_next() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Prepare);
    replace(&mut bench, 1, call(7));
    let of_first = bench.take_prepare();
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert_eq!(bench.ledger.results.len(), 1, "refused: it is mined");
    bench.see(gapless_domain::Sighting::Unmined { hash: bench.hash(0, 0), block: block(1) });
    bench.answer(SendOutcome::AlreadyKnown);
    replace(&mut bench, 1, call(8));
    bench.prepared(vec![(of_first[0].key, Err(PrepareFailure::Reverted { at: block(1), text: text("seven") }))]);
    assert_eq!(bench.ledger.results.len(), 1, "{:?}", bench.result());
}

/// Nobody has asked for a cancel, and the nonce is the borrower's.
#[test]
fn a_decision_to_bump_a_borrowed_nonce_does_not_cancel_it() {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 2, ask_interval: Duration::from_secs(300) };
    let mut bench = Bench::new(setup);
    bench.queue_external("me", Duration::from_secs(600));
    bench.run();
    assert!(matches!(bench.ledger.reservations[&nonce(0)], ReservationStatus::Reserved { .. }));
    let raw =
        gapless_domain::Bytes::from_static(b"0 mine|0x0101010101010101010101010101010101010101|0|0x|21000|2100000");
    let signed = SignedTx { hash: gapless_domain::keccak256(&raw), raw };
    let lock_owner = owner("me");
    bench.command(CommandKind::UseReserved {
        nonce: nonce(0),
        lock_owner,
        signed,
        fees: FEES,
        cost: Amount::from(2_100_000_u64),
    });
    assert!(bench.result().0, "{:?}", bench.result());
    bench.answer(SendOutcome::Accepted);
    bench.decision = Decision::Bump;
    rounds(&mut bench, 4, 60, SendOutcome::AlreadyKnown);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original], "nobody asked for a cancel");
}

/// Its place in line is further back than the lane looks.
#[test]
fn a_replace_far_back_in_the_queue_waits_until_it_is_seen() {
    let mut bench = tracked(1, 60);
    replace(&mut bench, 50, call(7));
    rounds(&mut bench, 1, 10, SendOutcome::Accepted);
    let refused =
        bench.ledger.results.iter().find(|result| matches!(result, gapless_domain::CommandResult::Refused(_)));
    assert!(refused.is_none(), "{:?}", refused);
}

/// A store hands out a hundred commands at once: those that wait must not keep the others from being seen.
///
/// proves S15
#[test]
fn commands_that_wait_for_their_turn_are_few_and_do_not_wait_for_ever() {
    let mut bench = tracked(1, 200);
    let far = |bench: &Bench, seq| CommandKind::Replace { tx_id: bench.id(seq), payload: Payload::Evm(call(7)) };
    let many = (100..170).map(|seq| far(&bench, seq)).collect();
    commands(&mut bench, many);
    assert!((40..60).contains(&bench.ledger.commands.len()), "{}", bench.ledger.commands.len());
    bench.command(CommandKind::Pause);
    assert!(bench.ledger.cursor.as_ref().unwrap().paused);
    bench.pass_secs(601);
    bench.tell(Fact::Woken);
    assert_eq!(bench.ledger.commands.len(), 0);
}

#[test]
fn a_cancel_beside_a_replace_in_the_queue_is_done() {
    let mut bench = tracked(1, 2);
    let (tx_id, payload) = (bench.id(2), Payload::Evm(call(7)));
    commands(&mut bench, vec![CommandKind::Replace { tx_id, payload }, CommandKind::Cancel { tx_id }]);
    bench.pass_secs(5);
    assert_eq!(bench.state(2), StateName::Canceled, "{:?}", bench.ledger.results);
}

#[test]
fn two_replacements_in_the_queue_at_one_look_are_both_done() {
    let mut bench = tracked(1, 2);
    let tx_id = bench.id(2);
    let to = |to| CommandKind::Replace { tx_id, payload: Payload::Evm(call(to)) };
    commands(&mut bench, vec![to(7), to(8)]);
    bench.pass_secs(5);
    assert_eq!(bench.ledger.txs[&2].payload(), &Payload::Evm(call(8)), "{:?}", bench.ledger.results);
}

/// The ledger shows it in the queue, asking for the second payload; it was bound and sent. A third payload in line makes the ledger
/// forget the second one, so that the chain's transaction is not known again: two payloads of one intent take effect.
#[test]
fn nothing_is_replaced_before_a_loss_of_commits_is_reconciled() {
    // Without the third payload, the second one is known again.
    assert_eq!(regressed(false), 0);
    assert_eq!(regressed(true), 0, "the second payload is on chain, and another one is sent");
}

/// How many attempts are made for the second intent, whose second payload is on chain already.
fn regressed(replaces_again: bool) -> usize {
    let mut bench = tracked(1, 2);
    replace(&mut bench, 2, call(7));
    // What the backup has; after that, the second one was bound and sent with its second payload.
    let mut backup = bench.ledger.clone();
    backup.regressed = true;
    let mut bench = Bench::with(window(1), backup);
    bench.account.finalized = Some(nonce(0));
    bench.account.latest = nonce(0);
    bench.run();
    assert_eq!(bench.protect_code(), Some("store_regressed"));
    if replaces_again {
        replace(&mut bench, 2, call(8));
    }
    // The chain: the first at its nonce, and the second payload at the next one, which the ledger does not know.
    bench.account = crate::bench::account(2);
    bench.account.final_block = Some(block(50));
    let mut second = stranger(1, 7, 5);
    second.tx.plan.call = call(7);
    bench.blocks = Some((0, vec![second]));
    bench.finish(bench.hash(0, 0), block(4));
    bench.command(CommandKind::Resync { lost: LostRule::Requeue, dry_run: false });
    for _ in 0..10 {
        bench.pass_secs(5);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::Accepted);
        }
    }
    assert_eq!(bench.protect_code(), None, "{:?}", bench.ledger.results);
    bench.ledger.attempts.keys().filter(|(at, _)| *at > nonce(1)).count()
}

#[test]
fn an_order_waits_until_the_balance_is_known() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Prepare);
    replace(&mut bench, 1, call(7));
    bench.crash();
    bench.hold.insert(Hold::Account);
    bench.run();
    assert!(bench.ledger.results.is_empty(), "{:?}", bench.result());
}

#[test]
fn an_order_that_the_signer_refuses_is_refused() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 1, call(7));
    for _ in 0..50 {
        let held = std::mem::take(&mut bench.held);
        for effect in held {
            let Effect::Sign(requests) = effect else { continue };
            bench.tell(Fact::Signed(vec![Err(SignFailure::Refused(text("not by my rules"))); requests.len()]));
        }
        bench.pass_secs(10);
    }
    assert_eq!(bench.ledger.results.len(), 1, "the order is still open, and no other one can begin");
}
