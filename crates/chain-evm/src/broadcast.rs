//! Sending transactions to several endpoints, and combining their answers.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{Classified, Reason, SendAnswer, Verdict};
use gapless_domain::{ChainId, EndpointAnswer, SignedTx};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::endpoint::{CallResult, Connectivity, Endpoint, now};
use crate::endpoints::{Endpoints, GRACE, SendTarget, SendTargets, receive, takes_no_transactions, without_verdict};
use crate::rpc::RpcCall;
use crate::{jitter, meter};

#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSettings {
    /// The number of endpoints that a transaction is sent to at once.
    pub(crate) max_endpoints: usize,
    /// The time limit of a whole broadcast, however many requests it needs.
    pub(crate) timeout: Duration,
}

/// The answers of one endpoint. `None` if its check failed, so that nothing was sent.
struct TargetAnswers {
    target: SendTarget,
    answers: Option<Vec<Classified>>,
}

/// The answers so far, by transaction.
struct Tally<'a> {
    chain: &'a ChainId,
    txs: &'a [SignedTx],
    best: Vec<Option<Classified>>,
    /// The answers of endpoints that take no transactions. They are returned only if no other endpoint answers.
    uninvolved: Vec<Option<Classified>>,
    /// The answer of each endpoint, in the order in which they came. An endpoint has at most one.
    by_endpoint: Vec<Vec<EndpointAnswer>>,
    refusals: Vec<(usize, SendTarget, Classified)>,
    unanswered: Vec<SendTarget>,
}

/// Sends transactions to the best endpoints in parallel. Returns when all have answered, or shortly after each
/// transaction was accepted by one endpoint; slower endpoints finish in the background. Transactions without a verdict
/// are then sent to the next best endpoints.
pub(crate) async fn broadcast(
    endpoints: &Endpoints,
    chain: &ChainId,
    txs: &[SignedTx],
    settings: SendSettings,
) -> Vec<SendAnswer> {
    if txs.is_empty() {
        return Vec::new();
    }
    let deadline = now() + settings.timeout;
    let SendTargets { ready, skipped } = endpoints.for_sending(settings.max_endpoints);
    let none = || vec![None; txs.len()];
    let mut tally = Tally {
        chain,
        txs,
        best: none(),
        uninvolved: none(),
        by_endpoint: vec![Vec::new(); txs.len()],
        refusals: Vec::new(),
        unanswered: skipped,
    };
    for targets in ready.chunks(settings.max_endpoints.max(1)) {
        let open = tally.open();
        if open.is_empty() || now() >= deadline {
            break;
        }
        tally.send(endpoints, targets, &open, deadline).await;
    }
    tally.conclude(endpoints)
}

impl Tally<'_> {
    /// The indexes of the transactions without a verdict.
    fn open(&self) -> Vec<usize> {
        let is_open = |best: &Option<Classified>| {
            best.as_ref().is_none_or(|best| {
                matches!(best.verdict, Verdict::Unavailable | Verdict::Unknown | Verdict::RateLimited)
            })
        };
        self.best.iter().enumerate().filter(|(_, best)| is_open(best)).map(|(at, _)| at).collect()
    }

    /// Sends the open transactions to some endpoints.
    async fn send(&mut self, endpoints: &Endpoints, targets: &[SendTarget], open: &[usize], deadline: Instant) {
        let txs: Arc<[SignedTx]> = open.iter().filter_map(|at| self.txs.get(*at).cloned()).collect();
        let (sender, mut answers) = mpsc::channel(targets.len().max(1));
        let mut awaited = Vec::with_capacity(targets.len());
        for target in targets.iter().cloned() {
            self.unanswered.push(target.clone());
            // An endpoint at its limit of broadcasts is not asked.
            let Some(permit) = target.sends.try_acquire() else { continue };
            awaited.push(target.clone());
            let (sender, txs, chain) = (sender.clone(), Arc::clone(&txs), self.chain.clone());
            endpoints.spawn(async move {
                let answers = send(&target.endpoint, &chain, &txs).await;
                target.sends.record(answers.as_deref().unwrap_or_default(), jitter::random());
                drop(permit);
                drop(sender.send(TargetAnswers { target, answers }).await);
            });
        }
        drop(sender);

        let mut until = deadline;
        while let Some(answer) = receive(&mut answers, Some(until)).await {
            awaited.retain(|other| !other.is_same(&answer.target));
            self.note(answer, open);
            let is_taken = |at: &usize| self.best.get(*at).and_then(Option::as_ref).is_some_and(is_taken);
            if open.iter().all(is_taken) {
                until = until.min(now() + GRACE);
            }
        }
        for _ in awaited {
            for at in open {
                self.count(*at, without_verdict(Reason::TimedOut, "an endpoint did not answer in time"));
            }
        }
    }

    fn note(&mut self, TargetAnswers { target, answers }: TargetAnswers, open: &[usize]) {
        let answers = answers.unwrap_or_default();
        if !answers.iter().all(takes_no_transactions) {
            self.unanswered.retain(|other| !other.is_same(&target));
        }
        for (at, answer) in open.iter().zip(answers) {
            if answer.verdict == Verdict::Rejected {
                self.refusals.push((*at, target.clone(), answer.clone()));
            }
            if let Some(by_endpoint) = self.by_endpoint.get_mut(*at) {
                by_endpoint.extend(endpoint_answer(&target, &answer));
            }
            self.count(*at, answer);
        }
    }

    fn count(&mut self, at: usize, answer: Classified) {
        let combined = if takes_no_transactions(&answer) { self.uninvolved.get_mut(at) } else { self.best.get_mut(at) };
        if let Some(combined) = combined {
            *combined = Some(better(combined.take(), answer));
        }
    }

    fn conclude(self, endpoints: &Endpoints) -> Vec<SendAnswer> {
        for (at, target, refusal) in self.refusals {
            let taken = self.best.get(at).and_then(Option::as_ref).is_some_and(is_taken);
            if let Some(tx) = self.txs.get(at).filter(|_| taken) {
                let (name, hash) = (target.endpoint.name(), tx.hash.to_string());
                meter::contradiction(self.chain, name, &hash, refusal.text.as_str());
            }
        }
        let is_any_awaited = self.unanswered.iter().any(SendTarget::may_still_answer);
        let conclude = |(best, uninvolved): (Option<Classified>, Option<Classified>)| match best.or(uninvolved) {
            None => endpoints.no_endpoint(),
            Some(refused) if refused.verdict == Verdict::Rejected && is_any_awaited => not_yet_refused(refused),
            Some(best) => best,
        };
        let classified = self.best.into_iter().zip(self.uninvolved).map(conclude);
        classified.zip(self.by_endpoint).map(|(classified, heard)| SendAnswer { classified, heard }).collect()
    }
}

