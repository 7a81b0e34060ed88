//! The end of a run as plain data, and the rules that it must obey: compares the store with the chain.
//!
//! The simulator and the chaos tests on real processes fill the same data and are checked by the same rules.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::{
    Attempt, B256, BlockRef, Bytes, Cursor, Event, EventBody, EventKind, EventPosition, IntentRecord, LaneEventKind,
    RequestId, StateName, SubmitterId, TxId, TxState, targets,
};
use gapless_store::{Store, StoreError, TxFilter};

use crate::chain::{data_of, payload_data};
use crate::history::{ChainBlock, ChainTx};

use super::CheckFailure;
use super::ledger::settled;

/// The number of rows or events that are read at once.
const PAGE: u32 = 500;

/// The contents of the store.
#[derive(Clone, Debug, Default)]
pub struct EndState {
    pub txs: Vec<EndTx>,
    /// The requests that were acknowledged to callers, without the intents that a reported loss of commits has removed.
    pub acknowledged: Vec<(SubmitterId, RequestId, TxId)>,
    /// The whole event stream; empty if it is unknown.
    pub events: Vec<Event>,
    /// The cursors of the lanes; empty if they are unknown.
    pub lanes: Vec<(SubmitterId, Option<Cursor>)>,
    /// Lanes whose ledger cannot be compared with this chain: it has another genesis, or it orphaned final blocks.
    /// Rules that need no blocks still apply to them.
    pub excused: Vec<SubmitterId>,
    /// Intents whose effect was on the chain before they were accepted, because a loss of commits had removed the first
    /// acceptance. Such an intent may end as CANCELED.
    pub repeated: BTreeSet<TxId>,
    /// The first events of lanes may be deleted by now.
    pub without_old_lane_events: bool,
}

/// An intent with its attempts and events.
#[derive(Clone, Debug)]
pub struct EndTx {
    pub tx: IntentRecord,
    pub attempts: Vec<Attempt>,
    pub events: Vec<Event>,
    /// Retention has moved it out: its events are not in the stream, and its attempts and events may be deleted.
    pub moved_out: bool,
}

/// The contents of the chain.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The canonical blocks, in order.
    pub canonical: Vec<ChainBlock>,
    pub final_number: u64,
}

/// Reads the whole store, page by page.
pub async fn read_end_state(
    store: &dyn Store,
    lanes: &[SubmitterId],
    acknowledged: Vec<(SubmitterId, RequestId, TxId)>,
    excused: Vec<SubmitterId>,
) -> Result<EndState, StoreError> {
    let mut rows = Vec::new();
    for lane in lanes {
        let mut before_seq = None;
        loop {
            let filter = TxFilter { submitter: Some(lane.clone()), state: None, before_seq, limit: PAGE };
            let page = store.list(&filter).await?;
            let Some(last) = page.last() else { break };
            before_seq = Some(last.seq);
            rows.extend(page);
        }
    }
    let listed: BTreeSet<TxId> = rows.iter().map(|tx| tx.id).collect();
    let told: BTreeSet<TxId> = acknowledged.iter().map(|(_, _, id)| *id).collect();
    let unlisted: Vec<TxId> = told.difference(&listed).copied().collect();
    rows.extend(store.get(&unlisted).await?.into_iter().flatten());
    let mut txs = Vec::with_capacity(rows.len());
    for tx in rows {
        let moved_out = !listed.contains(&tx.id);
        let attempts = store.attempts(tx.id).await?;
        // One event more than expected is read, to find a surplus one.
        let events = store.events_of(tx.id, tx.version.saturating_add(1)).await?;
        txs.push(EndTx { tx, attempts, events, moved_out });
    }
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(EventPosition::default(), |event| event.position);
        let page = store.read_events(after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    let status = store.lane_status(lanes).await?;
    let cursors = status.into_iter().map(|status| status.and_then(|status| status.cursor));
    let lanes = lanes.iter().cloned().zip(cursors).collect();
    Ok(EndState { txs, acknowledged, events, lanes, excused, ..EndState::default() })
}

/// All violations that the end state shows, each with the name of its promise.
pub fn check_end_state(end: &EndState, scan: &Scan) -> Vec<(&'static str, CheckFailure)> {
    let chain = ChainIndex::of(scan);
    let mut found = Vec::new();
    exactly_once(end, &chain, &mut Findings("P1", &mut found));
    no_gap(end, &chain, &mut Findings("P2", &mut found));
    durable(end, &mut Findings("P6", &mut found));
    events_of_each(end, &mut Findings("P8", &mut found));
    event_stream(end, &mut Findings("P8", &mut found));
    chain_decides(end, &chain, &mut Findings("P9", &mut found));
    liveness(end, &mut Findings("liveness", &mut found));
    found
}

struct Findings<'a>(&'static str, &'a mut Vec<(&'static str, CheckFailure)>);

