//! Orders, raises and decisions that meet each other, late answers, other owners, and refusals: what a review of the first version has found.

use std::time::Duration;

use gapless_domain::{
    Address, Amount, AttemptKind, BumpPolicy, Command, CommandId, CommandKind, Decision, Effect, EvmCall, Fact,
    FeePolicy, Fees, LaneEventKind, LaneSetup, LostRule, Payload, PrepareFailure, Prepared, ReservationStatus,
    SendOutcome, SignFailure, SignedTx, StateName, StuckRule, Timestamp,
};

use crate::bench::{Bench, FEES, Hold, block, kinds, mined, nonce, owner, sign, stranger, submitter, text, window};

fn call(to: u8) -> EvmCall {
    EvmCall { to: Some(Address::repeat_byte(to)), value: Amount::from(u64::from(to)), ..EvmCall::default() }
}

fn fees(max_fee: u128, max_priority_fee: u128) -> Fees {
    Fees::Eip1559 { max_fee, max_priority_fee }
}

fn replace(bench: &mut Bench, seq: u64, call: EvmCall) {
    bench.command(CommandKind::Replace { tx_id: bench.id(seq), payload: Payload::Evm(call) });
}

fn resubmit(bench: &mut Bench, seq: u64, fees: Option<Fees>) {
    bench.command(CommandKind::Resubmit { tx_id: bench.id(seq), fees });
}

/// Several commands that the lane finds at one look.
fn commands(bench: &mut Bench, kinds: Vec<CommandKind>) {
    for kind in kinds {
        let id = CommandId((bench.ledger.commands.len() + bench.ledger.results.len()) as u64 + 1);
        let (issued_by, issued_at) = (text("test"), bench.ledger.now());
        bench.ledger.commands.push(Command { id, submitter: submitter(), kind, issued_by, issued_at });
    }
    bench.tell(Fact::Woken);
}

fn tracked(size: u16, intents: u64) -> Bench {
    let mut bench = Bench::busy(window(size), intents);
    bench.answer(SendOutcome::Accepted);
    bench
}

fn bumping(size: u16) -> LaneSetup {
    let mut setup = window(size);
    setup.policy.bump = BumpPolicy { enabled: true, ..BumpPolicy::default() };
    setup
}

fn offers(bench: &Bench, at: u64) -> Vec<Fees> {
    let attempts = bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts.map(|attempt| attempt.fees).collect()
}

fn told(bench: &Bench) -> Vec<LaneEventKind> {
    bench.commits.iter().flat_map(|commit| commit.lane_events().map(|(_, kind, _)| kind)).collect()
}

/// What would really be signed: the bench writes the kind into the bytes, a chain does not.
fn bytes(bench: &Bench, at: u64) -> Vec<String> {
    let attempts = bench.ledger.attempts.values().filter(|attempt| attempt.nonce == nonce(at));
    attempts
        .map(|attempt| {
            let raw = String::from_utf8(attempt.raw.to_vec()).unwrap();
            raw.replace(&format!(" {} ", attempt.kind.as_str()), " ")
        })
        .collect()
}

/// So many rounds of blocks and time, and the same answer to whatever is sent; what was sent, by ordinal.
fn rounds(bench: &mut Bench, rounds: u64, seconds: u64, outcome: SendOutcome) -> usize {
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

// ---- 1: a decision that blocks the whole lane -------------------------------------------------------------------------

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

// ---- 2: answers to what was asked about something else -----------------------------------------------------------------

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

// ---- 3: a bump that is a cancel ----------------------------------------------------------------------------------------

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

// ---- 4, 5: commands that are refused although they can be done ----------------------------------------------------------

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

// ---- 6: a store that lost commits --------------------------------------------------------------------------------------

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

// ---- 7: funds that nobody has looked at ---------------------------------------------------------------------------------

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

// ---- 8, 9: what cannot be made -------------------------------------------------------------------------------------------

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

/// Without a price there is no raise; but then it is to be sent as it is.
#[test]
fn while_no_price_can_be_had_for_a_raise_the_same_is_sent_again() {
    let mut bench = Bench::busy(bumping(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Prepare);
    let mut sends = 0;
    for _ in 0..30 {
        bench.pass_blocks(5, 60);
        let held = std::mem::take(&mut bench.held);
        for effect in held {
            let Effect::Prepare(requests) = effect else { panic!("{effect:?}") };
            let answers = requests.iter().map(|r| (r.key, Err(PrepareFailure::Unavailable(text("no fee history")))));
            bench.prepared(answers.collect());
        }
        while !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::AlreadyKnown);
            sends += 1;
        }
    }
    assert!(sends > 10, "sent {sends} times in 30 minutes; tries {}", bench.ledger.slots[&nonce(0)].tries);
}

