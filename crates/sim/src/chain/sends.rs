//! Broadcasts: transactions on their way to all endpoints, and one answer for each of them (S10).

use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Classified, Family, Method, SendAnswer, Verdict};
use gapless_domain::{B256, EndpointAnswer, SignedTx};

use super::endpoint::name_of;
use super::gate::{Answer, Gate};
use super::pool::Refusal;
use super::state::{Place, State};
use super::texts::{self, NONSENSE, Trouble};
use crate::dice::Dice;
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};

/// The delay of a delayed send.
const LATE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(40));

/// The refusals that a wrong text may claim. An honest chain node may give each of them for a transaction that is in
/// some pool.
const WRONG: [Refusal; 7] = [
    Refusal::AlreadyKnown,
    Refusal::NonceTooLow { next: 0, nonce: 0 },
    Refusal::ReplacementUnderpriced,
    Refusal::Underpriced,
    Refusal::Full,
    Refusal::InsufficientFunds { balance: 0, cost: 1 },
    Refusal::GasTooLow,
];

/// The fault of one transaction, at all endpoints or at one of them.
#[derive(Clone, Copy, Debug)]
struct Fate {
    fault: Fault,
    /// The endpoint with the fault; `None` is all of them.
    at: Option<usize>,
    late: Duration,
    wrong: Refusal,
}

/// One transaction on its way to one endpoint: its position in the batch, and its fault.
#[derive(Clone, Debug)]
struct Travelling {
    place: usize,
    tx: SignedTx,
    fate: Option<Fate>,
}

pub(super) async fn broadcast(gate: &Gate, txs: &[SignedTx]) -> Vec<SendAnswer> {
    for tx in txs {
        gate.history.tell(Moment::Sent { by: gate.owner.clone(), tx: tx.clone() });
    }
    let endpoints = gate.endpoint_count();
    let fates: Vec<Option<Fate>> = txs.iter().map(|_| Fate::roll(gate, endpoints)).collect();
    let sends = (0..endpoints).map(|endpoint| {
        let travelling = |(place, (tx, fate)): (usize, (&SignedTx, &Option<Fate>))| Travelling {
            place,
            tx: tx.clone(),
            fate: fate.filter(|fate| fate.at.is_none_or(|at| at == endpoint)),
        };
        let mut batch: Vec<Travelling> = txs.iter().zip(&fates).enumerate().map(travelling).collect();
        let shuffled = batch.len() > 1 && gate.faults.rolls(Fault::SendsReordered);
        if shuffled {
            gate.net.roll(|dice| shuffle(&mut batch, dice));
        }
        let (faults, history) = (gate.faults.clone(), gate.history.clone());
        gate.call(endpoint, move |state, now| {
            let mut arrival = Arrival { state, endpoint, now, faults, history };
            if shuffled {
                arrival.struck(Fault::SendsReordered, format!("{} transactions", batch.len()));
            }
            let mut answers: Vec<Answer<B256>> = batch.iter().map(|_| Err(Trouble::Away)).collect();
            for Travelling { place, tx, fate } in batch {
                if let Some(answer) = answers.get_mut(place) {
                    *answer = arrival.take(&tx, fate);
                }
            }
            Ok(answers)
        })
    });
    let answers = join_all(sends).await;
    let families: Vec<Family> =
        gate.world.enter(|state, _| (0..endpoints).map(|endpoint| state.family(endpoint)).collect());
    let of = |place: usize, tx: &SignedTx| {
        let mut tally = Tally::default();
        for (endpoint, (family, answer)) in families.iter().zip(&answers).enumerate() {
            let answer = answer.as_ref().map_err(Clone::clone);
            let answer = answer.and_then(|all| all.get(place).cloned().unwrap_or(Err(Trouble::Away)));
            tally.count(tx, endpoint, *family, answer);
        }
        tally.conclude()
    };
    txs.iter().enumerate().map(|(place, tx)| of(place, tx)).collect()
}