impl Findings<'_> {
    fn add(&mut self, lane: &SubmitterId, what: String) {
        self.1.push((self.0, CheckFailure::of(lane, what)));
    }
}

/// The canonical chain, indexed.
struct ChainIndex<'a> {
    txs: BTreeMap<B256, (BlockRef, &'a ChainTx)>,
    /// The bytes of our own transactions, in order.
    effects: Vec<(&'a SubmitterId, &'a Bytes, B256)>,
    used: BTreeSet<(&'a SubmitterId, u64)>,
    final_number: u64,
}

impl<'a> ChainIndex<'a> {
    fn of(scan: &'a Scan) -> Self {
        let mut chain = ChainIndex {
            txs: BTreeMap::new(),
            effects: Vec::new(),
            used: BTreeSet::new(),
            final_number: scan.final_number,
        };
        for block in &scan.canonical {
            for tx in &block.txs {
                let plan = &tx.read.plan;
                chain.txs.insert(tx.hash(), (block.block, tx));
                chain.used.insert((&plan.submitter, plan.nonce.get()));
                // A transaction without bytes is a filler or a cancel.
                let data = data_of(&plan.action);
                if !tx.by_stranger && !data.is_empty() {
                    chain.effects.push((&plan.submitter, data, tx.hash()));
                }
            }
        }
        chain
    }
}

/// No two requests of a run have the same bytes, so bytes on the chain identify their request.
fn exactly_once(end: &EndState, chain: &ChainIndex<'_>, found: &mut Findings<'_>) {
    let mut effects = BTreeMap::new();
    for (lane, data, hash) in &chain.effects {
        if let Some(other) = effects.insert((*lane, *data), *hash) {
            found.add(lane, format!("{other} and {hash} are both on the chain with equal bytes: {data}"));
        }
    }
    let mut requests = BTreeMap::new();
    for EndTx { tx, .. } in &end.txs {
        let lane = tx.intent.submitter();
        if let Some(other) = requests.insert((lane, tx.intent.request_id()), tx.id) {
            let request = tx.intent.request_id();
            found.add(lane, format!("request {request} belongs to {other} and to {}", tx.id));
        }
        let asked = [Some(tx.intent.payload()), tx.replacement.as_ref()].into_iter().flatten();
        let data = asked.filter_map(payload_data);
        let ended_elsewhere = |hash: &B256| {
            tx.state.name().is_terminal() && settled(&tx.state).is_none_or(|settled| settled.inclusion.hash != *hash)
        };
        let mut done = data.filter_map(|data| effects.get(&(lane, data)));
        let is_repetition = tx.state.name() == StateName::Canceled && end.repeated.contains(&tx.id);
        if let Some(hash) = done.find(|hash| ended_elsewhere(hash))
            && !(is_repetition || end.excused.contains(lane))
        {
            let state = tx.state.name().as_str();
            found.add(lane, format!("{} ended as {state}, but {hash} on the chain has its effect", tx.id));
        }
    }
}

/// A chain uses nonces in order, so if each bound nonce is used there is no gap.
fn no_gap(end: &EndState, chain: &ChainIndex<'_>, found: &mut Findings<'_>) {
    let mut holders = BTreeMap::new();
    for EndTx { tx, attempts, .. } in &end.txs {
        let lane = tx.intent.submitter();
        let held = tx.state.nonce().map(|nonce| nonce.get());
        if let Some(nonce) = held
            && let Some(other) = holders.insert((lane, nonce), tx.id)
        {
            found.add(lane, format!("nonce {nonce} is held by {other} and by {}", tx.id));
        }
        if end.excused.contains(lane) {
            continue;
        }
        let bound: BTreeSet<u64> = attempts.iter().map(|attempt| attempt.nonce.get()).chain(held).collect();
        for nonce in bound.into_iter().filter(|nonce| !chain.used.contains(&(lane, *nonce))) {
            found.add(lane, format!("nonce {nonce} was bound for {}, and no transaction has used it", tx.id));
        }
    }
}

fn durable(end: &EndState, found: &mut Findings<'_>) {
    let rows: BTreeMap<TxId, &IntentRecord> = end.txs.iter().map(|end| (end.tx.id, &end.tx)).collect();
    for (lane, request, id) in &end.acknowledged {
        match rows.get(id) {
            None => {
                found.add(lane, format!("request {request} was acknowledged as {id}, and the store has no such intent"))
            }
            Some(tx) if tx.intent.request_id() != request || tx.intent.submitter() != lane => {
                let other = tx.intent.request_id();
                found.add(lane, format!("request {request} was acknowledged as {id}, which is request {other}"));
            }
            Some(_) => {}
        }
    }
}

/// The state of each intent equals the state that its events give, and no event is missing.
fn events_of_each(end: &EndState, found: &mut Findings<'_>) {
    // Of an intent that was moved out, all events are there or none.
    for EndTx { tx, events, .. } in end.txs.iter().filter(|end| !end.moved_out || !end.events.is_empty()) {
        if let Err(what) = rebuild(tx, events.iter()) {
            found.add(tx.intent.submitter(), format!("{}: {what}", tx.id));
        }
    }
}

fn rebuild<'a>(tx: &IntentRecord, events: impl Iterator<Item = &'a Event>) -> Result<(), String> {
    let mut state: Option<&TxState> = None;
    let mut version = 0;
    for event in events {
        let EventBody::Tx { tx_id, seq, kind, state: now, .. } = &event.body else {
            return Err("the intent's events contain a lane event".to_owned());
        };
        if *tx_id != tx.id || event.submitter != *tx.intent.submitter() {
            return Err(format!("the intent's events contain an event of {tx_id}"));
        }
        version += 1;
        if *seq != version {
            return Err(format!("event {version} is missing, the next one is {seq}"));
        }
        let fits = match (state, kind) {
            (None, EventKind::Accepted) => now.name() == StateName::Queued,
            (Some(from), EventKind::Tx(name)) => targets(from.name(), *name).contains(&now.name()),
            _ => false,
        };
        if !fits {
            let from = state.map_or("nothing", |state| state.name().as_str());
            return Err(format!("event {seq} ({}) leads from {from} to {}", kind.as_str(), now.name().as_str()));
        }
        state = Some(now);
    }
    if version != tx.version || state != Some(&tx.state) {
        let rebuilt = state.map_or("nothing", |state| state.name().as_str());
        let (row, at) = (tx.state.name().as_str(), tx.version);
        return Err(format!("its {version} events lead to {rebuilt}, but the row is {row} at version {at}"));
    }
    Ok(())
}

