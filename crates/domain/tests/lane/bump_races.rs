//! Bumps that meet caps, price changes, replacements and cancels.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, CommandKind, Effect, Fact, FeePolicy, LaneEventKind, LaneSetup, PrepareFailure, SendOutcome,
    StateName, StuckRule, Timestamp,
};

use crate::command_races::{bumping, bytes, call, fees, lane_events, offers, replace, resubmit, rounds, tracked};
use crate::harness::{FEES, Hold, LaneHarness, block, foreign_tx, kinds, nonce, sign, text, window};

/// Without a price there is no bump, and the existing attempt is sent again.
#[test]
fn bump_without_price_falls_back_to_a_resend() {
    let mut harness = LaneHarness::with_intents(bumping(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Prepare);
    let mut sends = 0;
    for _ in 0..30 {
        harness.advance_blocks(5, 60);
        let held = std::mem::take(&mut harness.unanswered);
        for effect in held {
            let Effect::Prepare(requests) = effect else { panic!("{effect:?}") };
            let answers = requests.iter().map(|r| (r.key, Err(PrepareFailure::Unavailable(text("no fee history")))));
            harness.prepared(answers.collect());
        }
        while !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::AlreadyKnown);
            sends += 1;
        }
    }
    assert!(sends > 10, "sent {sends} times in 30 minutes; tries {}", harness.ledger.slots[&nonce(0)].tries);
}

/// In a short price spike, nodes reject an attempt at the cap. After the spike the attempt is cheap enough, although
/// the market's usual price (twice the base fee) is above the cap. It must be sent again.
#[test]
fn attempt_at_cap_is_sent_again_after_a_spike() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 100 };
    let mut harness = LaneHarness::new(setup);
    harness.market = (fees(130, 10), 60);
    harness.queue(1);
    harness.run();
    assert_eq!(offers(&harness, 0), [fees(100, 10)]);
    harness.market = (fees(410, 10), 200);
    harness.answer(SendOutcome::Underpriced);
    harness.advance_secs(30);
    harness.market = (fees(130, 10), 60);
    let sends = rounds(&mut harness, 60, 60, SendOutcome::Accepted);
    assert!(sends > 0, "an hour after the spike the attempt was not sent again: {:?}", harness.states());
}

/// A filler exceeds the cap by one step over the attempt with the payload, not by several.
#[test]
fn filler_exceeds_the_cap_by_one_step_only() {
    let mut setup = window(1);
    setup.policy.fees = FeePolicy { max_price: 100 };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.market = (fees(20_010, 10), 10_000);
    harness.cancel(1);
    rounds(&mut harness, 60, 60, SendOutcome::Underpriced);
    let most = offers(&harness, 0).iter().map(|fees| fees.highest_price()).max().unwrap();
    assert!(most <= 127, "{most} offered in {} attempts, with a cap of 100", offers(&harness, 0).len());
}

/// The store accepts each hash once. A commit with a known hash is refused, and the lane is loaded again.
#[test]
fn bump_never_signs_the_same_bytes_again() {
    let mut harness = LaneHarness::with_intents(bumping(1), 1);
    harness.answer(SendOutcome::InsufficientFunds);
    resubmit(&mut harness, 1, None);
    let mut all = bytes(&harness, 0);
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "{:?}", bytes(&harness, 0));
}

#[test]
fn cancel_written_with_a_claim_is_signed_once() {
    let mut harness = LaneHarness::with_intents(bumping(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Sign);
    harness.advance_blocks(5, 58);
    harness.cancel(1);
    let held = std::mem::take(&mut harness.unanswered);
    harness.hold.remove(&Hold::Sign);
    // The resend becomes due while the cancel is at the signer.
    harness.now = harness.now.saturating_add(Duration::from_secs(2));
    harness.ledger.now_micros += 2_000_000;
    for effect in held {
        let Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    let mut all = bytes(&harness, 0);
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "{:?}", bytes(&harness, 0));
}

fn stuck() -> LaneHarness {
    let mut setup = window(1);
    setup.policy.stuck = StuckRule { after_tries: 3, ask_interval: Duration::from_secs(300) };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    rounds(&mut harness, 3, 60, SendOutcome::AlreadyKnown);
    assert_eq!(harness.state(1), StateName::Stuck);
    harness
}

#[test]
fn replaced_stuck_intent_starts_its_tries_again() {
    let mut harness = stuck();
    replace(&mut harness, 1, call(7));
    assert_eq!(harness.state(1), StateName::Tracking);
    harness.answer(SendOutcome::Accepted);
    rounds(&mut harness, 1, 60, SendOutcome::AlreadyKnown);
    assert_eq!(harness.state(1), StateName::Tracking, "tries {}", harness.ledger.slots[&nonce(0)].tries);
}

#[test]
fn canceled_stuck_intent_starts_its_tries_again() {
    let mut harness = stuck();
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    rounds(&mut harness, 1, 60, SendOutcome::AlreadyKnown);
    assert_eq!(harness.state(1), StateName::Tracking, "tries {}", harness.ledger.slots[&nonce(0)].tries);
}

/// No node has the payload, and the intent is canceled. A resubmit command that waits for its price must not let the
/// payload out.
#[test]
fn canceled_payload_is_not_sent_while_a_resubmit_waits() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Prepare);
    harness.answer(SendOutcome::Unavailable);
    resubmit(&mut harness, 1, Some(fees(500, 50)));
    harness.cancel(1);
    assert!(harness.result().0, "{:?}", harness.result());
    harness.advance_secs(30);
    let sent: Vec<_> = harness.broadcasts.iter().flatten().map(|out| out.tx.hash).collect();
    assert!(!sent.contains(&harness.hash(0, 0)), "the payload was sent after the cancel was durable");
}

