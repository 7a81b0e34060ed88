//! Whether the verdict sees what it is for: a story in which everything is right, and what each promise says when it is not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gapless_wire::TxStateName;

use crate::ledger::{Attempt, Event, Intent, LaneRows, Ledger, Slot};
use crate::register::Entry;
use crate::scan::{Block, Scan, Sent};
use crate::support::Accepted;
use crate::verdict;
use crate::violations::Violations;

/// One submitter, and requests `r0`, `r1`, … at the nonces of their numbers, each in a block of its own.
#[derive(Clone, Debug)]
struct Story {
    told: BTreeMap<String, Entry>,
    lane: LaneRows,
    scan: Scan,
    has_lost: bool,
}

const REQUESTS: u64 = 3;

impl Story {
    fn well() -> Self {
        let start = Instant::now();
        let lane = LaneRows {
            submitter: "s0".to_owned(),
            address: "0xA".to_owned(),
            next_nonce: REQUESTS,
            protect: None,
            intents: Vec::new(),
            slots: BTreeMap::new(),
            attempts: Vec::new(),
            events: BTreeMap::new(),
        };
        let mut story = Story { told: BTreeMap::new(), lane, scan: Scan::default(), has_lost: false };
        for nonce in 0..REQUESTS {
            let (request_id, tx_id, hash) = (format!("r{nonce}"), format!("tx{nonce}"), format!("0x{nonce}"));
            let asked = start + Duration::from_secs(2 * nonce);
            let (id, request) = (tx_id.clone(), request_id.clone());
            let accepted = Accepted { tx_id: id, request_id: request, asked, answered: asked + Duration::from_secs(1) };
            let entry = Entry { submitter: "s0".to_owned(), accepted: Some(accepted), ..Entry::default() };
            story.told.insert(request_id.clone(), entry);
            let (kind, id) = ("intent".to_owned(), Some(tx_id.clone()));
            story.lane.slots.insert(nonce, Slot { kind, tx_id: id, evidence: None });
            story.lane.attempts.push(Attempt { nonce, kind: "original".to_owned(), hash: hash.clone() });
            let event = |(seq, state): (u64, &str)| Event { seq, state: state.to_owned() };
            let events = [(1, "QUEUED"), (2, "ALLOCATED"), (3, "CONFIRMED")].map(event).to_vec();
            story.lane.events.insert(tx_id.clone(), events);
            let (state, version) = (TxStateName::Confirmed, 3);
            let (id, request) = (tx_id, request_id.clone());
            story.lane.intents.push(Intent {
                tx_id: id,
                request_id: request,
                state,
                version,
                hash: Some(hash.clone()),
            });
            let sent = Sent { hash, from: "0xa".to_owned(), nonce, request_id };
            story.scan.canonical.push(block(nonce, vec![sent]));
        }
        story
    }

    fn broken(&self) -> BTreeSet<String> {
        let (violations, ledger) = (Violations::default(), Ledger { lanes: vec![self.lane.clone()] });
        verdict::check(&self.told, &ledger, &self.scan, self.has_lost, &violations);
        let said = violations.read();
        said.iter().map(|violation| violation.to_string().split(':').next().unwrap().to_owned()).collect()
    }

    fn sent(&mut self, nonce: usize) -> &mut Sent {
        &mut self.scan.canonical[nonce].transactions[0]
    }

    fn told(&mut self, request_id: &str) -> &mut Entry {
        self.told.get_mut(request_id).unwrap()
    }

    /// The database has lost everything about the last request, and what it did was adopted.
    fn lost_and_found() -> Self {
        let mut story = Story::well();
        story.has_lost = true;
        let entry = story.told("r2");
        (entry.accepted, entry.lost, entry.happened) = (None, 1, true);
        story.lane.intents.pop();
        story.lane.attempts.pop();
        let evidence = Some("transaction 0x2 in block 2".to_owned());
        story.lane.slots.insert(2, Slot { kind: "foreign".to_owned(), tx_id: None, evidence });
        story
    }
}

fn block(number: u64, transactions: Vec<Sent>) -> Block {
    Block { number, hash: format!("b{number}"), parent: format!("b{}", number.wrapping_sub(1)), transactions }
}

#[test]
fn where_nothing_is_wrong_nothing_is_found() {
    assert_eq!(Story::well().broken(), BTreeSet::new());
    assert_eq!(Story::lost_and_found().broken(), BTreeSet::new());
}

#[test]
fn each_promise_that_is_broken_is_named() {
    type Plant = fn(&mut Story);
    let planted: [(&str, &str, Plant); 16] = [
        ("P1", "twice on chain", |story| story.sent(1).request_id = "r0".to_owned()),
        ("P1", "never ended", |story| story.lane.intents[0].state = TxStateName::Tracking),
        ("P1", "never asked for", |story| drop(story.told.remove("r1"))),
        ("P2", "a gap on chain", |story| story.sent(2).nonce = 7),
        ("P2", "bound and not used", |story| story.lane.next_nonce += 1),
        ("P3", "orphaned and never written down", |story| {
            let sent = Sent { hash: "0x9".to_owned(), ..story.sent(0).clone() };
            story.scan.orphaned.push(block(9, vec![sent]));
        }),
        ("P4", "two nonces", |story| story.lane.slots.get_mut(&1).unwrap().tx_id = Some("tx0".to_owned())),
        ("P4", "signed twice", |story| story.lane.attempts[1].nonce = 0),
        ("P6", "accepted and not there", |story| drop(story.lane.intents.pop())),
        ("P6", "another intent than was told", |story| story.lane.intents[0].tx_id = "tx9".to_owned()),
        ("P7", "adopted for no reason", |story| story.has_lost = false),
        ("P7", "adopted by other evidence", |story| story.lane.slots.get_mut(&2).unwrap().evidence = None),
        ("P7", "still in PROTECT", |story| story.lane.protect = Some("store_regressed".to_owned())),
        ("P8", "a hole", |story| drop(story.lane.events.get_mut("tx0").unwrap().remove(1))),
        ("P9", "confirmed by what no block has", |story| story.lane.intents[0].hash = Some("0x7".to_owned())),
        ("order", "overtaken", |story| {
            let (first, second) = (story.told["r0"].accepted.clone(), story.told["r1"].accepted.clone());
            story.told("r0").accepted.as_mut().unwrap().asked = second.as_ref().unwrap().asked;
            story.told("r0").accepted.as_mut().unwrap().answered = second.unwrap().answered;
            let (asked, answered) = first.map(|first| (first.asked, first.answered)).unwrap();
            story.told("r1").accepted.as_mut().unwrap().asked = asked;
            story.told("r1").accepted.as_mut().unwrap().answered = answered;
        }),
    ];
    for (promise, what, plant) in planted {
        let mut story = if what.starts_with("adopted") { Story::lost_and_found() } else { Story::well() };
        plant(&mut story);
        assert!(story.broken().contains(promise), "{what}: {:?} instead of {promise}", story.broken());
    }
}
