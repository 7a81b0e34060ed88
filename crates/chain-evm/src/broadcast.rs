//! One transaction, many endpoints, one answer.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use gapless_chain::{Classified, Reason, SendAnswer, Verdict};
use gapless_domain::{ChainId, EndpointAnswer, SignedTx};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, Standing, now};
use crate::endpoints::{Endpoints, GRACE, Recipient, Recipients, had_no_part, receive, without_verdict};
use crate::meter;
use crate::rpc::Call;

/// To how many, and how long their answers are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendTerms {
    pub(crate) most: usize,
    /// The whole broadcast takes no longer than this, however many requests it needs: everybody waits for it.
    pub(crate) patience: Duration,
}

/// What an endpoint made of the transactions; nothing if it was not asked after all, because it is not well.
struct Report {
    recipient: Recipient,
    answers: Option<Vec<Classified>>,
}

/// What is known of each transaction, and who has not been heard.
struct Tally<'a> {
    chain: &'a ChainId,
    txs: &'a [SignedTx],
    best: Vec<Option<Classified>>,
    /// The answer of one that had no part in it: told if nobody else says anything.
    aside: Vec<Option<Classified>>,
    /// What each endpoint said, in the order in which they answered: one word of each at the most.
    heard: Vec<Vec<EndpointAnswer>>,
    refusals: Vec<(usize, Recipient, Classified)>,
    unheard: Vec<Recipient>,
}

/// Gives `txs` to the best endpoints at once. The answer is there when all have answered, or shortly after the moment when every
/// transaction has been accepted by somebody; the slower ones go on in the background until they have answered. What is
/// without a verdict then is given to the next best ones.
pub(crate) async fn broadcast(
    endpoints: &Endpoints,
    chain: &ChainId,
    txs: &[SignedTx],
    terms: SendTerms,
) -> Vec<SendAnswer> {
    if txs.is_empty() {
        return Vec::new();
    }
    let deadline = now() + terms.patience;
    let Recipients { asked, missed } = endpoints.for_sending(terms.most);
    let none = || vec![None; txs.len()];
    let heard = vec![Vec::new(); txs.len()];
    let mut tally = Tally { chain, txs, best: none(), aside: none(), heard, refusals: Vec::new(), unheard: missed };
    for few in asked.chunks(terms.most.max(1)) {
        let open = tally.open();
        if open.is_empty() || now() >= deadline {
            break;
        }
        tally.ask(endpoints, few, &open, deadline).await;
    }
    tally.conclude(endpoints)
}