/// The event stream alone gives the state of every intent and every lane.
fn event_stream(end: &EndState, found: &mut Findings<'_>) {
    if end.events.is_empty() {
        return;
    }
    for pair in end.events.windows(2) {
        if let [one, next] = pair
            && one.position >= next.position
        {
            found.add(&next.submitter, format!("{:?} comes before {:?} in the stream", one.position, next.position));
        }
    }
    let mut by_intent: BTreeMap<TxId, Vec<&Event>> = BTreeMap::new();
    let mut by_lane: BTreeMap<&SubmitterId, LaneFromEvents> = BTreeMap::new();
    for event in &end.events {
        match &event.body {
            EventBody::Tx { tx_id, .. } => by_intent.entry(*tx_id).or_default().push(event),
            EventBody::Lane { seq, kind, .. } => {
                let from_events = by_lane.entry(&event.submitter).or_default();
                let is_first = end.without_old_lane_events && from_events.seq == 0;
                from_events.is_cut |= is_first && *seq > 1;
                if *seq != from_events.seq + 1 && !is_first {
                    found.add(&event.submitter, format!("the lane's event {seq} comes after {}", from_events.seq));
                }
                from_events.take(*seq, *kind);
            }
        }
    }
    for EndTx { tx, moved_out, .. } in &end.txs {
        let events = by_intent.remove(&tx.id).unwrap_or_default();
        if *moved_out && events.is_empty() {
            continue;
        }
        if let Err(what) = rebuild(tx, events.into_iter()) {
            found.add(tx.intent.submitter(), format!("in the event stream, {}: {what}", tx.id));
        }
    }
    for (id, events) in by_intent {
        if let Some(event) = events.first() {
            found.add(&event.submitter, format!("the event stream has {id}, but the store does not"));
        }
    }
    for (lane, cursor) in &end.lanes {
        let (from_events, cursor) = (by_lane.remove(lane).unwrap_or_default(), cursor.as_ref());
        let row = LaneFromEvents {
            seq: cursor.map_or(0, |cursor| cursor.event_seq),
            protected: cursor.is_some_and(Cursor::is_protected),
            paused: cursor.is_some_and(|cursor| cursor.paused),
            low_balance: cursor.is_some_and(|cursor| cursor.low_balance),
            is_cut: from_events.is_cut,
        };
        let is_gone = end.without_old_lane_events && from_events.seq == 0;
        let fits = if from_events.is_cut { from_events.seq == row.seq } else { from_events == row || is_gone };
        if !fits {
            found.add(lane, format!("its events give {from_events:?}, but its row is {row:?}"));
        }
    }
}

