//! Races between commands, bumps, decisions, late answers, takeovers and refusals.

use std::time::Duration;

use gapless_domain::{
    Address, Amount, AttemptKind, BumpPolicy, Command, CommandId, CommandKind, Decision, Effect, EvmCall, Fact, Fees,
    LaneEventKind, LaneSetup, LostRule, Payload, PrepareFailure, Prepared, ReservationStatus, SendOutcome, SignFailure,
    SignedTx, StateName, StuckRule, Work,
};

use crate::harness::{FEES, Hold, LaneHarness, block, foreign_tx, kinds, mined, nonce, owner, submitter, text, window};

pub(crate) fn call(to: u8) -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(to)), value: Amount::from(u64::from(to)), ..EvmCall::default() }
}

pub(crate) fn fees(max_fee: u128, max_priority_fee: u128) -> Fees {
    Fees::Eip1559 { max_fee, max_priority_fee }
}

pub(crate) fn replace(harness: &mut LaneHarness, seq: u64, call: EvmCall) {
    harness.command(CommandKind::Replace { tx_id: harness.id(seq), payload: Payload::from(call) });
}

pub(crate) fn resubmit(harness: &mut LaneHarness, seq: u64, fees: Option<Fees>) {
    harness.command(CommandKind::Resubmit { tx_id: harness.id(seq), fees });
}

/// Adds several commands that the lane finds in one peek.
pub(crate) fn commands(harness: &mut LaneHarness, kinds: Vec<CommandKind>) {
    for kind in kinds {
        let id = CommandId((harness.ledger.commands.len() + harness.ledger.results.len()) as u64 + 1);
        let (issued_by, issued_at) = (text("test"), harness.ledger.now());
        harness.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by, issued_at });
    }
    harness.give(Fact::Woken);
}

pub(crate) fn tracked(size: u16, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(size), intents);
    harness.answer(SendOutcome::Accepted);
    harness
}

pub(crate) fn bumping(size: u16) -> LaneSetup {
    let mut setup = window(size);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    setup
}

pub(crate) fn offers(harness: &LaneHarness, at: u64) -> Vec<Fees> {
    let attempts = harness.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts.map(|attempt| attempt.fees).collect()
}

pub(crate) fn lane_events(harness: &LaneHarness) -> Vec<LaneEventKind> {
    harness.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

/// Signed bytes without the attempt kind, which the harness adds to the bytes and a chain does not.
pub(crate) fn bytes(harness: &LaneHarness, at: u64) -> Vec<String> {
    let attempts = harness.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts
        .map(|attempt| {
            let raw = String::from_utf8(attempt.raw.to_vec()).unwrap();
            raw.replace(&format!(" {} ", attempt.kind.as_str()), " ")
        })
        .collect()
}

/// Advances blocks and time in rounds, and answers every send with `outcome`. Returns the number of sends.
pub(crate) fn rounds(harness: &mut LaneHarness, rounds: u64, seconds: u64, outcome: SendOutcome) -> usize {
    let mut sends = 0;
    for _ in 0..rounds {
        harness.advance_blocks(5, seconds);
        while !harness.broadcasts.is_empty() {
            harness.answer(outcome);
            sends += 1;
        }
    }
    sends
}

/// A policy that always decides "cancel" is asked about a stuck cancel. The transition is illegal, and must not block
/// the lane's other writes.
#[test]
fn cancel_decision_about_a_cancel_does_not_block_lane() {
    let mut setup = window(2);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut harness = LaneHarness::with_intents(setup, 2);
    harness.answer(SendOutcome::Accepted);
    harness.decision = Decision::Cancel;
    rounds(&mut harness, 20, 60, SendOutcome::AlreadyKnown);
    let notices: Vec<_> = harness.notices.iter().map(|notice| notice.as_str()).collect();
    assert!(notices.is_empty(), "{notices:?}");
    // Another command must still be executed.
    let before = harness.ledger.results.len();
    harness.command(CommandKind::Pause);
    rounds(&mut harness, 5, 60, SendOutcome::AlreadyKnown);
    assert_eq!(harness.ledger.results.len(), before + 1, "the lane does not write any more");
}

/// The user canceled the intent, it ran out of tries, and the policy decides "cancel" too.
#[test]
fn cancel_decision_after_user_cancel_is_harmless() {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 2, ask_interval: Duration::from_secs(300) };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    harness.decision = Decision::Cancel;
    rounds(&mut harness, 4, 60, SendOutcome::AlreadyKnown);
    assert!(harness.notices.is_empty(), "{:?}", harness.notices);
}

