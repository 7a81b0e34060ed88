//! The sweep: it finds the lanes that need an owner, and no others.

use std::slice::from_ref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_domain::{
    CommandKind, Cursor, LockOwner, NewCommand, Payload, ReservationRequest, ReservationStep, SubmitterId,
};

use super::Harness;
use super::accept::woken;
use super::fixtures::*;
use crate::roles::NewIntent;
use crate::wake::{Wakeup, Wakeups};

async fn release_lane(node: &Node, lane: &SubmitterId) {
    let lease = acquire(node, lane).await;
    node.release(&[lease]).await.unwrap();
}

pub(super) async fn sweep_finds_queued_lane_without_valid_lease(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    accept(&a, &lane, &["r"]).await;
    assert_eq!(b.lanes_with_work(None, 10).await.unwrap(), from_ref(&lane));
    for attempt in 0.. {
        let from = database_now(&a).await;
        acquire(&a, &lane).await;
        let found = b.lanes_with_work(None, 10).await.unwrap();
        if database_now(&a).await < from.saturating_add(h.terms().duration) {
            assert_eq!(found, []);
            break;
        }
        assert!(attempt < 20, "{TOO_SLOW}");
    }
    h.pass(h.terms().duration + Duration::from_millis(1)).await;
    assert_eq!(b.lanes_with_work(None, 10).await.unwrap(), from_ref(&lane), "an expired lease");
    release_lane(&a, &lane).await;
    assert_eq!(b.lanes_with_work(None, 10).await.unwrap(), [lane], "a released lease");
}

pub(super) async fn sweep_finds_open_intents_and_commands(h: &dyn Harness) {
    let a = h.node("a").await;
    let (open, commanded) = (lane(&a, 1).await, lane(&a, 2).await);
    let id = bound(&a, &open, "r").await.id;
    let put = NewCommand { submitter: commanded.clone(), kind: CommandKind::Pause, issued_by: text("op") };
    let command = a.put_commands(&[put]).await.unwrap()[0];
    release_lane(&a, &open).await;
    let mut expected = vec![open.clone(), commanded.clone()];
    expected.sort();
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), expected);

    confirm(&a, &open, id).await;
    close_all(&a, &open).await;
    release_lane(&a, &open).await;
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), from_ref(&commanded));
    let command = waiting(&a, &commanded, command).await;
    commit_done(&a, &commanded, |commit| {
        commit.command_done(&command, done("done"));
    })
    .await;
    release_lane(&a, &commanded).await;
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), []);
}

/// Closes all slots of a lane.
async fn close_all(node: &Node, lane: &SubmitterId) {
    let cursor = view(node, lane).await.cursor;
    commit_done(node, lane, |commit| {
        commit.close_below(&cursor, cursor.next_nonce).unwrap();
    })
    .await;
}

/// An open slot is work also when no intent holds it: a foreign transaction whose block is not final, or a nonce that
/// was released and must be reserved again or filled. After the death of the owner, another node must find the lane
/// (P2).
pub(super) async fn sweep_finds_open_nonce_without_intent(h: &dyn Harness) {
    let a = h.node("a").await;
    let (foreign, recycling) = (lane(&a, 1).await, lane(&a, 2).await);
    let start = Cursor::starting_at(nonce(5));
    commit_done(&a, &foreign, |commit| {
        commit.adopt_foreign(&start, nonce(5), text("0xabc in block 42")).unwrap();
    })
    .await;
    let lock_owner = LockOwner::new("alice").unwrap();
    let payload = Payload::Reservation(ReservationRequest { lock_owner: lock_owner.clone(), hold_ms: 600_000 });
    let new = NewIntent { id: fresh_id(), intent: intent_with(&recycling, "alice", payload) };
    a.accept(from_ref(&new)).await.unwrap();
    let (tx, seen) = (record(&a, new.id).await, view(&a, &recycling).await);
    let (at, hold) = (seen.cursor.next_nonce, Duration::from_secs(600));
    let reserve = ReservationStep::Reserve { nonce: at, tx_id: tx.id, lock_owner: lock_owner.clone(), hold };
    commit_done(&a, &recycling, |commit| {
        commit.bind_reserved(&seen.cursor, &tx, reserve.clone()).unwrap();
    })
    .await;
    let tx = record(&a, new.id).await;
    let release = ReservationStep::Release { nonce: at, lock_owner };
    commit_done(&a, &recycling, |commit| {
        commit.end_reservation(&tx, release.clone()).unwrap();
    })
    .await;
    assert!(record(&a, new.id).await.state.name().is_terminal());

    let mut lanes = vec![foreign.clone(), recycling.clone()];
    lanes.sort();
    for lane in &lanes {
        release_lane(&a, lane).await;
    }
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), lanes);
    assert_eq!(a.lanes_with_work(Some(&lanes[0]), 10).await.unwrap(), lanes[1..]);
    close_all(&a, &foreign).await;
    release_lane(&a, &foreign).await;
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), [recycling]);
}

