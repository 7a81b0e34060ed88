//! Broadcasts: transactions on their way to all endpoints, and one answer for each of them (S10).

use std::time::Duration;

use futures_util::future::join_all;
use gapless_chain::{Classified, Reason, SendAnswer, Verdict};
use gapless_domain::{B256, EndpointAnswer, SignedTx};

use super::client::{ChainClient, EndpointResult};
use super::endpoint::name_of;
use super::pool::PoolRefusal;
use super::state::{ChainState, PoolId};
use super::texts::{self, NONSENSE, RequestFailure};
use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};

/// The delay of a delayed send.
const LATE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(40));

/// The refusals that a wrong text may claim. An honest chain node may give each of them for a transaction that is in
/// some pool.
const WRONG: [PoolRefusal; 7] = [
    PoolRefusal::AlreadyKnown,
    PoolRefusal::NonceTooLow { next: 0, nonce: 0 },
    PoolRefusal::ReplacementUnderpriced,
    PoolRefusal::Underpriced,
    PoolRefusal::Full,
    PoolRefusal::InsufficientFunds { balance: 0, cost: 1 },
    PoolRefusal::GasTooLow,
];

/// The fault of one transaction, at all endpoints or at one of them.
#[derive(Clone, Copy, Debug)]
struct SendFault {
    kind: Fault,
    /// The endpoint with the fault; `None` is all of them.
    at: Option<usize>,
    late: Duration,
    wrong: PoolRefusal,
}

/// One transaction on its way to one endpoint: its position in the batch, and its fault.
#[derive(Clone, Debug)]
struct SendItem {
    position: usize,
    tx: SignedTx,
    fault: Option<SendFault>,
}

pub(super) async fn broadcast(client: &ChainClient, txs: &[SignedTx]) -> Vec<SendAnswer> {
    for tx in txs {
        client.history.tell(Moment::Sent { by: client.owner.clone(), tx: tx.clone() });
    }
    let endpoints = client.endpoint_count();
    let faults_of_txs: Vec<Option<SendFault>> = txs.iter().map(|_| SendFault::roll(client, endpoints)).collect();
    let sends = (0..endpoints).map(|endpoint| {
        let send_item = |(position, (tx, fault)): (usize, (&SignedTx, &Option<SendFault>))| SendItem {
            position,
            tx: tx.clone(),
            fault: fault.filter(|fault| fault.at.is_none_or(|at| at == endpoint)),
        };
        let mut batch: Vec<SendItem> = txs.iter().zip(&faults_of_txs).enumerate().map(send_item).collect();
        let shuffled = batch.len() > 1 && client.faults.rolls(Fault::SendsReordered);
        if shuffled {
            client.net.roll(|dice| dice.shuffle(&mut batch));
        }
        let (faults, history) = (client.faults.clone(), client.history.clone());
        client.call(endpoint, move |state, now| {
            let mut arrival = ReceivingEndpoint { state, endpoint, now, faults, history };
            if shuffled {
                arrival.struck(Fault::SendsReordered, format!("{} transactions", batch.len()));
            }
            let mut answers: Vec<EndpointResult<B256>> =
                batch.iter().map(|_| Err(RequestFailure::Unreachable)).collect();
            for SendItem { position, tx, fault } in batch {
                if let Some(answer) = answers.get_mut(position) {
                    *answer = arrival.take(&tx, fault);
                }
            }
            Ok(answers)
        })
    });
    let answers = join_all(sends).await;
    let of = |position: usize, tx: &SignedTx| {
        let mut answers_of_tx = SendAnswers::default();
        for (endpoint, answer) in answers.iter().enumerate() {
            let answer = answer.as_ref().map_err(Clone::clone);
            let answer = answer.and_then(|all| all.get(position).cloned().unwrap_or(Err(RequestFailure::Unreachable)));
            answers_of_tx.count(tx, endpoint, answer);
        }
        answers_of_tx.conclude()
    };
    txs.iter().enumerate().map(|(position, tx)| of(position, tx)).collect()
}

