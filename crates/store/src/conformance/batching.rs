//! Batching changes no result: one batch, several batches and single calls lead to equal states.
//!
//! Each way of batching has its own lanes in one database. The comparison leaves out ids, times and positions.

use std::collections::BTreeMap;

use gapless_domain::{
    AttemptKind, CancelReason, EventBody, Intent, IntentRecord, LaneCommit, Metadata, RequestId, SendOutcome, Slot,
    SlotKind, Speed, StuckReason, SubmitterId, Transition, TransitionName, TxId, TxState, targets,
};

use super::Harness;
use super::fixtures::*;
use crate::roles::{Accepted, CommitVerdict, Conflict, NewIntent, TxFilter};

/// How many operations go into one call.
#[derive(Clone, Copy, Debug)]
enum Batching {
    AllAtOnce,
    Random,
    OneByOne,
}

const WAYS: [Batching; 3] = [Batching::AllAtOnce, Batching::Random, Batching::OneByOne];

impl Batching {
    fn split<'a, T>(self, mut things: &'a [T], dice: &mut Dice) -> Vec<&'a [T]> {
        let mut parts = Vec::new();
        while !things.is_empty() {
            let size = match self {
                Batching::AllAtOnce => things.len(),
                Batching::Random => 1 + dice.below(things.len() as u64) as usize,
                Batching::OneByOne => 1,
            };
            let (part, rest) = things.split_at(size);
            parts.push(part);
            things = rest;
        }
        parts
    }
}

/// The state of a lane without ids, times and positions.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Request id, version, state and events of each intent.
    intents: Vec<(String, u32, TxState, Vec<String>)>,
    next_nonce: u64,
    slots: Vec<(u64, String)>,
    attempts: Vec<(u64, u16, AttemptKind, u32)>,
    audits: Vec<String>,
}

/// proves W01: for intake
pub(super) async fn batched_and_single_accepts_are_equal(h: &dyn Harness) {
    let a = h.node("a").await;
    let mut outcomes = Vec::new();
    for (n, way) in WAYS.into_iter().enumerate() {
        let lanes = submitters(n as u64 * 100..n as u64 * 100 + 3);
        register(&a, &lanes[..2]).await;
        let operations = intake(&lanes, &mut Dice::new(7));
        let mut verdicts = Vec::new();
        for part in way.split(&operations, &mut Dice::new(8)) {
            verdicts.extend(a.accept(part).await.unwrap());
        }
        let requests: BTreeMap<TxId, String> =
            operations.iter().map(|new| (new.id, new.intent.request_id().to_string())).collect();
        let said: Vec<_> = verdicts.iter().map(|verdict| without_ids(verdict, &requests)).collect();
        let mut lanes_after = Vec::new();
        for lane in &lanes {
            lanes_after.push(outcome(&a, lane).await);
        }
        outcomes.push((said, lanes_after));
    }
    assert!(outcomes[0].0.iter().any(|said| said.starts_with("conflict")));
    assert!(outcomes[0].0.iter().any(|said| said == "refused"));
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0], outcomes[2]);
}

/// New requests, repetitions, other payloads, bad intents, and intents of an unknown submitter.
fn intake(lanes: &[SubmitterId], dice: &mut Dice) -> Vec<NewIntent> {
    let mut operations: Vec<NewIntent> = Vec::new();
    for _ in 0..60 {
        let lane = match dice.below(10) {
            0..=4 => &lanes[0],
            5..=8 => &lanes[1],
            _ => &lanes[2],
        };
        let request = RequestId::restore(&dice.below(30).to_string());
        let metadata = ["{}", "{", "[1]"][dice.below(3) as usize].to_owned();
        let payload = transfer(dice.below(8) / 7);
        let metadata = Some(Metadata::restore(metadata));
        let intent = Intent::restore(lane.clone(), request, payload, Speed::Standard, None, metadata);
        operations.push(NewIntent { id: fresh_id(), intent });
    }
    operations
}

fn without_ids(verdict: &Accepted, requests: &BTreeMap<TxId, String>) -> String {
    match verdict {
        Accepted::New => "new".to_owned(),
        Accepted::Existing(id) => format!("existing {}", requests[id]),
        Accepted::Conflict(id) => format!("conflict {}", requests[id]),
        Accepted::UnknownSubmitter => "unknown submitter".to_owned(),
        Accepted::Protected(_) => "protected".to_owned(),
        Accepted::Refused(_) => "refused".to_owned(),
    }
}

/// proves W01: for lane commits; some of them have a conflict, and fail alone
pub(super) async fn batched_and_single_commits_are_equal(h: &dyn Harness) {
    let a = h.node("a").await;
    let mut outcomes = Vec::new();
    for (n, way) in WAYS.into_iter().enumerate() {
        let lanes = submitters(n as u64 * 100..n as u64 * 100 + 4);
        register(&a, &lanes).await;
        for lane in &lanes {
            accept(&a, lane, &["0", "1", "2", "3"]).await;
        }
        let mut verdicts = Vec::new();
        let mut splits = Dice::new(9);
        for round in 0..8 {
            let numbered: Vec<_> = lanes.iter().cloned().enumerate().collect();
            for part in way.split(&numbered, &mut splits) {
                verdicts.extend(one_round(&a, part, round).await);
            }
        }
        let mut lanes_after = Vec::new();
        for lane in &lanes {
            lanes_after.push(outcome(&a, lane).await);
        }
        outcomes.push((verdicts, lanes_after));
    }
    assert!(outcomes[0].0.iter().any(|said| said == "done") && outcomes[0].0.iter().any(|said| said == "slot"));
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0], outcomes[2]);
}

