//! Concurrent calls: no error, no deadlock, one winner.

use gapless_domain::{LaneCommit, LaneEventKind, SubmitterId, TxState};

use super::Harness;
use super::fixtures::*;
use crate::roles::{Accepted, Acquired, CancelVerdict, CommitVerdict, Conflict, NewSubmitter};

/// proves W08: the same keys in different order, from several nodes
pub(super) async fn concurrent_batches_in_any_order_do_not_deadlock(h: &dyn Harness) {
    let first = h.node("first").await;
    let lanes = submitters(1..5);
    register(&first, &lanes).await;
    let mut calls = Vec::new();
    for n in 0..4_u64 {
        let (node, lanes) = (h.node(&format!("node-{n}")).await, lanes.clone());
        calls.push(beside(async move {
            let mut dice = Dice::new(n);
            let mut new = 0;
            for round in 0..8 {
                let keys: Vec<_> = lanes.iter().flat_map(|lane| (0..6).map(move |r| (lane, r))).collect();
                let batch: Vec<_> = dice
                    .shuffled(&keys)
                    .into_iter()
                    .map(|(lane, request)| new_intent(lane, &format!("{round}/{request}")))
                    .collect();
                for (item, verdict) in batch.iter().zip(node.accept(&batch).await.unwrap()) {
                    match verdict {
                        Accepted::New => new += 1,
                        Accepted::Existing(id) => assert_ne!(id, item.id),
                        other => panic!("{other:?}"),
                    }
                }
                let ids: Vec<_> = batch.iter().take(5).map(|item| item.id).collect();
                node.cancel_queued(&ids).await.unwrap();
            }
            new
        }));
    }
    let mut new = 0;
    for call in calls {
        new += call.await.unwrap();
    }
    assert_eq!(new, 8 * 24, "each request is new once");
}

/// proves N27: over many rounds, in any order
pub(super) async fn concurrent_commits_and_renewals_keep_leases(h: &dyn Harness) {
    // A machine that stalls for a whole lease loses the lease, but not in every round.
    for _ in 0..5 {
        if commit_and_renew_together(h).await {
            return;
        }
    }
    panic!("leases are lost whenever commits and renewals run together")
}

async fn commit_and_renew_together(h: &dyn Harness) -> bool {
    let node = h.node("busy").await;
    let lanes = submitters(1..7);
    register(&node, &lanes).await;
    let mut leases = Vec::new();
    for lane in &lanes {
        leases.push(take_over(h, &node, lane).await);
    }
    let renewing = beside({
        let (node, lanes) = (node.clone(), lanes.clone());
        async move {
            let mut kept = true;
            for _ in 0..60 {
                let renewal = node.renew().await.unwrap();
                let held = [renewal.extended, renewal.busy].concat();
                kept &= lanes.iter().all(|lane| held.iter().any(|lease| lease.submitter() == lane));
            }
            kept
        }
    });
    let mut committing = Vec::new();
    for part in [leases[..3].to_vec(), leases[3..].to_vec()] {
        let node = node.clone();
        committing.push(beside(async move {
            let mut dice = Dice::new(3);
            for _ in 0..30 {
                let commits = dice.shuffled(&part).iter().map(LaneCommit::new).collect();
                if !soon("every lane is written", all_done(&node, commits)).await {
                    return false;
                }
            }
            true
        }));
    }
    let mut kept = renewing.await.unwrap();
    for task in committing {
        kept &= task.await.unwrap();
    }
    node.release(&leases).await.unwrap();
    kept
}

/// Repeats busy commits until all are done. False if a lease is lost.
async fn all_done(node: &Node, mut commits: Vec<LaneCommit>) -> bool {
    while !commits.is_empty() {
        let verdicts = node.commit(&commits).await.unwrap().verdicts;
        let mut verdicts = verdicts.iter();
        if verdicts.clone().any(|verdict| *verdict == CommitVerdict::Fenced) {
            return false;
        }
        commits.retain(|commit| match verdicts.next() {
            Some(CommitVerdict::Done) => false,
            Some(CommitVerdict::Busy) => true,
            other => panic!("{commit:?}: {other:?}"),
        });
    }
    true
}

