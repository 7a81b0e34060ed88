//! What must be true when it is over, by the words of the promises: what callers were told, the ledger, and the chain, all of it plain
//! data, are held against each other. One function a promise.

use std::collections::{BTreeMap, BTreeSet};

use gapless_wire::TxStateName;

use crate::ledger::{Intent, LaneRows, Ledger};
use crate::register::Entry;
use crate::scan::{Scan, Sent};
use crate::violations::Violations;

/// What callers were told, by request id.
type Told = BTreeMap<String, Entry>;

/// One lane, and all that is known of it.
struct Case<'a> {
    told: BTreeMap<&'a str, &'a Entry>,
    rows: &'a LaneRows,
    by_request: BTreeMap<&'a str, &'a Intent>,
    /// Transactions of its account in canonical blocks, in their order.
    sent: Vec<&'a Sent>,
    scan: &'a Scan,
    /// Whether the database ever lost commits: then it does not know of all that was signed.
    has_lost: bool,
    violations: &'a Violations,
}

/// How often a request has taken effect on chain comes back, summed up.
pub(crate) fn check(told: &Told, ledger: &Ledger, scan: &Scan, has_lost: bool, violations: &Violations) -> usize {
    for pair in scan.canonical.windows(2).filter(|pair| pair[1].parent != pair[0].hash) {
        violations.add(
            "the chain",
            format!("block {} is not linked to the one before: this scan shows nothing", pair[1].number),
        );
    }
    let mut effects = 0;
    for rows in &ledger.lanes {
        let told = told.iter().filter(|(_, entry)| entry.submitter == rows.submitter);
        let case = Case {
            told: told.map(|(id, entry)| (id.as_str(), entry)).collect(),
            by_request: rows.intents.iter().map(|intent| (intent.request_id.as_str(), intent)).collect(),
            sent: scan.of(&rows.address).collect(),
            rows,
            scan,
            has_lost,
            violations,
        };
        if case.by_request.is_empty() {
            violations.add("nothing", format!("was accepted for {}: this has shown nothing", rows.submitter));
        }
        case.exactly_once();
        case.no_gap_and_no_duplicate();
        case.sticky_nonces();
        case.accepted_is_durable();
        case.no_silent_jump();
        case.events_without_holes();
        case.the_chain_decides();
        case.in_order_of_acceptance();
        effects += case.sent.len();
    }
    effects
}