impl Fate {
    fn roll(gate: &Gate, endpoints: usize) -> Option<Fate> {
        let faults = [Fault::SendDropped, Fault::SendDoubled, Fault::SendDelayed, Fault::WrongText, Fault::UnknownText];
        let fault = faults.into_iter().find(|fault| gate.faults.rolls(*fault))?;
        Some(gate.net.roll(|dice| Fate {
            fault,
            at: dice.permille(500).then(|| dice.index(endpoints)),
            late: dice.duration(LATE.0, LATE.1),
            wrong: dice.pick(&WRONG).unwrap_or(Refusal::AlreadyKnown),
        }))
    }
}

fn shuffle(batch: &mut [Travelling], dice: &mut Dice) {
    for at in (1..batch.len()).rev() {
        batch.swap(at, dice.index(at + 1));
    }
}

/// The endpoint that receives a batch.
struct Arrival<'a> {
    state: &'a mut State,
    endpoint: usize,
    now: Duration,
    faults: Faults,
    history: History,
}

impl Arrival<'_> {
    fn take(&mut self, tx: &SignedTx, fate: Option<Fate>) -> Answer<B256> {
        let Some(fate) = fate else { return self.submit(tx) };
        let what = format!("{} at endpoint {}", tx.hash, self.endpoint);
        match fate.fault {
            Fault::SendDropped => {
                self.struck(fate.fault, what);
                Ok(tx.hash)
            }
            Fault::SendDelayed => {
                self.struck(fate.fault, format!("{what}, by {:?}", fate.late));
                self.state.post_late(self.endpoint, &tx.raw, self.now.saturating_add(fate.late));
                Ok(tx.hash)
            }
            Fault::SendDoubled => {
                self.struck(fate.fault, what);
                let _ = self.submit(tx);
                self.submit(tx)
            }
            Fault::WrongText => {
                let true_answer = self.submit(tx);
                self.struck(fate.fault, format!("{what}: {:?} instead of {true_answer:?}", fate.wrong));
                Err(texts::refusal(self.state.family(self.endpoint), fate.wrong))
            }
            _ => {
                let true_answer = self.submit(tx);
                self.struck(fate.fault, format!("{what}, instead of {true_answer:?}"));
                Err(Trouble::said(NONSENSE))
            }
        }
    }

    fn submit(&mut self, tx: &SignedTx) -> Answer<B256> {
        let family = self.state.family(self.endpoint);
        let taken = self.state.submit(Place::Endpoint(self.endpoint), &tx.raw, self.now);
        taken.map_err(|refused| texts::refusal(family, refused))
    }

    fn struck(&self, fault: Fault, what: String) {
        self.faults.count(fault);
        self.history.tell(Moment::Struck { fault, what });
    }
}

/// The answers of all endpoints to one transaction.
#[derive(Debug, Default)]
struct Tally {
    best: Option<Classified>,
    /// The answer of an endpoint that was not reached. It counts only if no other endpoint answered.
    aside: Option<Classified>,
    /// The answers of the endpoints that were reached.
    heard: Vec<EndpointAnswer>,
}

impl Tally {
    fn count(&mut self, tx: &SignedTx, endpoint: usize, family: Family, answer: Answer<B256>) {
        let had_no_part = answer == Err(Trouble::Away);
        let classified = match answer {
            Ok(hash) => Classified::answered(tx.hash, hash),
            Err(trouble) => trouble.classified(family, Method::Send),
        };
        if !had_no_part {
            self.heard.push(classified.heard_from(&name_of(endpoint)));
        }
        let kept = if had_no_part { &mut self.aside } else { &mut self.best };
        if kept.as_ref().is_none_or(|kept| classified.verdict.rank() < kept.verdict.rank()) {
            *kept = Some(classified);
        }
    }

    fn conclude(self) -> SendAnswer {
        let classified = match (self.best, self.aside) {
            // The unreachable endpoint may accept a transaction that the others reject.
            (Some(best), Some(aside)) if best.verdict == Verdict::Rejected => aside,
            (Some(best), _) => best,
            (None, Some(aside)) => aside,
            (None, None) => Trouble::Away.classified(Family::Geth, Method::Send),
        };
        SendAnswer { classified, heard: self.heard }
    }
}
