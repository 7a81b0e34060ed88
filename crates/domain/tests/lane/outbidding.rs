//! The same for prices: raises, caps, and what has to be outbid.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, CommandKind, Effect, Fact, FeePolicy, LaneEventKind, LaneSetup, PrepareFailure, SendOutcome,
    StateName, StuckRule, Timestamp,
};

use crate::bench::{Bench, FEES, Hold, block, kinds, nonce, sign, stranger, text, window};
use crate::contested::{bumping, bytes, call, fees, offers, replace, resubmit, rounds, told, tracked};

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

/// The order's command waits for a survey's conclusions in this commit, while its attempt does not, and it expires in it.
#[test]
fn an_ordered_attempt_in_the_commit_that_cancels_it_stops_nothing() {
    let mut setup = window(3);
    setup.policy.nonce.on_external_nonce = gapless_domain::ReservationPolicy::Adopt;
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
    bench.hold.insert(Hold::ScanResult);
    for _ in 0..6 {
        bench.see(gapless_domain::Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(8);
    }
    let asked = bench.held.iter().any(|effect| matches!(effect, Effect::Scan(_)));
    assert!(asked, "{:?}", bench.held);
    bench.hold.insert(Hold::Sign);
    replace(&mut bench, 2, call(7));
    let signing = bench.held.iter().position(|effect| matches!(effect, Effect::Sign(_))).unwrap();
    let Effect::Sign(requests) = bench.held.remove(signing) else { panic!() };
    // A commit is under way while the survey, the signature and the deadline come.
    bench.hold.insert(Hold::Commit);
    bench.command(CommandKind::Pause);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    bench.hold.remove(&Hold::ScanResult);
    let survey = bench.held.iter().position(|effect| matches!(effect, Effect::Scan(_))).unwrap();
    bench.held.remove(survey);
    let account = bench.account;
    let found = gapless_domain::ScanResult {
        account,
        head: block(100),
        oldest: 0,
        is_whole: true,
        sent: vec![stranger(0, 9, 5)],
    };
    bench.tell(Fact::Scanned(Some(found)));
    bench.pass_secs(60);
    bench.hold.clear();
    bench.commit_done(true);
    for _ in 0..5 {
        bench.pass_secs(61);
    }
    assert!(kinds(&bench, 1).contains(&AttemptKind::Cancel), "it is never canceled either: {:?}", kinds(&bench, 1));
    assert!(bench.notices.is_empty(), "{:?}", bench.notices);
}

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

/// Found by seed 7952 of the simulator: a raise of a spike is told that it is outbid when the spike is over; more may not be offered, and it was never
/// sent again.
#[test]
fn what_is_said_to_be_outbid_and_may_not_offer_more_is_sent_as_it_is() {
    let mut setup = bumping(1);
    setup.policy.bump.max_market_permille = 1000;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.market = (fees(1000, 100), 400);
    bench.pass_blocks(5, 60);
    bench.answer(SendOutcome::Unknown);
    bench.market = (FEES, 40);
    bench.pass_secs(1);
    assert_eq!(bench.answer(SendOutcome::ReplacementUnderpriced)[0].tx.hash, bench.hash(0, 1));
    bench.pass_secs(60);
    bench.pass_secs(60);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, bench.hash(0, 1));
    assert_eq!(kinds(&bench, 0).len(), 2);
}
