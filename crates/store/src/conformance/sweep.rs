//! The sweep: lanes that wait for an owner, and no others.

use std::slice::from_ref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gapless_domain::{CommandKind, NewCommand, SubmitterId};

use super::Harness;
use super::accept::woken;
use super::fixtures::*;
use crate::wake::{Wakeup, Wakeups};

async fn give_back(node: &Node, lane: &SubmitterId) {
    let lease = acquire(node, lane).await;
    node.release(&[lease]).await.unwrap();
}

pub(super) async fn lanes_with_queued_work_are_found_until_somebody_holds_them(h: &dyn Harness) {
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
    give_back(&a, &lane).await;
    assert_eq!(b.lanes_with_work(None, 10).await.unwrap(), [lane], "a released lease");
}

pub(super) async fn open_work_and_commands_are_found_too(h: &dyn Harness) {
    let a = h.node("a").await;
    let (open, commanded) = (lane(&a, 1).await, lane(&a, 2).await);
    let id = bound(&a, &open, "r").await.id;
    let put = NewCommand { submitter: commanded.clone(), kind: CommandKind::Pause, issued_by: text("op") };
    let command = a.put_commands(&[put]).await.unwrap()[0];
    give_back(&a, &open).await;
    let mut expected = vec![open.clone(), commanded.clone()];
    expected.sort();
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), expected);

    confirm(&a, &open, id).await;
    give_back(&a, &open).await;
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), from_ref(&commanded));
    commit_done(&a, &commanded, |commit| {
        commit.command_done(command, text("done"));
    })
    .await;
    give_back(&a, &commanded).await;
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), []);
}

pub(super) async fn lanes_without_work_are_not_found(h: &dyn Harness) {
    let a = h.node("a").await;
    let (idle, canceled) = (lane(&a, 1).await, lane(&a, 2).await);
    give_back(&a, &idle).await;
    let id = accept(&a, &canceled, &["r"]).await[0];
    a.cancel_queued(&[id]).await.unwrap();
    assert_eq!(a.lanes_with_work(None, 10).await.unwrap(), []);
}

pub(super) async fn the_sweep_pages_in_the_order_of_submitters(h: &dyn Harness) {
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

pub(super) async fn releasing_a_lane_with_work_wakes_the_other_nodes(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let [queued, open, commanded] = [lane(&a, 1).await, lane(&a, 2).await, lane(&a, 3).await];
    accept(&a, &queued, &["r"]).await;
    bound(&a, &open, "r").await;
    a.put_commands(&[pause_of(&commanded)]).await.unwrap();
    let mut wakeups = b.wakeups();
    for lane in [queued, open, commanded] {
        // What led to the work has woken somebody, too; that is over now.
        settle(&a, &mut wakeups).await;
        let releasing = beside({
            let (a, lane) = (a.clone(), lane.clone());
            async move {
                loop {
                    give_back(&a, &lane).await;
                    for _ in 0..20 {
                        pause().await;
                    }
                }
            }
        });
        soon("a wake-up for work that is left", woken(&mut wakeups, &lane)).await;
        releasing.abort();
    }
}

/// Or every node would take it and give it back for ever.
pub(super) async fn releasing_an_idle_lane_wakes_nobody(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (new, ended) = (lane(&a, 1).await, lane(&a, 2).await);
    let id = bound(&a, &ended, "r").await.id;
    confirm(&a, &ended, id).await;
    let command = a.put_commands(&[pause_of(&ended)]).await.unwrap()[0];
    commit_done(&a, &ended, |commit| {
        commit.command_done(command, text("done"));
    })
    .await;
    let mut wakeups = b.wakeups();
    settle(&a, &mut wakeups).await;
    give_back(&a, &new).await;
    give_back(&a, &ended).await;
    let heard = settle(&a, &mut wakeups).await;
    for lane in [new, ended] {
        assert!(!heard.contains(&Wakeup::Lane(lane)), "{heard:?}");
    }
}

fn pause_of(lane: &SubmitterId) -> NewCommand {
    NewCommand { submitter: lane.clone(), kind: CommandKind::Pause, issued_by: text("op") }
}

/// Until everything that `node` has posted so far was heard, of work or of changes; gives back all that was. Wake-ups that
/// gather on their way may change places with the marker that they travel with, but not with one that is posted after that
/// was heard.
pub(super) async fn settle(node: &Node, wakeups: &mut Wakeups) -> Vec<Wakeup> {
    static MARKERS: AtomicU64 = AtomicU64::new(1_000_000);
    let mut heard = Vec::new();
    for _ in 0..2 {
        let marker = lane(node, MARKERS.fetch_add(1, Ordering::Relaxed)).await;
        let posting = beside({
            let (node, marker) = (node.clone(), marker.clone());
            async move {
                // A store may still be connecting its listener.
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
            while heard.last() != Some(&marked) {
                heard.push(wakeups.next().await);
            }
        };
        soon("a wake-up in another process", listening).await;
        posting.abort();
    }
    while let Some(wakeup) = wakeups.try_next() {
        heard.push(wakeup);
    }
    heard
}