/// Resends of the same bytes do not restart the count of blocks.
#[test]
fn bump_counts_blocks_from_first_send_of_newest_attempt() {
    let mut setup = bumping(1);
    setup.policy.bump.min_blocks = 6;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    rounds(&mut harness, 8, 60, SendOutcome::AlreadyKnown);
    assert!(harness.ledger.attempts.len() > 1, "40 blocks since the only attempt, and no bump");
}

fn spike(setup: LaneSetup) -> LaneHarness {
    let mut setup = setup;
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut harness = LaneHarness::new(setup);
    harness.market = (fees(2000, 10), 990);
    harness
}

#[test]
fn fees_below_cap_is_reported_when_waiting_intent_is_gone() {
    let mut harness = spike(window(1));
    let until = Timestamp::from_micros(harness.ledger.now_micros + 30_000_000);
    harness.queue_call(call(1), Some(until));
    harness.run();
    assert_eq!(lane_events(&harness), [LaneEventKind::FeesAboveCap]);
    harness.market = (FEES, 10);
    harness.advance_secs(60);
    harness.advance_secs(60);
    assert_eq!(harness.state(1), StateName::FailedFinal);
    assert_eq!(lane_events(&harness)[1..], [LaneEventKind::FeesBelowCap]);
}

#[test]
fn price_set_by_caller_says_nothing_about_the_market() {
    let mut setup = window(2);
    setup.policy.fees = FeePolicy { max_price: 150 };
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.market = (fees(2000, 10), 990);
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(lane_events(&harness), [LaneEventKind::FeesAboveCap]);
    resubmit(&mut harness, 1, Some(fees(3000, 100)));
    assert!(harness.result().0);
    let events = lane_events(&harness);
    assert!(!events.contains(&LaneEventKind::FeesBelowCap), "the market is far above the cap: {events:?}");
}

/// The command waits for the result of a scan in this commit, its attempt does not, and the intent expires in the same
/// commit.
#[test]
fn requested_attempt_in_commit_that_expires_it_is_harmless() {
    let mut setup = window(3);
    setup.policy.nonce.on_external_nonce = gapless_domain::ExternalNoncePolicy::Adopt;
    let mut harness = LaneHarness::new(setup);
    let until = Timestamp::from_micros(harness.ledger.now_micros + 100_000_000);
    harness.queue(1);
    harness.queue_call(call(2), Some(until));
    harness.run();
    harness.answer(SendOutcome::Accepted);
    // A foreign transaction consumes the first nonce.
    harness.account = crate::harness::account(1);
    harness.account.final_block = Some(block(50));
    harness.blocks = Some((0, vec![foreign_tx(0, 9, 5)]));
    harness.hold.insert(Hold::Scan);
    for _ in 0..6 {
        harness.sight(gapless_domain::Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(8);
    }
    let asked = harness.unanswered.iter().any(|effect| matches!(effect, Effect::Scan(_)));
    assert!(asked, "{:?}", harness.unanswered);
    harness.hold.insert(Hold::Sign);
    replace(&mut harness, 2, call(7));
    let signing = harness.unanswered.iter().position(|effect| matches!(effect, Effect::Sign(_))).unwrap();
    let Effect::Sign(requests) = harness.unanswered.remove(signing) else { panic!() };
    // A commit is in flight while the scan, the signature and the deadline come.
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Pause);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    harness.hold.remove(&Hold::Scan);
    let scan = harness.unanswered.iter().position(|effect| matches!(effect, Effect::Scan(_))).unwrap();
    harness.unanswered.remove(scan);
    let account = harness.account;
    let found = gapless_domain::ScanResult {
        account,
        head: block(100),
        oldest: 0,
        is_whole: true,
        sent: vec![foreign_tx(0, 9, 5)],
    };
    harness.give(Fact::Scanned(Ok(found)));
    harness.advance_secs(60);
    harness.hold.clear();
    harness.commit_done(true);
    for _ in 0..5 {
        harness.advance_secs(61);
    }
    assert!(kinds(&harness, 1).contains(&AttemptKind::Cancel), "no cancel was made: {:?}", kinds(&harness, 1));
    assert!(harness.notices.is_empty(), "{:?}", harness.notices);
}

