//! Signers that fail, and signers that need short requests.

use gapless_domain::{AttemptKind, Effect, Fact, SendOutcome, SignFailure, SignRequest};

use crate::command_races::bumping;
use crate::harness::{Hold, LaneHarness, sign, text, window};

/// The signing request that waits for its answer.
fn take_request(harness: &mut LaneHarness) -> Option<Vec<SignRequest>> {
    let at = harness.unanswered.iter().position(|effect| matches!(effect, Effect::Sign(_)))?;
    match harness.unanswered.remove(at) {
        Effect::Sign(requests) => Some(requests),
        _ => None,
    }
}

fn answer(harness: &mut LaneHarness, requests: &[SignRequest]) {
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
}

fn fail(harness: &mut LaneHarness, requests: &[SignRequest]) {
    let failure = SignFailure::Unavailable(text("no answer in time"));
    harness.give(Fact::Signed(vec![Err(failure); requests.len()]));
}

/// A lane with one accepted transaction whose bump is at the signer.
fn bump_at_the_signer() -> (LaneHarness, Vec<SignRequest>) {
    let mut harness = LaneHarness::with_intents(bumping(3), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Sign);
    harness.advance_blocks(5, 60);
    let requests = take_request(&mut harness).unwrap();
    assert_eq!(requests.iter().map(|request| request.kind).collect::<Vec<_>>(), [AttemptKind::Bump]);
    (harness, requests)
}

#[test]
fn failed_bump_delays_the_next_request() {
    let (mut harness, requests) = bump_at_the_signer();
    harness.queue(1);
    harness.give(Fact::Woken);
    fail(&mut harness, &requests);
    assert_eq!(take_request(&mut harness), None, "the signer is asked again after a pause");
    harness.advance_secs(1);
    let requests = take_request(&mut harness).unwrap();
    assert_eq!(requests.iter().map(|request| request.kind).collect::<Vec<_>>(), [AttemptKind::Original]);
    fail(&mut harness, &requests);
    harness.advance_secs(1);
    assert_eq!(take_request(&mut harness), None, "the pause grows with each failure");
    harness.advance_secs(1);
    let requests = take_request(&mut harness).unwrap();
    answer(&mut harness, &requests);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

#[test]
fn limited_lane_signs_its_queue_in_short_requests() {
    let mut harness = LaneHarness::new(window(10));
    harness.lane.limit_signing(Some(4));
    harness.hold.insert(Hold::Sign);
    harness.queue(10);
    harness.run();
    let mut lens = Vec::new();
    while let Some(requests) = take_request(&mut harness) {
        lens.push(requests.len());
        answer(&mut harness, &requests);
    }
    assert_eq!(lens, [4, 4, 2]);
    assert_eq!(harness.nonces(), (0..10).map(Some).collect::<Vec<_>>());
}

#[test]
fn signing_limit_counts_cancels_and_binds_together() {
    let mut harness = LaneHarness::with_intents(window(8), 2);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Sign);
    harness.lane.limit_signing(Some(2));
    harness.cancel(1);
    // The first cancel is at the signer. The others follow when it is signed.
    harness.cancel(2);
    harness.queue(2);
    harness.give(Fact::Woken);
    let mut kinds: Vec<Vec<AttemptKind>> = Vec::new();
    while let Some(requests) = take_request(&mut harness) {
        kinds.push(requests.iter().map(|request| request.kind).collect());
        answer(&mut harness, &requests);
    }
    let (cancel, original) = (AttemptKind::Cancel, AttemptKind::Original);
    assert_eq!(kinds, [vec![cancel], vec![cancel, original], vec![original]]);
}