impl Tally<'_> {
    /// What nobody has said anything on that counts.
    fn open(&self) -> Vec<usize> {
        let is_open = |best: &Option<Classified>| {
            best.as_ref().is_none_or(|best| {
                matches!(best.verdict, Verdict::Unavailable | Verdict::Unknown | Verdict::RateLimited)
            })
        };
        self.best.iter().enumerate().filter(|(_, best)| is_open(best)).map(|(at, _)| at).collect()
    }

    /// Gives the transactions of these places to these endpoints.
    async fn ask(&mut self, endpoints: &Endpoints, few: &[Recipient], open: &[usize], deadline: Instant) {
        let txs: Arc<[SignedTx]> = open.iter().filter_map(|at| self.txs.get(*at).cloned()).collect();
        let (sender, mut reports) = mpsc::channel(few.len().max(1));
        let mut awaited = Vec::with_capacity(few.len());
        for recipient in few.iter().cloned() {
            self.unheard.push(recipient.clone());
            // One that has too much of ours to do already is not asked.
            let Some(busy) = recipient.sends.place() else { continue };
            awaited.push(recipient.clone());
            let (sender, txs, chain) = (sender.clone(), Arc::clone(&txs), self.chain.clone());
            endpoints.spawn(async move {
                let answers = send(&recipient.endpoint, &chain, &txs).await;
                recipient.sends.note(answers.as_deref().unwrap_or_default());
                drop(busy);
                drop(sender.send(Report { recipient, answers }).await);
            });
        }
        drop(sender);

        let mut until = deadline;
        while let Some(report) = receive(&mut reports, Some(until)).await {
            awaited.retain(|other| !other.is(&report.recipient));
            self.note(report, open);
            let is_taken = |at: &usize| self.best.get(*at).and_then(Option::as_ref).is_some_and(is_taken);
            if open.iter().all(is_taken) {
                until = until.min(now() + GRACE);
            }
        }
        for _ in awaited {
            for at in open {
                self.count(*at, without_verdict(Reason::TimedOut, "an endpoint has not answered in time"));
            }
        }
    }

    fn note(&mut self, Report { recipient, answers }: Report, open: &[usize]) {
        let answers = answers.unwrap_or_default();
        if !answers.iter().all(had_no_part) {
            self.unheard.retain(|other| !other.is(&recipient));
        }
        for (at, answer) in open.iter().zip(answers) {
            if answer.verdict == Verdict::Rejected {
                self.refusals.push((*at, recipient.clone(), answer.clone()));
            }
            if let Some(heard) = self.heard.get_mut(*at) {
                heard.extend(heard_of(&recipient, &answer));
            }
            self.count(*at, answer);
        }
    }

    fn count(&mut self, at: usize, answer: Classified) {
        let kept = if had_no_part(&answer) { self.aside.get_mut(at) } else { self.best.get_mut(at) };
        if let Some(kept) = kept {
            *kept = Some(better(kept.take(), answer));
        }
    }

    fn conclude(self, endpoints: &Endpoints) -> Vec<SendAnswer> {
        for (at, recipient, refusal) in self.refusals {
            let taken = self.best.get(at).and_then(Option::as_ref).is_some_and(is_taken);
            if let Some(tx) = self.txs.get(at).filter(|_| taken) {
                let (name, hash) = (recipient.endpoint.name(), tx.hash.to_string());
                meter::contradiction(self.chain, name, &hash, refusal.text.as_str());
            }
        }
        let all_were_heard = !self.unheard.iter().any(Recipient::may_speak_soon);
        let conclude = |(best, aside): (Option<Classified>, Option<Classified>)| match best.or(aside) {
            None => endpoints.nobody(),
            Some(refused) if refused.verdict == Verdict::Rejected && !all_were_heard => not_yet(refused),
            Some(best) => best,
        };
        let classified = self.best.into_iter().zip(self.aside).map(conclude);
        classified.zip(self.heard).map(|(classified, heard)| SendAnswer { classified, heard }).collect()
    }
}

/// Whoever takes no transactions, or was not reached or not asked, has said nothing on it. One that gave no answer in its time may
/// have the transaction, and that is worth knowing.
fn heard_of(recipient: &Recipient, answer: &Classified) -> Option<EndpointAnswer> {
    let is_heard = !had_no_part(answer) && answer.reason != Reason::Unreachable;
    is_heard.then(|| answer.heard_from(recipient.endpoint.name()))
}

/// A final refusal while somebody is away who may have the transaction, from before or from elsewhere, or may take it: it is
/// not concluded from those who are left. It stays without a verdict, and is sent again.
fn not_yet(refused: Classified) -> Classified {
    without_verdict(Reason::Unreachable, &format!("{} (not every endpoint was heard)", refused.text))
}

/// `None` if the endpoint could not be asked: then it has no part in the answer.
async fn send(endpoint: &Endpoint, chain: &ChainId, txs: &[SignedTx]) -> Option<Vec<Classified>> {
    if endpoint.standing() != Standing::Good && !endpoint.check().await {
        return None;
    }
    let calls: Vec<Call> = txs.iter().map(|tx| Call::new("eth_sendRawTransaction", json!([tx.raw]))).collect();
    let answers = endpoint.ask_in_order(&calls).await;
    let judge = |(tx, answer): (&SignedTx, crate::endpoint::Answer)| match answer {
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
    Some(txs.iter().zip(answers).map(judge).collect())
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
        Classified { verdict, reason: Reason::NoVerdict, source: Source::Nobody, text, revert_data: None }
    }

    fn combined(verdicts: &[Verdict]) -> Verdict {
        verdicts.iter().fold(None, |best, verdict| Some(better(best, answer(*verdict)))).unwrap().verdict
    }

    #[test]
    fn the_order_is_total() {
        let ranks: BTreeSet<u8> = Verdict::ALL.iter().map(|verdict| verdict.rank()).collect();
        assert_eq!(ranks.len(), Verdict::ALL.len());
    }

    #[test]
    fn one_answer_of_many() {
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