impl SendFault {
    fn roll(client: &ChainClient, endpoints: usize) -> Option<SendFault> {
        let faults = [Fault::SendDropped, Fault::SendDoubled, Fault::SendDelayed, Fault::WrongText, Fault::UnknownText];
        let fault = faults.into_iter().find(|fault| client.faults.rolls(*fault))?;
        Some(client.net.roll(|dice| SendFault {
            kind: fault,
            at: dice.permille(500).then(|| dice.index(endpoints)),
            late: dice.duration(LATE.0, LATE.1),
            wrong: dice.pick(&WRONG).unwrap_or(PoolRefusal::AlreadyKnown),
        }))
    }
}

/// The endpoint that receives a batch.
struct ReceivingEndpoint<'a> {
    state: &'a mut ChainState,
    endpoint: usize,
    now: Duration,
    faults: Faults,
    history: History,
}

impl ReceivingEndpoint<'_> {
    fn take(&mut self, tx: &SignedTx, fault: Option<SendFault>) -> EndpointResult<B256> {
        let Some(fault) = fault else { return self.submit(tx) };
        let what = format!("{} at endpoint {}", tx.hash, self.endpoint);
        match fault.kind {
            Fault::SendDropped => {
                self.struck(fault.kind, what);
                Ok(tx.hash)
            }
            Fault::SendDelayed => {
                self.struck(fault.kind, format!("{what}, by {:?}", fault.late));
                self.state.post_late(self.endpoint, &tx.raw, self.now.saturating_add(fault.late));
                Ok(tx.hash)
            }
            Fault::SendDoubled => {
                self.struck(fault.kind, what);
                let _ = self.submit(tx);
                self.submit(tx)
            }
            Fault::WrongText => {
                let true_answer = self.submit(tx);
                self.struck(fault.kind, format!("{what}: {:?} instead of {true_answer:?}", fault.wrong));
                Err(texts::refusal(self.state.family(self.endpoint), fault.wrong))
            }
            _ => {
                let true_answer = self.submit(tx);
                self.struck(fault.kind, format!("{what}, instead of {true_answer:?}"));
                Err(RequestFailure::answered(Reason::Unrecognized, NONSENSE))
            }
        }
    }

    fn submit(&mut self, tx: &SignedTx) -> EndpointResult<B256> {
        let family = self.state.family(self.endpoint);
        let taken = self.state.submit(PoolId::Endpoint(self.endpoint), &tx.raw, self.now);
        taken.map_err(|refused| texts::refusal(family, refused))
    }

    fn struck(&self, fault: Fault, what: String) {
        self.faults.count(fault);
        self.history.tell(Moment::Struck { fault, what });
    }
}

/// The answers of all endpoints to one transaction.
#[derive(Debug, Default)]
struct SendAnswers {
    best: Option<Classified>,
    /// The answer of an endpoint that was not reached. It counts only if no other endpoint answered.
    unreached: Option<Classified>,
    /// The answers of the endpoints that were reached.
    heard: Vec<EndpointAnswer>,
}

impl SendAnswers {
    fn count(&mut self, tx: &SignedTx, endpoint: usize, answer: EndpointResult<B256>) {
        let is_unreachable = answer == Err(RequestFailure::Unreachable);
        let classified = match answer {
            Ok(hash) => Classified::answered(tx.hash, hash),
            Err(failure) => failure.classified(),
        };
        if !is_unreachable {
            self.heard.push(classified.heard_from(&name_of(endpoint)));
        }
        let kept = if is_unreachable { &mut self.unreached } else { &mut self.best };
        if kept.as_ref().is_none_or(|kept| classified.verdict.rank() < kept.verdict.rank()) {
            *kept = Some(classified);
        }
    }

    fn conclude(self) -> SendAnswer {
        let classified = match (self.best, self.unreached) {
            // The unreachable endpoint may accept a transaction that the others reject.
            (Some(best), Some(unreached)) if best.verdict == Verdict::Rejected => unreached,
            (Some(best), _) => best,
            (None, Some(unreached)) => unreached,
            (None, None) => RequestFailure::Unreachable.classified(),
        };
        SendAnswer { classified, heard: self.heard }
    }
}
