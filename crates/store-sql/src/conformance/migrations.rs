//! One case for each migration, with rows of the schema before it.

use std::time::Duration;

use gapless_domain::{
    AttemptKind, B256, Claim, CommandId, CommandStatus, EventBody, Head, Inclusion, MempoolSignal, Mined, Progress,
    SendOutcome, SlotKind, Transition,
};
use gapless_store::RetentionKind;
use gapless_store::conformance::fixtures as f;

use super::harness::{ArchivedIntent, MigrationHarness};
use super::rows::{
    IntentFixture, WRITTEN_AT, attempt, command, cursor, event, head, inclusion_json, lane_event, migrated, sent, slot,
    submitter,
};

const CHAIN: &str = "eip155:31337";

/// Migration 2 lets the sweep find a lane that holds a nonce without an intent.
///
/// proves O04: from schema 1
pub(super) async fn schema_1_lane_with_an_open_nonce_is_found_by_the_sweep(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let canceled = IntentFixture {
        state: "CANCELED",
        detail: r#"{"cancel_reason":"user"}"#.to_owned(),
        version: 2,
        ..IntentFixture::queued("before", 1)
    };
    h.create_at(1).await;
    h.insert(&[
        submitter(&lane),
        canceled.key(&lane),
        canceled.row(&lane),
        cursor(&lane, 1, 1, 0, false),
        slot(&lane, 0, "foreign", None),
    ])
    .await;
    let node = migrated(h, 1).await;
    assert_eq!(node.lanes_with_work(None, 10).await.unwrap(), std::slice::from_ref(&lane));
    let record = f::record(&node, canceled.id).await;
    assert_eq!(record.intent, f::intent(&lane, "before"));
    // Work goes on.
    f::bound(&node, &lane, "after").await;
    assert_eq!(f::view(&node, &lane).await.cursor.next_nonce, f::nonce(2));
}

/// Before migration 3 no event has a notice, no intent knows the parent of its block, and no head has a tail.
///
/// proves O04: from schema 2
pub(super) async fn schema_2_rows_load_without_notices_and_tails(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let detail = |nonce| format!("{{{}}}", inclusion_json(nonce, "original", 7, None, ""));
    let ended = IntentFixture {
        state: "CONFIRMED",
        nonce: Some(0),
        detail: detail(0),
        version: 4,
        ..IntentFixture::queued("ended", 1)
    };
    let open = IntentFixture {
        state: "TRACKING",
        sub_state: Some("MINED"),
        nonce: Some(1),
        detail: detail(1),
        version: 3,
        ..IntentFixture::queued("open", 2)
    };
    let steps = |intent: &IntentFixture<'_>| {
        let nonce = intent.nonce;
        let states = [
            ("accepted", ("QUEUED", None, "{}")),
            ("bind", ("ALLOCATED", nonce, "{}")),
            ("mine", ("TRACKING", nonce, intent.detail.as_str())),
            ("settle", ("CONFIRMED", nonce, intent.detail.as_str())),
        ];
        let steps = (1..=intent.version).zip(states);
        steps.map(|(seq, (kind, state))| event(&lane, intent.id, seq, kind, state)).collect::<Vec<_>>()
    };
    h.create_at(2).await;
    h.insert(&[
        submitter(&lane),
        ended.key(&lane).with("end_state", "CONFIRMED"),
        open.key(&lane),
        open.row(&lane),
        cursor(&lane, 2, 3, 0, false),
        slot(&lane, 0, "intent", Some(ended.id)),
        slot(&lane, 1, "intent", Some(open.id)),
        attempt(&lane, 1, Some(open.id), "original"),
        head(CHAIN, 9, 4),
    ])
    .await;
    h.insert(&steps(&open)).await;
    h.insert_archived(&ArchivedIntent {
        intent: ended.row(&lane),
        attempts: vec![attempt(&lane, 0, Some(ended.id), "original")],
        events: steps(&ended),
    })
    .await;

    let node = migrated(h, 2).await;
    let kept = Head { tail: f::tail(9..=9), finalized: Some(f::block(4)), genesis: None };
    assert_eq!(node.head(&CHAIN.parse().unwrap()).await.unwrap(), Some(kept));
    let hash = node.attempts(open.id).await.unwrap()[0].hash;
    let inclusion = Inclusion { parent_hash: B256::ZERO, ..f::inclusion(hash, AttemptKind::Original, 7) };
    let told = inclusion.block;
    let progress = f::record(&node, open.id).await.state.bound().unwrap().progress.clone();
    assert_eq!(progress, Progress::Mined(Mined { inclusion, notified: told }));
    for intent in [&ended, &open] {
        let events = node.events_of(intent.id, 100).await.unwrap();
        assert_eq!(i64::try_from(events.len()), Ok(intent.version));
        assert!(events.iter().all(|event| matches!(&event.body, EventBody::Tx { notice: None, .. })), "{events:?}");
    }
    // Work goes on, up to retention.
    f::change(&node, &lane, open.id, Transition::Confirm(f::notice(false, 8..=9))).await;
    f::change(&node, &lane, open.id, Transition::Settle(None)).await;
    h.pass_a_moment().await;
    assert_eq!(f::move_out(&node, 10).await, 1);
    let events = node.events_of(open.id, 100).await.unwrap();
    let notices: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Tx { notice, .. } => notice.clone(),
            EventBody::Lane { .. } => None,
        })
        .collect();
    assert_eq!(notices, [f::notice(false, 8..=9)]);
}