/// One commit of each lane, all in one call. A commit that is fenced on a slow machine is repeated.
async fn one_round(node: &Node, lanes: &[(usize, SubmitterId)], round: u64) -> Vec<String> {
    let mut said = vec![String::new(); lanes.len()];
    for _ in 0..50 {
        let (mut commits, mut places) = (Vec::new(), Vec::new());
        for (place, (number, lane)) in lanes.iter().enumerate().filter(|(place, _)| said[*place].is_empty()) {
            let seen = view(node, lane).await;
            let mut commit = LaneCommit::new(&acquire(node, lane).await);
            fill(&mut commit, &seen, &mut Dice::new(round * 100 + *number as u64));
            commits.push(commit);
            places.push(place);
        }
        let verdicts = node.commit(&commits).await.unwrap().verdicts;
        for (place, verdict) in places.into_iter().zip(verdicts) {
            said[place] = match verdict {
                CommitVerdict::Done => "done".to_owned(),
                CommitVerdict::Conflict(Conflict::Slot(_)) => "slot".to_owned(),
                CommitVerdict::Conflict(Conflict::Cursor) => "cursor".to_owned(),
                CommitVerdict::Fenced | CommitVerdict::Busy => String::new(),
                other => panic!("{other:?}"),
            };
        }
        if said.iter().all(|said| !said.is_empty()) {
            return said;
        }
    }
    panic!("{TOO_SLOW}")
}

/// Fills the commit of one lane for one round. The content depends only on the lane's state and the dice.
fn fill(commit: &mut LaneCommit, seen: &View, dice: &mut Dice) {
    let mut cursor = seen.cursor.clone();
    if dice.below(8) == 0 {
        cursor.version += 1;
    }
    if let Some(first) = seen.queue.first().filter(|_| dice.below(3) > 0) {
        commit.bind(&cursor, first, seen.next_attempt()).unwrap();
    }
    for tx in &seen.lane.bound {
        let wanted = any_transition(tx, dice);
        if let Ok(change) = tx.change(wanted) {
            commit.change(change);
        }
    }
    commit
        .audit(audit("test", &format!("from version {}", seen.cursor.version)))
        .audit(audit("test", "a second entry"));
    if let Some(newest) = seen.lane.attempts.last() {
        let known = attempt(newest.nonce, newest.ordinal, if newest.ordinal == 0 { "bind" } else { "bump" });
        commit.report(report(&known, SendOutcome::Accepted, "ok"));
        match dice.below(4) {
            0 => drop(commit.attempt(known)),
            1 => drop(commit.attempt(attempt(newest.nonce, newest.ordinal + 1, "bump"))),
            _ => {}
        }
    }
}

fn any_transition(tx: &IntentRecord, dice: &mut Dice) -> Transition {
    let possible: Vec<_> =
        TransitionName::ALL.iter().filter(|name| !targets(tx.state.name(), **name).is_empty()).collect();
    match possible[dice.below(possible.len() as u64) as usize] {
        TransitionName::Mine => Transition::Mine(inclusion(block(1).hash, AttemptKind::Original, 4)),
        TransitionName::Unmine => Transition::Unmine,
        TransitionName::AwaitFunds => Transition::AwaitFunds,
        TransitionName::Funded => Transition::Funded,
        TransitionName::GiveUp => Transition::GiveUp(StuckReason::OutOfTries),
        TransitionName::Revive => Transition::Revive,
        TransitionName::WantCancel => Transition::WantCancel(CancelReason::User),
        TransitionName::WantReplace => Transition::WantReplace(transfer(7)),
        TransitionName::LoseNonce => Transition::LoseNonce,
        TransitionName::Confirm => Transition::Confirm(notice(false, 5..=6)),
        TransitionName::Settle => Transition::Settle(None),
        _ => Transition::Acknowledge,
    }
}

async fn outcome(node: &Node, lane: &SubmitterId) -> Outcome {
    let all = events(node).await;
    let filter = TxFilter { submitter: Some(lane.clone()), limit: 1000, ..TxFilter::default() };
    let records = node.list(&filter).await.unwrap();
    let names: BTreeMap<TxId, String> = records.iter().map(|tx| (tx.id, tx.intent.request_id().to_string())).collect();
    let intents = records.iter().map(|tx| {
        let events = all.iter().filter_map(|event| match &event.body {
            EventBody::Tx { tx_id, seq, kind, state, notice } if *tx_id == tx.id => {
                Some(format!("{seq} {} {state:?} {notice:?}", kind.as_str()))
            }
            _ => None,
        });
        (names[&tx.id].clone(), tx.version, tx.state.clone(), events.collect())
    });
    let intents = intents.collect();
    let seen = view(node, lane).await;
    let kind_of = |slot: &Slot| match slot.kind {
        SlotKind::Intent(id) => names[&id].clone(),
        other => format!("{other:?}"),
    };
    let audits = audits(node, lane).await.into_iter().map(|entry| format!("{} {}", entry.action, entry.detail));
    Outcome {
        audits: audits.collect(),
        intents,
        next_nonce: seen.cursor.next_nonce.get(),
        slots: seen.lane.slots.iter().map(|slot| (slot.nonce.get(), kind_of(slot))).collect(),
        attempts: seen
            .lane
            .attempts
            .iter()
            .map(|made| (made.nonce.get(), made.ordinal, made.kind, made.sends))
            .collect(),
    }
}
