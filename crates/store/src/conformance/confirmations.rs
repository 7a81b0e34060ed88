//! Confirmation notices: each is stored with its event.

use std::slice::from_ref;
use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, BlockLink, BlockRef, CancelReason, ConfirmationNotice, Event, EventBody, Mined, Progress,
    SubmitterId, Transition, TxId, keccak256,
};

use super::Harness;
use super::fixtures::*;
use crate::roles::TxFilter;

const TICK: Duration = Duration::from_millis(5);

fn mine(hash: B256) -> Transition {
    Transition::Mine(inclusion(hash, AttemptKind::Original, 7))
}

/// A notice with a new list of links, from a fork block on top of block 7.
fn forked() -> ConfirmationNotice {
    let block = BlockRef { number: 8, hash: keccak256("fork") };
    ConfirmationNotice { new_fork: true, links: vec![link(7), BlockLink { block, parent_hash: link(7).block.hash }] }
}

/// Makes an intent that is mined, confirmed, reorganised and settled. Returns it with the notice of each of its events.
async fn intent_with_notices(
    node: &Node,
    lane: &SubmitterId,
    request: &str,
) -> (TxId, Vec<Option<ConfirmationNotice>>) {
    let id = bound(node, lane, request).await.id;
    let hash = node.attempts(id).await.unwrap()[0].hash;
    let first = Some(notice(true, 7..=7));
    let steps = [
        (mine(hash), first.clone()),
        (Transition::Confirm(notice(false, 8..=40)), Some(notice(false, 8..=40))),
        (Transition::Confirm(forked()), Some(forked())),
        (Transition::Unmine, None),
        (mine(hash), first),
        (Transition::WantCancel(CancelReason::User), None),
        (Transition::Settle(Some(notice(false, 8..=10))), Some(notice(false, 8..=10))),
    ];
    // The events of accept and bind have no notice.
    let mut expected = vec![None, None];
    for (step, notice) in steps {
        change(node, lane, id, step).await;
        expected.push(notice);
    }
    (id, expected)
}

fn notices_of(events: &[Event], id: TxId) -> Vec<Option<ConfirmationNotice>> {
    let of = |event: &Event| match &event.body {
        EventBody::Tx { tx_id, notice, .. } if *tx_id == id => Some(notice.clone()),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

pub(super) async fn notices_are_in_events_of_every_read(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let (id, expected) = intent_with_notices(&a, &lane, "r").await;
    let cursor = view(&a, &lane).await.cursor;
    commit_done(&a, &lane, |commit| {
        commit.set_paused(&cursor, true, text("by op")).unwrap();
    })
    .await;
    let all = events(&b).await;
    assert_eq!(notices_of(&all, id), expected);
    assert_eq!(notices_of(&b.events_of(id, 100).await.unwrap(), id), expected);
    let claimed = b.claim_events("webhooks", 100).await.unwrap().unwrap();
    assert_eq!(notices_of(&claimed, id), expected);
    // A consumer that applies all notices has the confirmations that the intent ended with.
    let mut list = Vec::new();
    for notice in expected.iter().flatten() {
        notice.apply(&mut list);
    }
    assert_eq!(list, (7..=10).map(link).collect::<Vec<_>>());
}

pub(super) async fn newest_notified_block_is_stored_with_intent(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let id = bound(&a, &lane, "r").await.id;
    let hash = a.attempts(id).await.unwrap()[0].hash;
    let inclusion = inclusion(hash, AttemptKind::Original, 7);
    for (step, told) in [
        (mine(hash), block(7)),
        (Transition::Confirm(notice(false, 8..=9)), block(9)),
        (Transition::Confirm(notice(false, 10..=10)), block(10)),
        (Transition::Confirm(forked()), forked().tip().unwrap()),
    ] {
        let before = record(&a, id).await;
        let after = change(&a, &lane, id, step).await;
        assert_eq!(after.version, before.version + 1);
        let mined = Progress::Mined(Mined { inclusion: inclusion.clone(), notified: told });
        assert_eq!(after.state.bound().unwrap().progress, mined);
        let filter = TxFilter { submitter: Some(lane.clone()), limit: 1, ..TxFilter::default() };
        assert_eq!(b.list(&filter).await.unwrap(), from_ref(&after));
        assert_eq!(view(&a, &lane).await.lane.bound, from_ref(&after));
        let newest = b.events_of(id, 100).await.unwrap().pop().unwrap();
        assert!(
            matches!(newest.body, EventBody::Tx { seq, state, .. } if seq == after.version && state == after.state)
        );
    }
}

pub(super) async fn each_change_of_one_commit_has_its_own_notice(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let (one, two) = (bound(&a, &lane, "one").await, bound(&a, &lane, "two").await);
    let mut expected = Vec::new();
    let mut changes = Vec::new();
    for (tx, upto) in [(&one, 8), (&two, 9)] {
        let hash = a.attempts(tx.id).await.unwrap()[0].hash;
        let mut tx = tx.clone();
        for step in [mine(hash), Transition::Confirm(notice(false, 8..=upto)), Transition::Settle(None)] {
            let change = tx.change(step).unwrap();
            tx.apply(&change, tx.updated_at);
            changes.push(change);
        }
        expected.push((tx.id, vec![None, None, Some(notice(true, 7..=7)), Some(notice(false, 8..=upto)), None]));
    }
    commit_done(&a, &lane, |commit| {
        for change in &changes {
            commit.change(change.clone());
        }
    })
    .await;
    let all = events(&a).await;
    for (id, expected) in expected {
        assert_eq!(notices_of(&all, id), expected);
        assert_eq!(record(&a, id).await.version, 5);
    }
}

pub(super) async fn archived_events_keep_their_notices(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    let (id, expected) = intent_with_notices(&a, &lane, "r").await;
    let open = bound(&a, &lane, "open").await.id;
    let before = a.events_of(id, 100).await.unwrap();
    h.pass(TICK).await;
    assert_eq!(move_out(&a, 10).await, 1);
    assert_eq!(b.events_of(id, 100).await.unwrap(), before);
    assert_eq!(notices_of(&before, id), expected);
    assert_eq!(notices_of(&b.events_of(open, 100).await.unwrap(), open), [None, None]);
}