/// Before migration 4 slots have no evidence, there is no audit log, and a command that is done was never refused.
///
/// proves O04: from schema 3
pub(super) async fn schema_3_rows_load_without_audit_log_and_evidence(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let open = IntentFixture {
        state: "ALLOCATED",
        sub_state: Some("PENDING"),
        nonce: Some(0),
        version: 2,
        ..IntentFixture::queued("open", 1)
    };
    h.create_at(3).await;
    h.insert(&[
        submitter(&lane),
        open.key(&lane),
        open.row(&lane),
        cursor(&lane, 2, 2, 1, true),
        slot(&lane, 0, "intent", Some(open.id)),
        slot(&lane, 1, "foreign", None),
        attempt(&lane, 0, Some(open.id), "original"),
        command(&lane, "pause", r#"{"kind":"pause"}"#, Some("paused")),
        command(&lane, "unprotect", r#"{"kind":"unprotect"}"#, None),
        lane_event(&lane, 1, "paused", "asked"),
    ])
    .await;

    let node = migrated(h, 3).await;
    let seen = f::view(&node, &lane).await;
    assert_eq!((seen.cursor.next_nonce, seen.cursor.paused, seen.cursor.low_balance), (f::nonce(2), true, false));
    let slots = node.open_slots(&lane, None, 10).await.unwrap();
    let kinds: Vec<_> = slots.iter().map(|status| status.slot.kind).collect();
    assert_eq!(kinds, [SlotKind::Intent(open.id), SlotKind::Foreign]);
    assert!(slots.iter().all(|status| status.slot.above.is_none() && status.slot.evidence.is_none()));
    assert_eq!((slots[0].tx.as_ref().map(|tx| tx.id), slots[0].attempts.len()), (Some(open.id), 1));
    let ids = [CommandId(1), CommandId(2)];
    let status = [CommandStatus::Over(f::done("paused")), CommandStatus::Open].map(Some);
    assert_eq!(node.commands(&ids).await.unwrap(), status);
    assert_eq!(f::audits(&node, &lane).await, []);
    // Work goes on.
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(9))).adopt_foreign(&seen.cursor, f::nonce(2), f::text("0xabc")).unwrap();
        commit.set_low_balance(&seen.cursor, true, f::text("3 wei")).unwrap();
        commit.command_done(&seen.lane.commands[0], f::refused("the cause persists"));
    })
    .await;
    let newest = node.open_slots(&lane, Some(f::nonce(2)), 10).await.unwrap().remove(0).slot;
    assert_eq!((newest.above, newest.evidence), (Some(f::block(9)), Some(f::text("0xabc"))));
    assert!(f::view(&node, &lane).await.cursor.low_balance);
    let over = CommandStatus::Over(f::refused("the cause persists"));
    assert_eq!(node.commands(&ids).await.unwrap()[1], Some(over));
    assert_eq!(f::audits(&node, &lane).await.len(), 1);
}