// ---- 10, 11: caps ----------------------------------------------------------------------------------------------------------

/// A short spike makes nodes refuse what was offered at the cap. The spike is over, and the offer would be taken (it is what the
/// policy offers to a new intent in this market), but it is never sent again: usual prices ask for twice the base fee.
#[test]
fn what_is_underpriced_at_the_cap_comes_back() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 100 };
    let mut bench = Bench::new(setup);
    bench.market = (fees(130, 10), 60);
    bench.queue(1);
    bench.run();
    assert_eq!(offers(&bench, 0), [fees(100, 10)]);
    bench.market = (fees(410, 10), 200);
    bench.answer(SendOutcome::Underpriced);
    bench.pass_secs(30);
    bench.market = (fees(130, 10), 60);
    let sends = rounds(&mut bench, 60, 60, SendOutcome::Accepted);
    assert!(sends > 0, "an hour after the spike it has not been sent again: {:?}", bench.states());
}

/// "by the minimum step" is one step above what carries the payload, not one after another.
#[test]
fn a_filler_passes_the_cap_once() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 100 };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.market = (fees(20_010, 10), 10_000);
    bench.cancel(1);
    rounds(&mut bench, 60, 60, SendOutcome::Underpriced);
    let most = offers(&bench, 0).iter().map(|fees| fees.highest_price()).max().unwrap();
    assert!(most <= 127, "{most} offered in {} attempts, with a cap of 100", offers(&bench, 0).len());
}

// ---- 12: the same bytes twice -----------------------------------------------------------------------------------------------

/// The store has each hash once: such a commit is refused, and the lane is loaded anew.
#[test]
fn the_same_bytes_are_not_signed_twice() {
    let mut bench = Bench::busy(bumping(1), 1);
    bench.answer(SendOutcome::InsufficientFunds);
    resubmit(&mut bench, 1, None);
    let mut all = bytes(&bench, 0);
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "{:?}", bytes(&bench, 0));
}

#[test]
fn a_cancel_that_is_written_with_a_claim_is_signed_once() {
    let mut bench = Bench::busy(bumping(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Sign);
    bench.pass_blocks(5, 58);
    bench.cancel(1);
    let held = std::mem::take(&mut bench.held);
    bench.hold.remove(&Hold::Sign);
    // The resubmit becomes due while the cancel is at the signer.
    bench.now = bench.now.saturating_add(Duration::from_secs(2));
    bench.ledger.now_micros += 2_000_000;
    for effect in held {
        let Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    let mut all = bytes(&bench, 0);
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "{:?}", bytes(&bench, 0));
}

// ---- 13: tries ----------------------------------------------------------------------------------------------------------------

fn stuck() -> Bench {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    rounds(&mut bench, 3, 60, SendOutcome::AlreadyKnown);
    assert_eq!(bench.state(1), StateName::Stuck);
    bench
}

#[test]
fn what_somebody_has_replaced_is_tried_anew() {
    let mut bench = stuck();
    replace(&mut bench, 1, call(7));
    assert_eq!(bench.state(1), StateName::Tracking);
    bench.answer(SendOutcome::Accepted);
    rounds(&mut bench, 1, 60, SendOutcome::AlreadyKnown);
    assert_eq!(bench.state(1), StateName::Tracking, "tries {}", bench.ledger.slots[&nonce(0)].tries);
}

#[test]
fn what_somebody_has_canceled_is_tried_anew() {
    let mut bench = stuck();
    bench.cancel(1);
    bench.answer(SendOutcome::Accepted);
    rounds(&mut bench, 1, 60, SendOutcome::AlreadyKnown);
    assert_eq!(bench.state(1), StateName::Tracking, "tries {}", bench.ledger.slots[&nonce(0)].tries);
}

// ---- 14: what is not wanted any more is sent -------------------------------------------------------------------------------------

/// No node ever had it, and it is canceled; an order that waits for its price lets it out.
#[test]
fn a_canceled_payload_is_not_sent_while_an_order_waits() {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Prepare);
    bench.answer(SendOutcome::Unavailable);
    resubmit(&mut bench, 1, Some(fees(500, 50)));
    bench.cancel(1);
    assert!(bench.result().0, "{:?}", bench.result());
    bench.pass_secs(30);
    let sent: Vec<_> = bench.broadcasts.iter().flatten().map(|out| out.tx.hash).collect();
    assert!(!sent.contains(&bench.hash(0, 0)), "the cancel is accepted and durable, and then the payload goes out");
}

