//! The promise checks at the end of a run. They compare the answers of the callers, the ledger and the chain, all as
//! plain data, with one function per promise.

use std::collections::{BTreeMap, BTreeSet};

use gapless_wire::TxStateName;

use crate::answers::CallerRequest;
use crate::ledger::{IntentRow, LaneRows, LedgerSnapshot};
use crate::scan::{ChainScan, ScannedTx};
use crate::violations::Violations;

/// The answers of the callers by request id.
type RequestsById = BTreeMap<String, CallerRequest>;

/// The data of one lane.
struct LaneCheck<'a> {
    answers: BTreeMap<&'a str, &'a CallerRequest>,
    rows: &'a LaneRows,
    by_request: BTreeMap<&'a str, &'a IntentRow>,
    /// The account's transactions in canonical blocks, in order.
    sent: Vec<&'a ScannedTx>,
    scan: &'a ChainScan,
    /// True if the database lost commits. Then it does not have all attempts.
    has_lost: bool,
    violations: &'a Violations,
}

/// Checks all promises, adds the violations, and returns the number of effects on chain.
pub(crate) fn check(
    answers: &RequestsById,
    ledger: &LedgerSnapshot,
    scan: &ChainScan,
    has_lost: bool,
    violations: &Violations,
) -> usize {
    for pair in scan.canonical.windows(2).filter(|pair| pair[1].parent != pair[0].hash) {
        violations.add(
            "check",
            format!("block {} is not linked to the block before, so the scan proves nothing", pair[1].number),
        );
    }
    let mut effects = 0;
    for rows in &ledger.lanes {
        let answers = answers.iter().filter(|(_, entry)| entry.submitter == rows.submitter);
        let lane_check = LaneCheck {
            answers: answers.map(|(id, entry)| (id.as_str(), entry)).collect(),
            by_request: rows.intents.iter().map(|intent| (intent.request_id.as_str(), intent)).collect(),
            sent: scan.of(&rows.address).collect(),
            rows,
            scan,
            has_lost,
            violations,
        };
        if lane_check.by_request.is_empty() {
            violations.add("check", format!("{} has no accepted intent, so the run proves nothing", rows.submitter));
        }
        lane_check.exactly_once();
        lane_check.no_gap_and_no_duplicate();
        lane_check.one_nonce_per_intent();
        lane_check.accepted_is_durable();
        lane_check.no_unexplained_nonce();
        lane_check.events_without_gap();
        lane_check.chain_decides();
        lane_check.in_order_of_acceptance();
        effects += lane_check.sent.len();
    }
    effects
}