/// Migration 5 adds the hash of the block that a slot is above. A number without a hash cannot be checked.
///
/// proves O04: from schema 4
pub(super) async fn schema_4_slot_without_block_hash_is_above_no_block(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    h.create_at(4).await;
    h.insert(&[
        submitter(&lane),
        cursor(&lane, 1, 1, 0, false),
        slot(&lane, 0, "foreign", None).with("above_block", 7_i64),
    ])
    .await;
    let node = migrated(h, 4).await;
    let seen = f::view(&node, &lane).await;
    f::commit_done(&node, &lane, |commit| {
        commit.bind_above(Some(f::block(9))).adopt_foreign(&seen.cursor, f::nonce(1), f::text("0xdef")).unwrap();
    })
    .await;
    let above: Vec<_> = f::view(&node, &lane).await.lane.slots.iter().map(|slot| slot.above).collect();
    assert_eq!(above, [None, Some(f::block(9))]);
    drop(node);
    assert_eq!(h.integer("SELECT above_block FROM slot WHERE nonce = 0").await, Some(7), "the number is kept");
}

/// Migration 6 is an index for the queue, which PostgreSQL needs: intents that hold a nonce come before the queue.
///
/// proves O04: from schema 5
pub(super) async fn schema_5_queue_behind_bound_intents_is_peeked_in_order(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let bound = IntentFixture {
        state: "ALLOCATED",
        sub_state: Some("PENDING"),
        nonce: Some(0),
        version: 2,
        ..IntentFixture::queued("bound", 1)
    };
    let (first, second) = (IntentFixture::queued("first", 2), IntentFixture::queued("second", 3));
    h.create_at(5).await;
    h.insert(&[
        submitter(&lane),
        bound.key(&lane),
        bound.row(&lane),
        second.key(&lane),
        second.row(&lane),
        first.key(&lane),
        first.row(&lane),
        cursor(&lane, 1, 1, 0, false),
        slot(&lane, 0, "intent", Some(bound.id)).with("above_block", 7_i64).with("above_hash", f::block(7).hash),
        attempt(&lane, 0, Some(bound.id), "original"),
    ])
    .await;
    let node = migrated(h, 5).await;
    let seen = f::view(&node, &lane).await;
    assert_eq!(seen.queue.iter().map(|tx| tx.id).collect::<Vec<_>>(), [first.id, second.id]);
    assert_eq!(seen.lane.slots[0].above, Some(f::block(7)));
    // Work goes on.
    assert_eq!(f::bind_next(&node, &lane).await.id, first.id);
    assert_eq!(f::view(&node, &lane).await.queue[0].id, second.id);
}