// ---- 15: raises that never come ----------------------------------------------------------------------------------------------------

/// Blocks are counted from the last time that the same bytes were sent, not from the attempt.
#[test]
fn blocks_are_counted_from_the_first_send_of_the_newest_attempt() {
    let mut setup = bumping(1);
    setup.policy.bump.min_blocks = 6;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    rounds(&mut bench, 8, 60, SendOutcome::AlreadyKnown);
    assert!(bench.ledger.attempts.len() > 1, "40 blocks since its only attempt, and no raise");
}

// ---- 16, 17: what consumers are told -------------------------------------------------------------------------------------------------

fn spike(setup: LaneSetup) -> Bench {
    let mut setup = setup;
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut bench = Bench::new(setup);
    bench.market = (fees(2000, 10), 990);
    bench
}

#[test]
fn above_the_cap_is_taken_back_when_who_waited_is_gone() {
    let mut bench = spike(window(1));
    let until = Timestamp::from_micros(bench.ledger.now_micros + 30_000_000);
    bench.queue_call(call(1), Some(until));
    bench.run();
    assert_eq!(told(&bench), [LaneEventKind::FeesAboveCap]);
    bench.market = (FEES, 10);
    bench.pass_secs(60);
    bench.pass_secs(60);
    assert_eq!(bench.state(1), StateName::FailedFinal);
    assert_eq!(told(&bench)[1..], [LaneEventKind::FeesBelowCap]);
}

#[test]
fn a_price_of_somebodys_own_tells_nothing_of_the_market() {
    let mut setup = window(2);
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.market = (fees(2000, 10), 990);
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(told(&bench), [LaneEventKind::FeesAboveCap]);
    resubmit(&mut bench, 1, Some(fees(3000, 100)));
    assert!(bench.result().0);
    assert!(!told(&bench).contains(&LaneEventKind::FeesBelowCap), "the market is far above it: {:?}", told(&bench));
}

// ---- 18: a commit that cannot be written ------------------------------------------------------------------------------------------------

/// The order's command waits for a survey's conclusions in this commit, while its attempt does not, and it expires in it.
#[test]
fn an_ordered_attempt_in_the_commit_that_cancels_it_stops_nothing() {
    let mut setup = window(3);
    setup.policy.nonce.on_external_nonce = gapless_domain::ExternalNoncePolicy::Adopt;
    let mut bench = Bench::new(setup);
    let until = Timestamp::from_micros(bench.ledger.now_micros + 100_000_000);
    bench.queue(1);
    bench.queue_call(call(2), Some(until));
    bench.run();
    bench.answer(SendOutcome::Accepted);
    // Somebody else uses the first nonce.
    bench.account = crate::bench::account(1);
    bench.account.final_block = Some(block(50));
    bench.blocks = Some((0, vec![stranger(0, 9, 5)]));
    bench.hold.insert(Hold::Survey);
    for _ in 0..6 {
        bench.see(gapless_domain::Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(8);
    }
    let asked = bench.held.iter().any(|effect| matches!(effect, Effect::Survey(_)));
    assert!(asked, "{:?}", bench.held);
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 2, call(7));
    let signing = bench.held.iter().position(|effect| matches!(effect, Effect::Sign(_))).unwrap();
    let Effect::Sign(requests) = bench.held.remove(signing) else { panic!() };
    // A commit is under way while the survey, the signature and the deadline come.
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Pause);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.hold.remove(&Hold::Survey);
    let survey = bench.held.iter().position(|effect| matches!(effect, Effect::Survey(_))).unwrap();
    bench.held.remove(survey);
    let account = bench.account;
    let found =
        gapless_domain::Survey { account, head: block(100), oldest: 0, is_whole: true, sent: vec![stranger(0, 9, 5)] };
    bench.tell(Fact::Surveyed(Some(found)));
    bench.pass_secs(60);
    bench.hold.clear();
    bench.commit_done(true);
    for _ in 0..5 {
        bench.pass_secs(61);
    }
    assert!(kinds(&bench, 1).contains(&AttemptKind::Cancel), "it is never canceled either: {:?}", kinds(&bench, 1));
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}