impl Case<'_> {
    /// P1: whatever was accepted took effect once, nothing else took any, and one request id is one intent with one end.
    fn exactly_once(&self) {
        if self.by_request.len() != self.rows.intents.len() {
            self.fail("P1", "a request id has two intents");
        }
        let mut effects: BTreeMap<&str, u32> = BTreeMap::new();
        for sent in &self.sent {
            *effects.entry(&sent.request_id).or_default() += 1;
        }
        for (request_id, entry) in &self.told {
            match effects.remove(request_id) {
                Some(1) => {}
                None if entry.accepted.is_none() && !entry.happened && !self.by_request.contains_key(request_id) => {}
                found => self.fail("P1", format!("{request_id} took effect {} times; {entry}", found.unwrap_or(0))),
            }
        }
        for (request_id, count) in effects {
            self.fail("P1", format!("{request_id}, which nobody has asked for, took effect {count} times"));
        }
        for intent in self.rows.intents.iter().filter(|intent| intent.state != TxStateName::Confirmed) {
            self.fail("P1", format!("it was healthy, asked for once, and has not ended as CONFIRMED: {intent:?}"));
        }
    }

    /// P2: bound nonces are 0, 1, 2, …, and so are those that the chain has used, each once.
    fn no_gap_and_no_duplicate(&self) {
        let places = 0..self.rows.next_nonce;
        if !self.rows.slots.keys().copied().eq(places.clone()) {
            let slots = self.rows.slots.len();
            self.fail("P2", format!("the {slots} slots are not those of the nonces below {}", self.rows.next_nonce));
        }
        if !self.sent.iter().map(|sent| sent.nonce).eq(places) {
            let (used, bound) = (self.sent.len(), self.rows.next_nonce);
            self.fail(
                "P2",
                format!("{bound} nonces are bound, and the chain has {used} transactions or others than these"),
            );
        }
    }

    /// P4: one intent, one nonce, one signature (no price is ever raised here).
    fn sticky_nonces(&self) {
        let bound: Vec<&str> = self.rows.slots.values().filter_map(|slot| slot.tx_id.as_deref()).collect();
        if bound.iter().collect::<BTreeSet<_>>().len() != bound.len() {
            self.fail("P4", "an intent has two nonces");
        }
        for pair in self.rows.attempts.windows(2).filter(|pair| pair[0].nonce == pair[1].nonce) {
            self.fail("P4", format!("signed twice: {pair:?}"));
        }
        for attempt in self.rows.attempts.iter().filter(|attempt| attempt.kind != "original") {
            self.fail("P4", format!("nobody had a reason for {attempt:?}"));
        }
    }

    /// P6: whatever a caller was told is there, unless its loss was declared; and nothing else is.
    fn accepted_is_durable(&self) {
        for (request_id, entry) in &self.told {
            let kept = self.by_request.get(request_id).map(|intent| intent.tx_id.as_str());
            let wanted = entry.accepted.as_ref().map(|accepted| accepted.tx_id.as_str());
            if kept != wanted {
                self.fail("P6", format!("{request_id} is {kept:?} in the ledger; {entry}"));
            }
        }
        for request_id in self.by_request.keys().filter(|request_id| !self.told.contains_key(*request_id)) {
            self.fail("P6", format!("nobody has asked for {request_id}"));
        }
    }

    /// P7: what the ledger cannot explain was adopted with its evidence, and only after a loss; everything else is explained.
    fn no_silent_jump(&self) {
        if let Some(code) = &self.rows.protect {
            self.fail("P7", format!("it is in PROTECT ({code}) though all was healed and reconciled"));
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
        for sent in self.scan.once_of(&self.rows.address) {
            let was_asked_for = self.told.contains_key(sent.request_id.as_str());
            if !was_asked_for || (!self.has_lost && !signed.contains(sent.hash.as_str())) {
                self.fail("P3", format!("an orphaned block has {sent:?}, which was never written down"));
            }
        }
    }

    /// P8: as many events as changes, numbered without a hole, the last of them is how it ended and the only one of an end.
    fn events_without_holes(&self) {
        const ENDS: [&str; 3] = ["CONFIRMED", "FAILED_FINAL", "CANCELED"];
        for intent in &self.rows.intents {
            let events = self.rows.events.get(&intent.tx_id).map_or(&[][..], Vec::as_slice);
            let are_whole = events.iter().map(|event| event.seq).eq(1..=u64::from(intent.version));
            let ends = events.iter().filter(|event| ENDS.contains(&event.state.as_str())).count();
            let last = events.last().map(|event| event.state.as_str());
            if !are_whole || last != Some(intent.state.as_str()) || ends != 1 {
                self.fail("P8", format!("{intent:?} has the events {events:?}"));
            }
        }
    }

    /// P9: what a CONFIRMED intent names is in a canonical block, at the nonce of its slot, and was signed for it.
    fn the_chain_decides(&self) {
        let mined: BTreeMap<&str, &Sent> = self.sent.iter().map(|sent| (sent.hash.as_str(), *sent)).collect();
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

    /// What was answered before something else was asked has the lower nonce.
    fn in_order_of_acceptance(&self) {
        let bound: BTreeMap<&str, u64> =
            self.rows.slots.iter().filter_map(|(nonce, slot)| Some((slot.tx_id.as_deref()?, *nonce))).collect();
        let accepted = self.told.values().filter_map(|entry| entry.accepted.as_ref());
        let mut by_answer: Vec<_> = accepted.filter_map(|a| Some((a, *bound.get(a.tx_id.as_str())?))).collect();
        by_answer.sort_by_key(|(accepted, _)| accepted.answered);
        let mut by_question = by_answer.clone();
        by_question.sort_by_key(|(accepted, _)| accepted.asked);
        let (mut answered, mut highest) = (by_answer.into_iter().peekable(), None);
        for (later, nonce) in by_question {
            while let Some((_, earlier)) = answered.next_if(|(earlier, _)| earlier.answered < later.asked) {
                highest = highest.max(Some(earlier));
            }
            if highest.is_some_and(|highest| highest > nonce) {
                self.fail(
                    "order",
                    format!("{} was accepted later than what has nonce {highest:?}, and has {nonce}", later.request_id),
                );
            }
        }
    }

    fn fail(&self, promise: &'static str, what: impl std::fmt::Display) {
        self.violations.add(promise, format!("{}: {what}", self.rows.submitter));
    }
}
