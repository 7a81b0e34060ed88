//! One signal for a nonce from the mempools of several endpoints.

use gapless_domain::{MempoolSignal, Nonce};

/// The mempool of one endpoint, for one nonce of an account. `None` is a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// The endpoint knows one of our hashes at this nonce, pending or mined.
    pub knows_ours: Option<bool>,
    /// The transaction count of the account including the mempool.
    pub pending: Option<Nonce>,
}

impl PoolView {
    /// A view from the answers for each of our hashes. One known hash is enough. "None known" needs an answer for all
    /// of them.
    pub fn new(answers: impl IntoIterator<Item = Option<bool>>, pending: Option<Nonce>) -> Self {
        let mut knows_ours = Some(false);
        for answer in answers {
            match answer {
                Some(true) => return PoolView { knows_ours: Some(true), pending },
                Some(false) => {}
                None => knows_ours = None,
            }
        }
        PoolView { knows_ours, pending }
    }
}

/// Combines the views of all endpoints that could be asked. One endpoint that knows one of our hashes decides. "Gone"
/// needs complete answers of all endpoints, because a silent one may have the transaction. Without endpoints the signal
/// is `Unknown`.
pub fn mempool_signal(nonce: Nonce, views: &[PoolView]) -> MempoolSignal {
    if views.iter().any(|view| view.knows_ours == Some(true)) {
        return MempoolSignal::InMempool;
    }
    let is_whole = |view: &PoolView| view.knows_ours.is_some() && view.pending.is_some();
    if views.is_empty() || !views.iter().all(is_whole) {
        return MempoolSignal::Unknown;
    }
    match views.iter().any(|view| view.pending > Some(nonce)) {
        true => MempoolSignal::LikelyReplaced,
        false => MempoolSignal::LikelyDropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MempoolSignal::{InMempool, LikelyDropped, LikelyReplaced, Unknown};

    fn view((knows_ours, pending): (Option<bool>, Option<u64>)) -> PoolView {
        PoolView { knows_ours, pending: pending.map(|count| Nonce::new(count).unwrap()) }
    }

    /// The nonce is 5: with a count of 5 it is open, with 6 it is used.
    #[test]
    fn views_are_combined_to_one_signal() {
        let (ours, not_ours, silent) = (Some(true), Some(false), None);
        for (views, signal) in [
            (&[][..], Unknown),
            (&[(ours, Some(6))], InMempool),
            (&[(ours, Some(5))], InMempool),
            (&[(ours, None)], InMempool),
            (&[(not_ours, Some(6)), (ours, Some(6))], InMempool),
            (&[(silent, None), (ours, Some(6))], InMempool),
            (&[(not_ours, Some(5))], LikelyDropped),
            (&[(not_ours, Some(0))], LikelyDropped),
            (&[(not_ours, Some(5)), (not_ours, Some(4))], LikelyDropped),
            (&[(not_ours, Some(6))], LikelyReplaced),
            (&[(not_ours, Some(5)), (not_ours, Some(9))], LikelyReplaced),
            (&[(silent, None)], Unknown),
            (&[(not_ours, None)], Unknown),
            (&[(silent, Some(5))], Unknown),
            // A silent endpoint may have the transaction.
            (&[(not_ours, Some(6)), (silent, None)], Unknown),
            (&[(not_ours, Some(5)), (not_ours, None)], Unknown),
        ] {
            let given: Vec<PoolView> = views.iter().copied().map(view).collect();
            assert_eq!(mempool_signal(Nonce::new(5).unwrap(), &given), signal, "{views:?}");
            let reversed: Vec<PoolView> = given.into_iter().rev().collect();
            assert_eq!(mempool_signal(Nonce::new(5).unwrap(), &reversed), signal, "{views:?}");
        }
    }

    #[test]
    fn view_combines_the_answers_for_several_hashes() {
        for (answers, knows_ours) in [
            (&[][..], Some(false)),
            (&[Some(false), Some(false)], Some(false)),
            (&[Some(false), None], None),
            (&[None, Some(true)], Some(true)),
            (&[Some(true), None], Some(true)),
        ] {
            assert_eq!(PoolView::new(answers.iter().copied(), None).knows_ours, knows_ours, "{answers:?}");
        }
    }
}