pub(super) async fn sweep_skips_idle_lanes(h: &dyn Harness) {
    let a = h.node("a").await;
    let (idle, canceled) = (lane(&a, 1).await, lane(&a, 2).await);
    release_lane(&a, &idle).await;
    let id = accept(&a, &canceled, &["r"]).await[0];
    a.cancel_queued(&[id]).await.unwrap();
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), []);
}

pub(super) async fn sweep_pages_in_order_of_submitters(h: &dyn Harness) {
    let a = h.node("a").await;
    let mut lanes = submitters(1..12);
    register(&a, &lanes).await;
    for lane in &lanes {
        accept(&a, lane, &["r"]).await;
    }
    lanes.sort();
    let mut found: Vec<SubmitterId> = Vec::new();
    loop {
        let page = a.lanes_with_work(found.last(), 4).await.unwrap();
        assert!(page.len() <= 4);
        if page.is_empty() {
            break;
        }
        found.extend(page);
        assert!(found.len() <= lanes.len(), "a lane was found twice");
    }
    assert_eq!(found, lanes);
}

pub(super) async fn release_with_work_wakes_other_nodes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let [queued, open, commanded] = [lane(&a, 1).await, lane(&a, 2).await, lane(&a, 3).await];
    let unclosed = lane(&a, 4).await;
    accept(&a, &queued, &["r"]).await;
    bound(&a, &open, "r").await;
    a.put_commands(&[pause_of(&commanded)]).await.unwrap();
    let id = bound(&a, &unclosed, "r").await.id;
    confirm(&a, &unclosed, id).await;
    let mut wakeups = b.wakeups();
    for lane in [queued, open, commanded, unclosed] {
        // The calls that made the work have sent wake-ups too. These are consumed first.
        settle(&a, &mut wakeups).await;
        let releasing = beside({
            let (a, lane) = (a.clone(), lane.clone());
            async move {
                loop {
                    release_lane(&a, &lane).await;
                    for _ in 0..20 {
                        pause().await;
                    }
                }
            }
        });
        soon("a wake-up for the remaining work", woken(&mut wakeups, &lane)).await;
        releasing.abort();
    }
}

/// With a wake-up the nodes would acquire and release an idle lane for ever.
pub(super) async fn release_of_idle_lane_wakes_no_node(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (new, ended) = (lane(&a, 1).await, lane(&a, 2).await);
    let id = bound(&a, &ended, "r").await.id;
    confirm(&a, &ended, id).await;
    close_all(&a, &ended).await;
    let command = a.put_commands(&[pause_of(&ended)]).await.unwrap()[0];
    let command = waiting(&a, &ended, command).await;
    commit_done(&a, &ended, |commit| {
        commit.command_done(&command, done("done"));
    })
    .await;
    let mut wakeups = b.wakeups();
    settle(&a, &mut wakeups).await;
    release_lane(&a, &new).await;
    release_lane(&a, &ended).await;
    let received = settle(&a, &mut wakeups).await;
    for lane in [new, ended] {
        assert!(!received.contains(&Wakeup::Lane(lane)), "{received:?}");
    }
}

fn pause_of(lane: &SubmitterId) -> NewCommand {
    NewCommand { submitter: lane.clone(), kind: CommandKind::Pause, issued_by: text("op") }
}

/// Waits until all wake-ups that `node` has posted so far have arrived, and returns them. Wake-ups that coalesce on
/// their way may change places with a marker that is posted together with them. They cannot change places with a
/// second marker, which is posted after the first one has arrived.
pub(super) async fn settle(node: &Node, wakeups: &mut Wakeups) -> Vec<Wakeup> {
    static MARKERS: AtomicU64 = AtomicU64::new(1_000_000);
    let mut received = Vec::new();
    for _ in 0..2 {
        let marker = lane(node, MARKERS.fetch_add(1, Ordering::Relaxed)).await;
        let posting = beside({
            let (node, marker) = (node.clone(), marker.clone());
            async move {
                // The store may still be connecting its listener, so the marker is posted again and again.
                loop {
                    accept(&node, &marker, &[&fresh_id().to_string()]).await;
                    for _ in 0..20 {
                        pause().await;
                    }
                }
            }
        });
        let marked = Wakeup::Lane(marker);
        let listening = async {
            while received.last() != Some(&marked) {
                received.push(wakeups.next().await);
            }
        };
        soon("a wake-up on another node", listening).await;
        posting.abort();
    }
    while let Some(wakeup) = wakeups.try_next() {
        received.push(wakeup);
    }
    received
}