/// The answer about the first payload must not fail the second one.
#[test]
fn late_answer_about_old_payload_does_not_fail_new_one() {
    let mut harness = LaneHarness::new(window(1));
    harness.queue(1);
    harness.hold.insert(Hold::Prepare);
    harness.run();
    let asked_first = harness.take_prepare();
    replace(&mut harness, 1, call(7));
    assert!(harness.result().0);
    harness.prepared(vec![(asked_first[0].key, Err(PrepareFailure::Invalid(text("the old one is odd"))))]);
    assert_ne!(harness.state(1), StateName::FailedFinal, "the new payload was not prepared yet");
}

/// The answer about the first payload must not set the gas limit of the second one, which would run out of gas.
#[test]
fn late_answer_about_old_payload_does_not_set_gas_limit() {
    let mut harness = LaneHarness::new(window(1));
    harness.queue(1);
    harness.hold.insert(Hold::Prepare);
    harness.run();
    let asked_first = harness.take_prepare();
    replace(&mut harness, 1, call(7));
    harness.prepared(vec![(asked_first[0].key, Ok(Prepared::new(Work::new(21_000), FEES)))]);
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, Ok(Prepared::new(Work::new(90_000), FEES)))]);
    let raw = String::from_utf8(harness.ledger.attempts[&(nonce(0), 0)].raw.to_vec()).unwrap();
    assert!(raw.contains("|90000|"), "{raw}");
}

/// A cancel overtakes a replacement. The price that the replacement's caller set must not become the price of the
/// cancel.
#[test]
fn late_answer_about_replacement_does_not_price_cancel() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Prepare);
    replace(&mut harness, 1, EvmCall { fees: Some(fees(1_000_000, 500_000)), ..call(7) });
    let of_order = harness.take_prepare();
    harness.cancel(1);
    let of_cancel = harness.take_prepare();
    harness.prepared(vec![(of_order[0].key, Ok(Prepared::new(Work::new(3_000_000), fees(1_000_000, 500_000))))]);
    harness.prepared(vec![(of_cancel[0].key, crate::harness::price())]);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(offers(&harness, 0)[1], fees(113, 12));
}

/// The answer about one replacement must not refuse the next one.
#[test]
fn late_answer_about_replacement_does_not_refuse_next_one() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Prepare);
    replace(&mut harness, 1, call(7));
    let of_first = harness.take_prepare();
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.ledger.results.len(), 1, "the first replacement is refused, because the intent is mined");
    harness.sight(gapless_domain::Sighting::Unmined { hash: harness.hash(0, 0), block: block(1) });
    harness.answer(SendOutcome::AlreadyKnown);
    replace(&mut harness, 1, call(8));
    harness.prepared(vec![(of_first[0].key, Err(PrepareFailure::Reverted { at: block(1), text: text("seven") }))]);
    assert_eq!(harness.ledger.results.len(), 1, "{:?}", harness.result());
}

/// No cancel was requested, and the caller holds the reservation.
#[test]
fn bump_decision_about_reserved_nonce_does_not_cancel_it() {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 2, ask_interval: Duration::from_secs(300) };
    let mut harness = LaneHarness::new(setup);
    harness.queue_reservation("me", Duration::from_secs(600));
    harness.run();
    assert!(matches!(harness.ledger.reservations[&nonce(0)], ReservationStatus::Reserved { .. }));
    let raw =
        gapless_domain::Bytes::from_static(b"0 mine|0x0101010101010101010101010101010101010101|0|0x|21000|2100000");
    let signed = SignedTx { hash: gapless_domain::keccak256(&raw), raw };
    let lock_owner = owner("me");
    harness.command(CommandKind::UseReserved {
        nonce: nonce(0),
        lock_owner,
        signed,
        fees: FEES,
        cost: Amount::from(2_100_000_u64),
    });
    assert!(harness.result().0, "{:?}", harness.result());
    harness.answer(SendOutcome::Accepted);
    harness.decision = Decision::Bump;
    rounds(&mut harness, 4, 60, SendOutcome::AlreadyKnown);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original], "no cancel was requested");
}

/// The intent's queue position is further back than the lane reads.
#[test]
fn replace_far_back_in_queue_waits_until_intent_is_read() {
    let mut harness = tracked(1, 60);
    replace(&mut harness, 50, call(7));
    rounds(&mut harness, 1, 10, SendOutcome::Accepted);
    let refused =
        harness.ledger.results.iter().find(|result| matches!(result, gapless_domain::CommandResult::Refused(_)));
    assert!(refused.is_none(), "{:?}", refused);
}

