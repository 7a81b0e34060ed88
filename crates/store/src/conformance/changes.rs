//! Change wake-ups, for callers that wait for an intent or a command.

use std::time::Duration;

use gapless_domain::{CommandKind, LaneCommit, LaneEventKind, NewCommand, SendOutcome, SubmitterId, Transition};

use super::Harness;
use super::fixtures::*;
use super::sweep::settle;
use crate::roles::{Accepted, CancelVerdict, CommitVerdict, Conflict, NewIntent};
use crate::wake::{Wakeup, Wakeups};

/// Listeners on the writing node and on another node.
struct Listeners<'a> {
    nodes: [&'a Node; 2],
    inboxes: [Wakeups; 2],
}

impl Listeners<'_> {
    /// Waits until each listener hears the other node. A store that connects its listener later reports all lanes
    /// at that time, instead of the one that a test waits for.
    async fn connect(&mut self) {
        let [a, b] = self.nodes;
        for (inbox, other) in self.inboxes.iter_mut().zip([b, a]) {
            settle(other, inbox).await;
        }
    }

    /// Tells for both listeners whether the lane was reported since the last call.
    async fn reported(&mut self, lane: &SubmitterId) -> [bool; 2] {
        self.received().await.map(|received| received.contains(&Wakeup::Lane(lane.clone())))
    }

    /// The wake-ups of both listeners since the last call.
    async fn received(&mut self) -> [Vec<Wakeup>; 2] {
        let [a, b] = &mut self.inboxes;
        [settle(self.nodes[0], a).await, settle(self.nodes[0], b).await]
    }
}

pub(super) async fn change_wakes_waiters_on_every_node(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let mut listeners = Listeners { nodes: [&a, &b], inboxes: [a.changes(), b.changes()] };
    listeners.connect().await;

    let ids = accept(&a, &lane, &["bound", "canceled"]).await;
    assert_eq!(listeners.reported(&lane).await, [true; 2], "accepted");
    assert_eq!(a.cancel_queued(&[fresh_id(), ids[1]]).await.unwrap()[1], CancelVerdict::Canceled);
    assert_eq!(listeners.reported(&lane).await, [true; 2], "canceled");
    bind_next(&a, &lane).await;
    assert_eq!(listeners.reported(&lane).await, [true; 2], "bound");
    change(&a, &lane, ids[0], Transition::Acknowledge).await;
    assert_eq!(listeners.reported(&lane).await, [true; 2], "changed");
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.lane_event(&cursor, LaneEventKind::LowBalance, text("low")).unwrap();
    })
    .await;
    assert_eq!(listeners.reported(&lane).await, [true; 2], "a lane event");
    let put = NewCommand { submitter: lane.clone(), kind: CommandKind::Resume, issued_by: text("op") };
    let command = a.put_commands(&[put]).await.unwrap()[0];
    assert_eq!(listeners.reported(&lane).await, [false; 2], "an open command is no change");
    let command = waiting(&a, &lane, command).await;
    commit_done(&a, &lane, |commit| {
        commit.command_done(&command, done("done"));
    })
    .await;
    assert_eq!(listeners.reported(&lane).await, [true; 2], "an executed command");
}

/// With a wake-up for each commit an owner would be woken by its own writes.
pub(super) async fn commit_sends_no_wakeup_for_work(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let ids = accept(&a, &lane, &["bound", "canceled"]).await;
    let mut listeners = Listeners { nodes: [&a, &b], inboxes: [a.wakeups(), b.wakeups()] };
    listeners.connect().await;
    bind_next(&a, &lane).await;
    change(&a, &lane, ids[0], Transition::Acknowledge).await;
    a.cancel_queued(&[ids[1]]).await.unwrap();
    assert_eq!(listeners.reported(&lane).await, [false; 2]);
}

/// The owner of the lane may have read the intent as a candidate. Every node is told, and no node is told of work.
pub(super) async fn cancel_in_queue_tells_every_node(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (lane, other) = (lane(&a, 1).await, lane(&a, 2).await);
    let ids = accept(&a, &lane, &["bound", "canceled"]).await;
    accept(&a, &other, &["queued"]).await;
    bind_next(&a, &lane).await;
    let mut listeners = Listeners { nodes: [&a, &b], inboxes: [a.wakeups(), b.wakeups()] };
    listeners.connect().await;
    assert_eq!(a.cancel_queued(&[ids[1]]).await.unwrap(), [CancelVerdict::Canceled]);
    for received in listeners.received().await {
        assert!(received.contains(&Wakeup::QueueChanged(lane.clone())), "{received:?}");
        assert!(!received.contains(&Wakeup::QueueChanged(other.clone())), "{received:?}");
        assert!(!received.contains(&Wakeup::Lane(lane.clone())), "{received:?}");
    }
    let verdicts = a.cancel_queued(&[ids[0], ids[1], fresh_id()]).await.unwrap();
    assert_eq!(verdicts, [CancelVerdict::NotQueued, CancelVerdict::NotQueued, CancelVerdict::Unknown]);
    change(&a, &lane, ids[0], Transition::Acknowledge).await;
    for received in listeners.received().await {
        assert!(!received.contains(&Wakeup::QueueChanged(lane.clone())), "{received:?}");
    }
}

pub(super) async fn call_without_change_wakes_no_waiter(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let mut listeners = Listeners { nodes: [&a, &b], inboxes: [a.changes(), b.changes()] };
    listeners.connect().await;

    let made = attempt(nonce(0), 0, "bind");
    commit_done(&a, &lane, |commit| {
        commit
            .report(report(&made, SendOutcome::Accepted, "sent"))
            .claim_resubmit(claim(nonce(0), Duration::from_secs(60)));
    })
    .await;
    commit_done(&a, &lane, |commit| {
        commit.audit(audit("test", "no change"));
    })
    .await;
    commit_done(&a, &lane, |_| {}).await;
    assert_eq!(listeners.reported(&lane).await, [false; 2], "send reports, claims and audit entries");
    let stale = record(&a, id).await.change(Transition::Acknowledge).unwrap();
    change(&a, &lane, id, Transition::Acknowledge).await;
    listeners.reported(&lane).await;
    let refused = commit(&a, &lane, |commit: &mut LaneCommit| {
        commit.change(stale.clone());
    })
    .await;
    assert_eq!(refused, CommitVerdict::Conflict(Conflict::Tx(id)));
    assert_eq!(a.cancel_queued(&[id]).await.unwrap(), [CancelVerdict::NotQueued]);
    let other = NewIntent { id: fresh_id(), intent: intent_with(&lane, "r", transfer(2)) };
    assert_eq!(a.accept(&[other]).await.unwrap(), [Accepted::Conflict(id)]);
    assert_eq!(listeners.reported(&lane).await, [false; 2]);
}