/// The state of a lane as its events give it.
#[derive(Debug, Default, PartialEq, Eq)]
struct LaneFromEvents {
    seq: u64,
    protected: bool,
    paused: bool,
    low_balance: bool,
    /// Its first events are deleted, so the rest does not tell the whole state.
    is_cut: bool,
}

impl LaneFromEvents {
    fn take(&mut self, seq: u64, kind: LaneEventKind) {
        self.seq = seq;
        match kind {
            LaneEventKind::Protected => self.protected = true,
            LaneEventKind::Unprotected => self.protected = false,
            LaneEventKind::Paused => self.paused = true,
            LaneEventKind::Resumed => self.paused = false,
            LaneEventKind::LowBalance => self.low_balance = true,
            LaneEventKind::BalanceRestored => self.low_balance = false,
            LaneEventKind::Resynced
            | LaneEventKind::FeesAboveCap
            | LaneEventKind::FeesBelowCap
            | LaneEventKind::Diagnosed
            | LaneEventKind::Escalated => {}
        }
    }
}

/// A terminal state that the chain decided names one of our hashes, in the block that has it, and that block is final.
fn chain_decides(end: &EndState, chain: &ChainIndex<'_>, found: &mut Findings<'_>) {
    for EndTx { tx, attempts, moved_out, .. } in &end.txs {
        let lane = tx.intent.submitter();
        let Some(settled) = settled(&tx.state) else { continue };
        if *moved_out && attempts.is_empty() {
            continue;
        }
        let (hash, nonce, block) = (settled.inclusion.hash, settled.nonce, settled.inclusion.block);
        let ended = tx.state.name().as_str();
        let Some(attempt) = attempts.iter().find(|attempt| attempt.hash == hash && attempt.nonce == nonce) else {
            found.add(
                lane,
                format!("{} is {ended} by {hash} at nonce {nonce}, which is not one of its attempts", tx.id),
            );
            continue;
        };
        if end.excused.contains(lane) {
            continue;
        }
        let wants_success = match &tx.state {
            TxState::Confirmed(_) => Some(true),
            TxState::FailedFinal(_) => Some(false),
            _ => None,
        };
        let what = match chain.txs.get(&hash) {
            None => "which is in no canonical block".to_owned(),
            Some((at, _)) if *at != block => format!("in block {}, but it is in {}", block.number, at.number),
            Some((at, _)) if at.number > chain.final_number => {
                format!("in block {}, and only {} is final", at.number, chain.final_number)
            }
            Some((_, on_chain)) if wants_success.is_some_and(|success| success != on_chain.succeeded) => {
                format!("which {} on the chain", if on_chain.succeeded { "succeeded" } else { "reverted" })
            }
            Some(_) if attempt.kind.carries_payload() != wants_success.is_some() => {
                format!("which is its {}", attempt.kind.as_str())
            }
            Some(_) => continue,
        };
        found.add(lane, format!("{} is {ended} by {hash}, {what}", tx.id));
    }
}

fn liveness(end: &EndState, found: &mut Findings<'_>) {
    for EndTx { tx, .. } in &end.txs {
        let lane = tx.intent.submitter();
        if !tx.state.name().is_terminal() && !end.excused.contains(lane) {
            found.add(lane, format!("{} is still {}", tx.id, describe(&tx.state)));
        }
    }
}

fn describe(state: &TxState) -> String {
    let sub_state = state.sub_state().map(|name| format!("/{}", name.as_str())).unwrap_or_default();
    let nonce = state.nonce().map(|nonce| format!(" at nonce {nonce}")).unwrap_or_default();
    format!("{}{sub_state}{nonce}", state.name().as_str())
}