impl LaneCheck<'_> {
    /// P1: every accepted request took effect once, nothing else took effect, and one request id is one CONFIRMED
    /// intent.
    fn exactly_once(&self) {
        if self.by_request.len() != self.rows.intents.len() {
            self.fail("P1", "a request id has two intents");
        }
        let mut effects: BTreeMap<&str, u32> = BTreeMap::new();
        for sent in &self.sent {
            *effects.entry(&sent.request_id).or_default() += 1;
        }
        for (request_id, entry) in &self.answers {
            let may_be_missing = entry.accepted.is_none() && !entry.is_found_on_chain;
            match effects.remove(request_id) {
                Some(1) => {}
                None if may_be_missing && !self.by_request.contains_key(request_id) => {}
                found => self.fail("P1", format!("{request_id} took effect {} times; {entry}", found.unwrap_or(0))),
            }
        }
        for (request_id, count) in effects {
            self.fail("P1", format!("{request_id} took effect {count} times without a request"));
        }
        for intent in self.rows.intents.iter().filter(|intent| intent.state != TxStateName::Confirmed) {
            self.fail("P1", format!("a valid intent is not CONFIRMED: {intent:?}"));
        }
    }

    /// P2: the bound nonces are 0, 1, 2, …, and the chain has used each of them once and no other.
    fn no_gap_and_no_duplicate(&self) {
        let nonces = 0..self.rows.next_nonce;
        if !self.rows.slots.keys().copied().eq(nonces.clone()) {
            let slots = self.rows.slots.len();
            self.fail("P2", format!("the {slots} slots are not the nonces below {}", self.rows.next_nonce));
        }
        if !self.sent.iter().map(|sent| sent.nonce).eq(nonces) {
            let (used, bound) = (self.sent.len(), self.rows.next_nonce);
            self.fail("P2", format!("{bound} nonces are bound, and the chain has {used} transactions or other nonces"));
        }
    }

    /// P4: every intent has one nonce and one signature (there are no bumps in this test).
    fn one_nonce_per_intent(&self) {
        let bound: Vec<&str> = self.rows.slots.values().filter_map(|slot| slot.tx_id.as_deref()).collect();
        if bound.iter().collect::<BTreeSet<_>>().len() != bound.len() {
            self.fail("P4", "an intent has two nonces");
        }
        for pair in self.rows.attempts.windows(2).filter(|pair| pair[0].nonce == pair[1].nonce) {
            self.fail("P4", format!("two attempts at one nonce: {pair:?}"));
        }
        for attempt in self.rows.attempts.iter().filter(|attempt| attempt.kind != "original") {
            self.fail("P4", format!("an attempt without a reason: {attempt:?}"));
        }
    }

    /// P6: every answer has its intent, unless its loss was declared, and there is no other intent.
    fn accepted_is_durable(&self) {
        for (request_id, entry) in &self.answers {
            let kept = self.by_request.get(request_id).map(|intent| intent.tx_id.as_str());
            let wanted = entry.accepted.as_ref().map(|accepted| accepted.tx_id.as_str());
            if kept != wanted {
                self.fail("P6", format!("{request_id} is {kept:?} in the ledger; {entry}"));
            }
        }
        for request_id in self.by_request.keys().filter(|request_id| !self.answers.contains_key(*request_id)) {
            self.fail("P6", format!("an intent without a request: {request_id}"));
        }
    }

    /// P7 and P3: a nonce without an intent was adopted with its evidence, and only after a loss. An orphaned
    /// transaction has an attempt, or after a loss at least a request.
    fn no_unexplained_nonce(&self) {
        if let Some(code) = &self.rows.protect {
            self.fail("P7", format!("the lane is in PROTECT ({code}) after all faults healed and were reconciled"));
        }
        for (nonce, slot) in self.rows.slots.iter().filter(|(_, slot)| slot.kind != "intent") {
            let sent = self.sent.iter().find(|sent| sent.nonce == *nonce);
            let evidence = slot.evidence.as_deref().unwrap_or_default();
            let is_shown = sent.is_some_and(|sent| evidence.contains(&sent.hash));
            if slot.kind != "foreign" || !self.has_lost || !is_shown {
                self.fail("P7", format!("nonce {nonce} is {slot:?}, the chain has {sent:?}"));
            }
        }
        let signed: BTreeSet<&str> = self.rows.attempts.iter().map(|attempt| attempt.hash.as_str()).collect();
        for sent in self.scan.orphaned_of(&self.rows.address) {
            let has_request = self.answers.contains_key(sent.request_id.as_str());
            if !has_request || (!self.has_lost && !signed.contains(sent.hash.as_str())) {
                self.fail("P3", format!("an orphaned block has {sent:?}, which is not in the ledger"));
            }
        }
    }

    /// P8: the events of an intent are numbered without a gap, and only the last one is terminal and matches the state.
    fn events_without_gap(&self) {
        const TERMINAL: [&str; 3] = ["CONFIRMED", "FAILED_FINAL", "CANCELED"];
        for intent in &self.rows.intents {
            let events = self.rows.events.get(&intent.tx_id).map_or(&[][..], Vec::as_slice);
            let are_complete = events.iter().map(|event| event.seq).eq(1..=u64::from(intent.version));
            let terminal = events.iter().filter(|event| TERMINAL.contains(&event.state.as_str())).count();
            let last = events.last().map(|event| event.state.as_str());
            if !are_complete || last != Some(intent.state.as_str()) || terminal != 1 {
                self.fail("P8", format!("{intent:?} has the events {events:?}"));
            }
        }
    }

    /// P9: the hash of a CONFIRMED intent is in a canonical block, at the nonce of its slot, and is one of its
    /// attempts.
    fn chain_decides(&self) {
        let mined: BTreeMap<&str, &ScannedTx> = self.sent.iter().map(|sent| (sent.hash.as_str(), *sent)).collect();
        let bound: BTreeMap<&str, u64> =
            self.rows.slots.iter().filter_map(|(nonce, slot)| Some((slot.tx_id.as_deref()?, *nonce))).collect();
        for intent in self.rows.intents.iter().filter(|intent| intent.state == TxStateName::Confirmed) {
            let sent = intent.hash.as_deref().and_then(|hash| mined.get(hash));
            let nonce = bound.get(intent.tx_id.as_str()).copied();
            let is_signed = sent.is_some_and(|sent| {
                self.rows.attempts.iter().any(|attempt| attempt.hash == sent.hash && attempt.nonce == sent.nonce)
            });
            let is_its_own = sent.is_some_and(|sent| sent.request_id == intent.request_id && Some(sent.nonce) == nonce);
            if !is_signed || !is_its_own {
                self.fail("P9", format!("{intent:?} has nonce {nonce:?}, and the chain has {sent:?}"));
            }
        }
    }

    /// Order: a request that was answered before another request was sent has the lower nonce.
    fn in_order_of_acceptance(&self) {
        let bound: BTreeMap<&str, u64> =
            self.rows.slots.iter().filter_map(|(nonce, slot)| Some((slot.tx_id.as_deref()?, *nonce))).collect();
        let accepted = self.answers.values().filter_map(|entry| entry.accepted.as_ref());
        let mut by_answer: Vec<_> = accepted.filter_map(|a| Some((a, *bound.get(a.tx_id.as_str())?))).collect();
        by_answer.sort_by_key(|(accepted, _)| accepted.answered);
        let mut by_request = by_answer.clone();
        by_request.sort_by_key(|(accepted, _)| accepted.asked);
        let (mut answered, mut highest) = (by_answer.into_iter().peekable(), None);
        for (later, nonce) in by_request {
            while let Some((_, earlier)) = answered.next_if(|(earlier, _)| earlier.answered < later.asked) {
                highest = highest.max(Some(earlier));
            }
            if highest.is_some_and(|highest| highest > nonce) {
                self.fail(
                    "order",
                    format!("{} has nonce {nonce} and was accepted later than nonce {highest:?}", later.request_id),
                );
            }
        }
    }

    fn fail(&self, promise: &'static str, detail: impl std::fmt::Display) {
        self.violations.add(promise, format!("{}: {detail}", self.rows.submitter));
    }
}