// ---- 19, 20: what nodes do not take in the place of something else ------------------------------------------------------------------------

/// Nodes have something dearer at its nonce. It is sent for ever as it is: not raised, not counted as tries, never stuck.
#[test]
fn a_raise_that_is_underpriced_as_a_replacement_is_raised() {
    let mut setup = bumping(1);
    setup.policy.stuck.after_tries = 3;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::ReplacementUnderpriced);
    rounds(&mut bench, 60, 60, SendOutcome::ReplacementUnderpriced);
    let (attempts, tries) = (bench.ledger.attempts.len(), bench.ledger.slots[&nonce(0)].tries);
    assert!(attempts > 2 || bench.state(1) == StateName::Stuck, "an hour: {attempts} attempts, {tries} tries");
}

/// It is priced while nothing was sent, and then what it replaces is sent before it.
#[test]
fn a_replacement_outbids_what_is_sent_while_it_is_signed() {
    let mut bench = Bench::busy(window(2), 1);
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.sending(), [0], "the second one waits for the first send's answer");
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 2, call(7));
    bench.answer(SendOutcome::Accepted);
    assert_eq!(bench.sending(), [1], "the payload that is about to be replaced");
    bench.answer(SendOutcome::Accepted);
    bench.hold.clear();
    let held = std::mem::take(&mut bench.held);
    for effect in held {
        let Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    assert!(bench.result().0);
    assert_eq!(kinds(&bench, 1), [AttemptKind::Original, AttemptKind::Replace]);
    let offers = offers(&bench, 1);
    assert!(offers[1].highest_price() >= 110, "nodes do not take it: {offers:?}");
}

/// The first send is under way and not answered. An ordered attempt makes the slot due again, so that a cancel does not know that
/// something of it may be in a pool.
#[test]
fn a_cancel_outbids_what_is_being_sent_when_an_order_came_between() {
    let mut bench = Bench::busy(window(1), 1);
    assert_eq!(bench.sending(), [0]);
    resubmit(&mut bench, 1, Some(fees(500, 50)));
    assert!(bench.result().0, "{:?}", bench.result());
    bench.cancel(1);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Bump, AttemptKind::Cancel]);
    let cancel = offers(&bench, 0)[2];
    bench.answer(SendOutcome::Accepted);
    assert!(cancel.highest_price() >= 110, "the pool has {FEES:?}, and the cancel offers {cancel:?}");
}

// ---- 22: found by random walks (the same consequence as 18, without any survey) ----------------------------------------------------------

/// Replace and cancel are both open when the replacement's signature comes: the replace is asked first (no objection), the cancel is
/// executed, and then the replacement is written on top of it. The commit fails, its item is lost with it, and the slot believes for
/// ever that an attempt is under way: the cancel is never made, and nothing of this nonce is sent any more.
#[test]
fn a_cancel_in_the_commit_that_has_the_replacement_is_made() {
    let mut bench = tracked(1, 1);
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 1, call(7));
    let Effect::Sign(requests) = bench.held.remove(0) else { panic!() };
    // Some commit is under way while the signature and the cancel come.
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Pause);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.cancel(1);
    bench.hold.clear();
    bench.commit_done(true);
    let sends = rounds(&mut bench, 60, 60, SendOutcome::Accepted);
    let what = (kinds(&bench, 0), sends, bench.ledger.txs[&1].state.sub_state());
    assert!(what.0.len() > 1, "an hour later: {what:?}, {:?}, {:?}", bench.notices, bench.ledger.results);
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}
