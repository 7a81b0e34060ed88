//! The fence: a node that lost a lane changes nothing in it.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    CommandKind, Cursor, LaneCommit, LaneEventKind, Lease, NewCommand, ReservationStep, SendOutcome, SubmitterId,
    Transition,
};

use super::Harness;
use super::fixtures::*;
use super::trace::trace;
use crate::roles::{CommitVerdict, Loaded};

/// proves N03: with every kind of write
pub(super) async fn stale_token_changes_nothing(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "first").await;
    accept(&a, &lane, &["second"]).await;
    let command = NewCommand { submitter: lane.clone(), kind: CommandKind::Resume, issued_by: text("op") };
    a.put_commands(&[command]).await.unwrap();

    let seen = view(&a, &lane).await;
    let old = acquire(&a, &lane).await;
    take_over(h, &b, &lane).await;
    let before = trace(&b, &lane).await;
    for late in every_kind_of_write(&old, &seen) {
        let verdict = a.commit(from_ref(&late)).await.unwrap().verdicts.remove(0);
        assert_eq!(verdict, CommitVerdict::Fenced, "{late:?}");
    }
    assert_eq!(trace(&b, &lane).await, before);
    assert_eq!(a.load_lanes(&[old]).await.unwrap(), [Loaded::Fenced]);
}

/// Commits that were valid for the lane as it is in `seen`.
fn every_kind_of_write(lease: &Lease, seen: &View) -> Vec<LaneCommit> {
    let (cursor, holder) = (&seen.cursor, &seen.lane.bound[0]);
    let sent = attempt(holder.state.nonce().unwrap(), 0, "bind");
    let mut writes = vec![LaneCommit::new(lease); 11];
    writes[0].bind(cursor, &seen.queue[0], seen.next_attempt()).unwrap();
    writes[1].change(holder.change(Transition::Acknowledge).unwrap());
    writes[2].attempt(attempt(sent.nonce, 1, "bump"));
    writes[3].report(report(&sent, SendOutcome::Accepted, "ok"));
    writes[4].claim_resubmit(claim(sent.nonce, Duration::from_secs(60)));
    writes[5].command_done(&seen.lane.commands[0], done("done"));
    writes[6].lane_event(cursor, LaneEventKind::LowBalance, text("low")).unwrap();
    writes[7].observe_counts(cursor, nonce(1), nonce(1)).unwrap();
    writes[8].reservation(ReservationStep::Expire { nonce: sent.nonce });
    writes[9].audit(audit("test", "by a fenced node"));
    writes[10].adopt_foreign(cursor, cursor.next_nonce, text("of another sender")).unwrap();
    writes
}

/// proves N03
pub(super) async fn expired_lease_rejects_commit_before_takeover(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    bound(&a, &lane, "first").await;
    accept(&a, &lane, &["second"]).await;
    let before = trace(&a, &lane).await;
    let seen = view(&a, &lane).await;
    let old = acquire(&a, &lane).await;
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    let mut late = LaneCommit::new(&old);
    late.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
    assert_eq!(a.commit(&[late]).await.unwrap().verdicts, [CommitVerdict::Fenced]);
    assert_eq!(a.load_lanes(&[old]).await.unwrap(), [Loaded::Fenced]);
    assert_eq!(trace(&a, &lane).await, before);
}

pub(super) async fn released_lease_rejects_commit_and_load(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["first"]).await;
    let seen = view(&a, &lane).await;
    let old = acquire(&a, &lane).await;
    a.release(from_ref(&old)).await.unwrap();
    let mut late = LaneCommit::new(&old);
    late.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
    assert_eq!(a.commit(&[late]).await.unwrap().verdicts, [CommitVerdict::Fenced]);
    assert_eq!(a.load_lanes(&[old]).await.unwrap(), [Loaded::Fenced]);
    assert_eq!(view(&a, &lane).await.lane.cursor, None);
}

/// proves N03: one fenced lane in a batch does not fail the others
pub(super) async fn fenced_lane_does_not_fail_other_lanes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lanes = submitters(1..4);
    register(&a, &lanes).await;
    for lane in &lanes {
        accept(&a, lane, &["r"]).await;
    }
    let lost = acquire(&a, &lanes[1]).await;
    take_over(h, &b, &lanes[1]).await;
    // On a slow machine the good leases may expire too. Then no row was written, and the round is repeated.
    for _ in 0..20 {
        let first = bind_of_first(&a, &lanes[0], acquire(&a, &lanes[0]).await).await;
        let second = bind_of_first(&a, &lanes[1], lost.clone()).await;
        let third = bind_of_first(&a, &lanes[2], acquire(&a, &lanes[2]).await).await;
        let verdicts = a.commit(&[first, second, third]).await.unwrap().verdicts;
        assert_eq!(verdicts[1], CommitVerdict::Fenced);
        for (lane, verdict) in lanes.iter().zip(&verdicts) {
            let queued = a.peek_queues(&[(lane.clone(), 1)], &[]).await.unwrap().remove(0);
            assert_eq!(queued.is_empty(), *verdict == CommitVerdict::Done, "{lane}: {verdict:?}");
        }
        if verdicts.contains(&CommitVerdict::Done) {
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

async fn bind_of_first(node: &Node, lane: &SubmitterId, lease: Lease) -> LaneCommit {
    let first = node.peek_queues(&[(lane.clone(), 1)], &[]).await.unwrap().remove(0).remove(0);
    let mut commit = LaneCommit::new(&lease);
    commit.bind(&Cursor::starting_at(nonce(0)), &first, attempt(nonce(0), 0, "bind")).unwrap();
    commit
}

/// proves N02, N03: a node that acquires its lane again cannot write with its old token
pub(super) async fn old_token_of_same_node_is_fenced(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["first"]).await;
    let seen = view(&a, &lane).await;
    let old = acquire(&a, &lane).await;
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    assert!(acquire(&a, &lane).await.token() > old.token());
    let mut late = LaneCommit::new(&old);
    late.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
    assert_eq!(a.commit(&[late]).await.unwrap().verdicts, [CommitVerdict::Fenced]);
    assert_eq!(bind_next(&a, &lane).await.version, 2);
}
