//! Tests of the promise checks: a correct run has no violation, and each planted violation is found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gapless_wire::TxStateName;

use crate::answers::CallerRequest;
use crate::ledger::{AttemptRow, EventRow, IntentRow, LaneRows, LedgerSnapshot, SlotRow};
use crate::promises;
use crate::scan::{ChainScan, ScannedBlock, ScannedTx};
use crate::support::AcceptedRequest;
use crate::violations::Violations;

/// One submitter with the requests `r0`, `r1`, … at the nonces 0, 1, …, each in its own block.
#[derive(Clone, Debug)]
struct RunFixture {
    answers: BTreeMap<String, CallerRequest>,
    lane: LaneRows,
    scan: ChainScan,
    has_lost: bool,
}

const REQUESTS: u64 = 3;

impl RunFixture {
    fn correct() -> Self {
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
        let mut run = RunFixture { answers: BTreeMap::new(), lane, scan: ChainScan::default(), has_lost: false };
        for nonce in 0..REQUESTS {
            let (request_id, tx_id, hash) = (format!("r{nonce}"), format!("tx{nonce}"), format!("0x{nonce}"));
            let asked = start + Duration::from_secs(2 * nonce);
            let (id, request) = (tx_id.clone(), request_id.clone());
            let accepted =
                AcceptedRequest { tx_id: id, request_id: request, asked, answered: asked + Duration::from_secs(1) };
            let entry =
                CallerRequest { submitter: "s0".to_owned(), accepted: Some(accepted), ..CallerRequest::default() };
            run.answers.insert(request_id.clone(), entry);
            let (kind, id) = ("intent".to_owned(), Some(tx_id.clone()));
            run.lane.slots.insert(nonce, SlotRow { kind, tx_id: id, evidence: None });
            run.lane.attempts.push(AttemptRow { nonce, kind: "original".to_owned(), hash: hash.clone() });
            let event = |(seq, state): (u64, &str)| EventRow { seq, state: state.to_owned() };
            let events = [(1, "QUEUED"), (2, "ALLOCATED"), (3, "CONFIRMED")].map(event).to_vec();
            run.lane.events.insert(tx_id.clone(), events);
            let (state, version) = (TxStateName::Confirmed, 3);
            let (id, request) = (tx_id, request_id.clone());
            run.lane.intents.push(IntentRow {
                tx_id: id,
                request_id: request,
                state,
                version,
                hash: Some(hash.clone()),
            });
            let sent = ScannedTx { hash, from: "0xa".to_owned(), nonce, request_id };
            run.scan.canonical.push(block(nonce, vec![sent]));
        }
        run
    }

    fn violated_promises(&self) -> BTreeSet<String> {
        let (violations, ledger) = (Violations::default(), LedgerSnapshot { lanes: vec![self.lane.clone()] });
        promises::check(&self.answers, &ledger, &self.scan, self.has_lost, &violations);
        let violations = violations.read();
        violations.iter().map(|violation| violation.to_string().split(':').next().unwrap().to_owned()).collect()
    }

    fn mined(&mut self, nonce: usize) -> &mut ScannedTx {
        &mut self.scan.canonical[nonce].transactions[0]
    }

    fn answer(&mut self, request_id: &str) -> &mut CallerRequest {
        self.answers.get_mut(request_id).unwrap()
    }

    /// A correct run in which the database lost the last request, and its transaction was adopted.
    fn lost_and_adopted() -> Self {
        let mut run = RunFixture::correct();
        run.has_lost = true;
        let entry = run.answer("r2");
        (entry.accepted, entry.lost, entry.is_found_on_chain) = (None, 1, true);
        run.lane.intents.pop();
        run.lane.attempts.pop();
        let evidence = Some("transaction 0x2 in block 2".to_owned());
        run.lane.slots.insert(2, SlotRow { kind: "foreign".to_owned(), tx_id: None, evidence });
        run
    }
}

fn block(number: u64, transactions: Vec<ScannedTx>) -> ScannedBlock {
    ScannedBlock { number, hash: format!("b{number}"), parent: format!("b{}", number.wrapping_sub(1)), transactions }
}

#[test]
fn correct_run_has_no_violation() {
    assert_eq!(RunFixture::correct().violated_promises(), BTreeSet::new());
    assert_eq!(RunFixture::lost_and_adopted().violated_promises(), BTreeSet::new());
}

#[test]
fn each_planted_violation_is_found() {
    type Plant = fn(&mut RunFixture);
    let planted: [(&str, &str, Plant); 16] = [
        ("P1", "a request twice on chain", |run| run.mined(1).request_id = "r0".to_owned()),
        ("P1", "an intent without end", |run| run.lane.intents[0].state = TxStateName::Tracking),
        ("P1", "an effect without a request", |run| drop(run.answers.remove("r1"))),
        ("P2", "a gap on chain", |run| run.mined(2).nonce = 7),
        ("P2", "a bound nonce that is not mined", |run| run.lane.next_nonce += 1),
        ("P3", "an orphaned transaction without an attempt", |run| {
            let sent = ScannedTx { hash: "0x9".to_owned(), ..run.mined(0).clone() };
            run.scan.orphaned.push(block(9, vec![sent]));
        }),
        ("P4", "two nonces of one intent", |run| run.lane.slots.get_mut(&1).unwrap().tx_id = Some("tx0".to_owned())),
        ("P4", "two signatures for one nonce", |run| run.lane.attempts[1].nonce = 0),
        ("P6", "a lost accepted intent", |run| drop(run.lane.intents.pop())),
        ("P6", "another transaction id than in the answer", |run| run.lane.intents[0].tx_id = "tx9".to_owned()),
        ("P7", "adopted without a loss", |run| run.has_lost = false),
        ("P7", "adopted without evidence", |run| run.lane.slots.get_mut(&2).unwrap().evidence = None),
        ("P7", "still in PROTECT", |run| run.lane.protect = Some("store_regressed".to_owned())),
        ("P8", "a missing event", |run| drop(run.lane.events.get_mut("tx0").unwrap().remove(1))),
        ("P9", "confirmed without a mined transaction", |run| run.lane.intents[0].hash = Some("0x7".to_owned())),
        ("order", "a later request with a lower nonce", |run| {
            let (first, second) = (run.answers["r0"].accepted.clone(), run.answers["r1"].accepted.clone());
            run.answer("r0").accepted.as_mut().unwrap().asked = second.as_ref().unwrap().asked;
            run.answer("r0").accepted.as_mut().unwrap().answered = second.unwrap().answered;
            let (asked, answered) = first.map(|first| (first.asked, first.answered)).unwrap();
            run.answer("r1").accepted.as_mut().unwrap().asked = asked;
            run.answer("r1").accepted.as_mut().unwrap().answered = answered;
        }),
    ];
    for (promise, name, plant) in planted {
        let mut run = if name.starts_with("adopted") { RunFixture::lost_and_adopted() } else { RunFixture::correct() };
        plant(&mut run);
        let violated = run.violated_promises();
        assert!(violated.contains(promise), "{name}: {violated:?} instead of {promise}");
    }
}