/// A store returns a hundred commands at once. Commands that wait must not hide the others.
///
/// proves S15
#[test]
fn waiting_commands_are_limited_in_number_and_time() {
    let mut harness = tracked(1, 200);
    let far =
        |harness: &LaneHarness, seq| CommandKind::Replace { tx_id: harness.id(seq), payload: Payload::from(call(7)) };
    let many = (100..170).map(|seq| far(&harness, seq)).collect();
    commands(&mut harness, many);
    assert!((40..60).contains(&harness.ledger.commands.len()), "{}", harness.ledger.commands.len());
    harness.command(CommandKind::Pause);
    assert!(harness.ledger.cursor.as_ref().unwrap().paused);
    harness.advance_secs(601);
    harness.give(Fact::Woken);
    assert_eq!(harness.ledger.commands.len(), 0);
}

#[test]
fn cancel_beside_replace_in_queue_is_executed() {
    let mut harness = tracked(1, 2);
    let (tx_id, payload) = (harness.id(2), Payload::from(call(7)));
    commands(&mut harness, vec![CommandKind::Replace { tx_id, payload }, CommandKind::Cancel { tx_id }]);
    harness.advance_secs(5);
    assert_eq!(harness.state(2), StateName::Canceled, "{:?}", harness.ledger.results);
}

#[test]
fn two_replacements_in_one_peek_are_both_executed() {
    let mut harness = tracked(1, 2);
    let tx_id = harness.id(2);
    let to = |to| CommandKind::Replace { tx_id, payload: Payload::from(call(to)) };
    commands(&mut harness, vec![to(7), to(8)]);
    harness.advance_secs(5);
    assert_eq!(harness.ledger.txs[&2].payload(), &Payload::from(call(8)), "{:?}", harness.ledger.results);
}

/// The ledger lost the bind of an intent that was sent with its second payload. A third payload in the queue would make
/// the ledger forget the second one. The transaction on chain would not be recognized, and two payloads of one intent
/// would take effect.
#[test]
fn replace_is_refused_until_lost_commits_are_reconciled() {
    // Without the third payload, the second one is recognized.
    assert_eq!(regressed(false), 0);
    assert_eq!(regressed(true), 0, "the second payload is on chain, and another one is sent");
}

/// Number of attempts for the second intent, whose second payload is already on chain.
fn regressed(replaces_again: bool) -> usize {
    let mut harness = tracked(1, 2);
    replace(&mut harness, 2, call(7));
    // The backup's content. Later, the second intent was bound and sent with its second payload.
    let mut backup = harness.ledger.clone();
    backup.regressed = true;
    let mut harness = LaneHarness::with(window(1), backup);
    harness.account.finalized = Some(nonce(0));
    harness.account.latest = nonce(0);
    harness.run();
    assert_eq!(harness.protect_code(), Some("store_regressed"));
    if replaces_again {
        replace(&mut harness, 2, call(8));
    }
    // The chain has the first intent at its nonce, and the second payload at the next nonce, which the ledger does not
    // know.
    harness.account = crate::harness::account(2);
    harness.account.final_block = Some(block(50));
    let mut second = foreign_tx(1, 7, 5);
    second.tx.plan.action = call(7).into();
    harness.blocks = Some((0, vec![second]));
    harness.finish(harness.hash(0, 0), block(4));
    harness.command(CommandKind::Resync { lost: LostRule::Requeue, dry_run: false });
    for _ in 0..10 {
        harness.advance_secs(5);
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::Accepted);
        }
    }
    assert_eq!(harness.protect_code(), None, "{:?}", harness.ledger.results);
    harness.ledger.attempts.keys().filter(|(at, _)| *at > nonce(1)).count()
}

#[test]
fn replacement_waits_until_balance_is_known() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Prepare);
    replace(&mut harness, 1, call(7));
    harness.crash();
    harness.hold.insert(Hold::Account);
    harness.run();
    assert!(harness.ledger.results.is_empty(), "{:?}", harness.result());
}

#[test]
fn replacement_refused_by_signer_is_refused() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Sign);
    replace(&mut harness, 1, call(7));
    for _ in 0..50 {
        let held = std::mem::take(&mut harness.unanswered);
        for effect in held {
            let Effect::Sign(requests) = effect else { continue };
            harness.give(Fact::Signed(vec![Err(SignFailure::Refused(text("not by my rules"))); requests.len()]));
        }
        harness.advance_secs(10);
    }
    assert_eq!(harness.ledger.results.len(), 1, "the command is still open and blocks the next one");
}