/// Nodes have a dearer transaction at the nonce. The attempt must be bumped or become stuck, not be sent unchanged for
/// ever.
#[test]
fn underpriced_replacement_is_bumped_or_stuck() {
    let mut setup = bumping(1);
    setup.policy.stuck.after_tries = 3;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::ReplacementUnderpriced);
    rounds(&mut harness, 60, 60, SendOutcome::ReplacementUnderpriced);
    let (attempts, tries) = (harness.ledger.attempts.len(), harness.ledger.slots[&nonce(0)].tries);
    assert!(attempts > 2 || harness.state(1) == StateName::Stuck, "an hour: {attempts} attempts, {tries} tries");
}

/// The replacement is priced while nothing was sent, and then the original is sent before it.
#[test]
fn replacement_exceeds_price_of_attempt_sent_meanwhile() {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.sending(), [0], "the second attempt waits for the answer to the first send");
    harness.hold.insert(Hold::Sign);
    replace(&mut harness, 2, call(7));
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.sending(), [1], "the payload that is being replaced");
    harness.answer(SendOutcome::Accepted);
    harness.hold.clear();
    let held = std::mem::take(&mut harness.unanswered);
    for effect in held {
        let Effect::Sign(requests) = effect else { panic!("{effect:?}") };
        harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    assert!(harness.result().0);
    assert_eq!(kinds(&harness, 1), [AttemptKind::Original, AttemptKind::Replace]);
    let offers = offers(&harness, 1);
    assert!(offers[1].highest_price() >= 110, "nodes would not accept it: {offers:?}");
}

/// The first send is in flight. A requested attempt makes the slot due again, so the cancel must still count the first
/// attempt as possibly pooled.
#[test]
fn cancel_exceeds_price_of_attempt_in_flight() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    assert_eq!(harness.sending(), [0]);
    resubmit(&mut harness, 1, Some(fees(500, 50)));
    assert!(harness.result().0, "{:?}", harness.result());
    harness.cancel(1);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Bump, AttemptKind::Cancel]);
    let cancel = offers(&harness, 0)[2];
    harness.answer(SendOutcome::Accepted);
    assert!(cancel.highest_price() >= 110, "the pool has {FEES:?}, and the cancel offers {cancel:?}");
}

/// Both commands are open when the signature of the replacement comes. The replace command is checked first, the cancel
/// command is executed, and then the replacement is written. The commit must not fail for that: its attempt would be
/// lost, and nothing would be sent for this nonce any more.
#[test]
fn cancel_in_commit_of_a_replacement_is_carried_out() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Sign);
    replace(&mut harness, 1, call(7));
    let Effect::Sign(requests) = harness.unanswered.remove(0) else { panic!() };
    // A commit is in flight while the signature and the cancel come.
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Pause);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    harness.cancel(1);
    harness.hold.clear();
    harness.commit_done(true);
    let sends = rounds(&mut harness, 60, 60, SendOutcome::Accepted);
    let outcome = (kinds(&harness, 0), sends, harness.ledger.txs[&1].state.sub_state());
    assert!(outcome.0.len() > 1, "an hour later: {outcome:?}, {:?}, {:?}", harness.notices, harness.ledger.results);
    assert!(harness.notices.is_empty(), "{:?}", harness.notices);
}

/// Found by seed 7952 of the simulator. An attempt that was bumped in a spike is underpriced as a replacement after the
/// spike, and the cap forbids a higher price. The attempt must still be sent again.
#[test]
fn underpriced_replacement_at_cap_is_sent_again() {
    let mut setup = bumping(1);
    setup.policy.bump.max_market_permille = 1000;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.market = (fees(1000, 100), 400);
    harness.advance_blocks(5, 60);
    harness.answer(SendOutcome::Unknown);
    harness.market = (FEES, 40);
    harness.advance_secs(1);
    assert_eq!(harness.answer(SendOutcome::ReplacementUnderpriced)[0].tx.hash, harness.hash(0, 1));
    harness.advance_secs(60);
    harness.advance_secs(60);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
    assert_eq!(kinds(&harness, 0).len(), 2);
}