/// The answer of an endpoint for the record of the send. An endpoint that takes no transactions or was not reached has
/// none. A time-out is recorded, because the endpoint may have the transaction.
fn endpoint_answer(target: &SendTarget, answer: &Classified) -> Option<EndpointAnswer> {
    let is_answer = !takes_no_transactions(answer) && answer.reason != Reason::Unreachable;
    is_answer.then(|| answer.heard_from(target.endpoint.name()))
}

/// A final refusal while another endpoint has not answered. That endpoint may have the transaction, or may take it, so
/// the result is without a verdict and the transaction is sent again.
fn not_yet_refused(refused: Classified) -> Classified {
    without_verdict(Reason::Unreachable, &format!("{} (not every endpoint has answered)", refused.text))
}

/// Sends transactions to one endpoint. `None` if its check failed.
async fn send(endpoint: &Endpoint, chain: &ChainId, txs: &[SignedTx]) -> Option<Vec<Classified>> {
    if endpoint.connectivity() != Connectivity::Up && !endpoint.check().await {
        return None;
    }
    let calls: Vec<RpcCall> = txs.iter().map(|tx| RpcCall::new("eth_sendRawTransaction", json!([tx.raw]))).collect();
    let results = endpoint.ask_in_order(&calls).await;
    let classify = |(tx, result): (&SignedTx, CallResult)| match result {
        Err(classified) => classified,
        Ok(raw) => match serde_json::from_str::<B256>(raw.get()) {
            Err(_) => endpoint.unreadable(raw.get()),
            Ok(hash) => {
                let classified = Classified::answered(tx.hash, hash);
                if classified.reason == Reason::HashMismatch {
                    meter::hash_mismatch(chain, endpoint.name(), &tx.hash.to_string(), &hash.to_string());
                }
                classified
            }
        },
    };
    Some(txs.iter().zip(results).map(classify).collect())
}

fn is_taken(classified: &Classified) -> bool {
    matches!(classified.verdict, Verdict::Accepted | Verdict::AlreadyKnown)
}

fn better(first: Option<Classified>, second: Classified) -> Classified {
    match first {
        Some(first) if first.verdict.rank() <= second.verdict.rank() => first,
        _ => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_chain::Source;
    use gapless_domain::NodeText;
    use std::collections::BTreeSet;

    fn answer(verdict: Verdict) -> Classified {
        let text = NodeText::new(verdict.as_str());
        Classified { verdict, reason: Reason::NoVerdict, source: Source::NoRule, text, revert_data: None }
    }

    fn combined(verdicts: &[Verdict]) -> Verdict {
        verdicts.iter().fold(None, |best, verdict| Some(better(best, answer(*verdict)))).unwrap().verdict
    }

    #[test]
    fn verdict_ranks_are_distinct() {
        let ranks: BTreeSet<u8> = Verdict::ALL.iter().map(|verdict| verdict.rank()).collect();
        assert_eq!(ranks.len(), Verdict::ALL.len());
    }

    #[test]
    fn best_verdict_wins_in_any_order() {
        use Verdict::*;
        for (answers, one) in [
            (&[Rejected, Unavailable, Accepted][..], Accepted),
            (&[Underpriced, AlreadyKnown], AlreadyKnown),
            (&[Rejected, Unavailable], Unavailable),
            (&[NonceTooLow, Unknown, Unavailable], Unknown),
            (&[Rejected, Wait], Wait),
            (&[Rejected, NonceTooLow], NonceTooLow),
            (&[Underpriced, InsufficientFunds], InsufficientFunds),
            (&[PoolFull, RateLimited], RateLimited),
            (&[Rejected, Rejected], Rejected),
        ] {
            assert_eq!(combined(answers), one, "{answers:?}");
            let reversed: Vec<Verdict> = answers.iter().rev().copied().collect();
            assert_eq!(combined(&reversed), one, "{reversed:?}");
        }
    }
}