/// proves N01: with any number of concurrent takeovers
pub(super) async fn concurrent_takeovers_have_one_winner(h: &dyn Harness) {
    let clock = h.node("clock").await;
    let mut nodes = Vec::new();
    for n in 0..4 {
        nodes.push(h.node(&format!("node-{n}")).await);
    }
    for round in 0..20 {
        let lanes = submitters(round * 10..round * 10 + 3);
        let from = database_now(&clock).await;
        let mut won = acquire_all_at_once(&nodes, &lanes).await;
        let to = database_now(&clock).await;
        won.sort();
        let mut expected = lanes;
        expected.sort();
        // On a slow machine the first lease may expire before the last call.
        if to < from.saturating_add(h.terms().duration) {
            assert_eq!(won, expected);
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

async fn acquire_all_at_once(nodes: &[Node], lanes: &[SubmitterId]) -> Vec<SubmitterId> {
    let mut asked = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        let (node, order) = (node.clone(), Dice::new(n as u64).shuffled(lanes));
        asked.push(beside(async move {
            let mut won = Vec::new();
            for lane in order {
                if matches!(try_acquire(&node, &lane).await, Acquired::Held(_)) {
                    won.push(lane);
                }
            }
            won
        }));
    }
    let mut won = Vec::new();
    for task in asked {
        won.extend(task.await.unwrap());
    }
    won
}

pub(super) async fn concurrent_cancel_and_bind_have_one_winner(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    for round in 0..15 {
        let id = accept(&a, &lane, &[&round.to_string()]).await[0];
        let seen = view(&a, &lane).await;
        let canceling = beside({
            let b = b.clone();
            async move { b.cancel_queued(&[id]).await.unwrap().remove(0) }
        });
        let bound = commit(&a, &lane, |commit| {
            commit.bind(&seen.cursor, &seen.queue[0], seen.next_attempt()).unwrap();
        })
        .await;
        let canceled = canceling.await.unwrap();
        let tx = record(&a, id).await;
        match (bound, canceled) {
            (CommitVerdict::Done, CancelVerdict::NotQueued) => assert!(matches!(tx.state, TxState::Allocated(_))),
            (CommitVerdict::Conflict(Conflict::Tx(conflict)), CancelVerdict::Canceled) => {
                assert!(conflict == id && matches!(tx.state, TxState::Canceled(_)));
            }
            other => panic!("round {round}: {other:?}"),
        }
        assert_eq!(tx.version, 2);
    }
    let seen = view(&a, &lane).await;
    assert_eq!(seen.lane.slots.len() as u64, seen.cursor.next_nonce.get(), "no nonce is lost");
}

pub(super) async fn lanes_of_several_nodes_commit_concurrently(h: &dyn Harness) {
    let mut tasks = Vec::new();
    for n in 0..3_u64 {
        let node = h.node(&format!("node-{n}")).await;
        let lanes = submitters(n * 10..n * 10 + 4);
        register(&node, &lanes).await;
        tasks.push(beside(async move {
            let mut dice = Dice::new(n);
            for _ in 0..8 {
                for lane in dice.shuffled(&lanes) {
                    let cursor = view(&node, &lane).await.cursor;
                    commit_done(&node, &lane, |commit| {
                        commit.lane_event(&cursor, LaneEventKind::LowBalance, text("low")).unwrap();
                    })
                    .await;
                }
            }
            for lane in &lanes {
                assert_eq!(view(&node, lane).await.cursor.event_seq, 8);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let node = h.node("reader").await;
    assert_eq!(events(&node).await.len(), 3 * 4 * 8);
}

/// Nodes with the same config start at the same moment.
pub(super) async fn concurrent_registrations_of_same_submitters_succeed(h: &dyn Harness) {
    let mut nodes = Vec::new();
    for n in 0..6 {
        nodes.push(h.node(&format!("node-{n}")).await);
    }
    for round in 0..10_u64 {
        let all: Vec<_> = submitters(round * 10..round * 10 + 5)
            .into_iter()
            .map(|id| NewSubmitter { alias: Some(format!("alias of {id}")), id })
            .collect();
        let calls: Vec<_> = nodes
            .iter()
            .map(|node| {
                let (node, all) = (node.clone(), all.clone());
                beside(async move { node.register_submitters(&all).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
    }
}