/// Before migration 7 no intent is replaced, attempts have no history, and slots count no tries.
///
/// proves O04: from schema 6
pub(super) async fn schema_6_rows_load_without_replacement_and_history(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let ended = IntentFixture {
        state: "CONFIRMED",
        nonce: Some(0),
        detail: format!("{{{}}}", inclusion_json(0, "original", 7, Some(f::link(7).parent_hash), "")),
        version: 4,
        ..IntentFixture::queued("ended", 1)
    };
    let open = IntentFixture {
        state: "ALLOCATED",
        sub_state: Some("PENDING"),
        nonce: Some(1),
        version: 2,
        ..IntentFixture::queued("open", 2)
    };
    let queued = IntentFixture::queued("queued", 3);
    h.create_at(6).await;
    h.insert(&[
        submitter(&lane),
        ended.key(&lane).with("end_state", "CONFIRMED"),
        open.key(&lane),
        open.row(&lane),
        queued.key(&lane),
        queued.row(&lane),
        cursor(&lane, 2, 2, 0, false),
        slot(&lane, 0, "intent", Some(ended.id)),
        slot(&lane, 1, "intent", Some(open.id)).with("next_resubmit_at", WRITTEN_AT),
        sent(attempt(&lane, 1, Some(open.id), "original")),
    ])
    .await;
    h.insert_archived(&ArchivedIntent {
        intent: ended.row(&lane),
        attempts: vec![sent(attempt(&lane, 0, Some(ended.id), "original"))],
        events: vec![event(&lane, ended.id, 1, "accepted", ("QUEUED", None, "{}"))],
    })
    .await;

    let node = migrated(h, 6).await;
    for id in [ended.id, open.id, queued.id] {
        assert_eq!(f::record(&node, id).await.replacement, None);
    }
    for id in [ended.id, open.id] {
        let attempt = node.attempts(id).await.unwrap().remove(0);
        assert_eq!((attempt.sends, attempt.history.len()), (1, 0), "the count of sends is known, their history is not");
    }
    let slot = f::view(&node, &lane).await.lane.slots.remove(1);
    assert_eq!((slot.tries, slot.signal, slot.next_resubmit_at), (0, None, Some(WRITTEN_AT)));
    // Work goes on, up to retention beside rows that were archived before.
    let dropped = Some(MempoolSignal::LikelyDropped);
    f::commit_done(&node, &lane, |commit| {
        let claim = f::claim(f::nonce(1), Duration::from_secs(60));
        let report = f::report(&f::attempt(f::nonce(1), 0, "bind"), SendOutcome::Accepted, "taken");
        commit.report(report).claim_resubmit(Claim { signal: dropped, ..claim });
    })
    .await;
    for id in [open.id, queued.id] {
        let tx = f::change(&node, &lane, id, Transition::WantReplace(f::transfer(7))).await;
        assert_eq!(tx.payload(), &f::transfer(7));
    }
    let status = node.open_slots(&lane, Some(f::nonce(1)), 10).await.unwrap().remove(0);
    assert_eq!((status.slot.tries, status.slot.signal), (1, dropped));
    assert_eq!((status.attempts[0].sends, status.attempts[0].history.len()), (2, 1));
    let before = f::confirm(&node, &lane, open.id).await;
    h.pass_a_moment().await;
    assert_eq!(f::move_out(&node, 10).await, 1);
    assert_eq!((f::record(&node, open.id).await, node.attempts(open.id).await.unwrap()), (before, status.attempts));
}

/// Before migration 10 archived intents keep their events and attempts for ever, and event positions have no offset.
///
/// proves O04: from schema 9
pub(super) async fn schema_9_archived_intent_loses_events_and_attempts_to_retention(h: &dyn MigrationHarness) {
    let lane = f::submitter(1);
    let ended = IntentFixture {
        state: "CONFIRMED",
        nonce: Some(0),
        detail: format!("{{{}}}", inclusion_json(0, "original", 7, Some(f::link(7).parent_hash), "")),
        version: 4,
        ..IntentFixture::queued("ended", 1)
    };
    let queued = IntentFixture::queued("queued", 2);
    let accepted = |id| event(&lane, id, 1, "accepted", ("QUEUED", None, "{}"));
    h.create_at(9).await;
    h.insert(&[
        submitter(&lane),
        ended.key(&lane).with("end_state", "CONFIRMED"),
        queued.key(&lane),
        queued.row(&lane),
        cursor(&lane, 1, 2, 0, false).with("low_balance", false),
        slot(&lane, 0, "intent", Some(ended.id)),
        accepted(queued.id),
    ])
    .await;
    h.insert_archived(&ArchivedIntent {
        intent: ended.row(&lane),
        attempts: vec![sent(attempt(&lane, 0, Some(ended.id), "original")).with("history", "[]")],
        events: vec![accepted(ended.id)],
    })
    .await;

    let node = migrated(h, 9).await;
    let record = f::record(&node, ended.id).await;
    assert_eq!(node.attempts(ended.id).await.unwrap().len(), 1);
    assert_eq!(node.events_of(ended.id, 9).await.unwrap().len(), 1);
    for kind in [RetentionKind::Attempts, RetentionKind::Events] {
        assert_eq!((f::retain(&node, kind, 10).await, f::retain(&node, kind, 10).await), (1, 0), "{kind:?}");
    }
    assert_eq!(node.attempts(ended.id).await.unwrap(), []);
    assert_eq!(node.events_of(ended.id, 9).await.unwrap(), []);
    assert_eq!(f::record(&node, ended.id).await, record);
    // Work goes on: new events come after those of the older schema.
    let before = f::events(&node).await;
    node.cancel_queued(&[queued.id]).await.unwrap();
    let after = f::events(&node).await;
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));
}
