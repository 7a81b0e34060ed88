//! What the pools of several endpoints mean together for one nonce.

use gapless_domain::{MempoolSignal, Nonce};

/// What one endpoint shows of one nonce of an account. `None` is what it gave no answer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSight {
    /// Does it know one of our hashes at this nonce, pending or mined?
    pub knows_ours: Option<bool>,
    /// The account's count with what is in its pool.
    pub pending: Option<Nonce>,
}

impl PoolSight {
    /// From its answers for each of our hashes. One that it knows says enough; that it knows none is said only by all of them.
    pub fn new(answers: impl IntoIterator<Item = Option<bool>>, pending: Option<Nonce>) -> Self {
        let mut knows_ours = Some(false);
        for answer in answers {
            match answer {
                Some(true) => return PoolSight { knows_ours: Some(true), pending },
                Some(false) => {}
                None => knows_ours = None,
            }
        }
        PoolSight { knows_ours, pending }
    }
}

/// One signal of many sights: one of everybody who could be asked. Whoever knows one of ours is believed. That ours are gone is said
/// only if each of them has told everything, since the one that is silent may be the one that has it; and of nobody nothing is known.
pub fn mempool_signal(nonce: Nonce, sights: &[PoolSight]) -> MempoolSignal {
    if sights.iter().any(|sight| sight.knows_ours == Some(true)) {
        return MempoolSignal::InMempool;
    }
    let is_whole = |sight: &PoolSight| sight.knows_ours.is_some() && sight.pending.is_some();
    if sights.is_empty() || !sights.iter().all(is_whole) {
        return MempoolSignal::Unknown;
    }
    match sights.iter().any(|sight| sight.pending > Some(nonce)) {
        true => MempoolSignal::LikelyReplaced,
        false => MempoolSignal::LikelyDropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MempoolSignal::{InMempool, LikelyDropped, LikelyReplaced, Unknown};

    fn sight((knows_ours, pending): (Option<bool>, Option<u64>)) -> PoolSight {
        PoolSight { knows_ours, pending: pending.map(|count| Nonce::new(count).unwrap()) }
    }

    /// The nonce is 5: a count of 5 leaves it open, one of 6 has it taken.
    #[test]
    fn one_signal_of_many_sights() {
        let (ours, not_ours, silent) = (Some(true), Some(false), None);
        for (sights, signal) in [
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
            // The silent one may have it, whatever the others say.
            (&[(not_ours, Some(6)), (silent, None)], Unknown),
            (&[(not_ours, Some(5)), (not_ours, None)], Unknown),
        ] {
            let told: Vec<PoolSight> = sights.iter().copied().map(sight).collect();
            assert_eq!(mempool_signal(Nonce::new(5).unwrap(), &told), signal, "{sights:?}");
            let reversed: Vec<PoolSight> = told.into_iter().rev().collect();
            assert_eq!(mempool_signal(Nonce::new(5).unwrap(), &reversed), signal, "{sights:?}");
        }
    }

    #[test]
    fn a_sight_of_several_hashes() {
        for (answers, knows_ours) in [
            (&[][..], Some(false)),
            (&[Some(false), Some(false)], Some(false)),
            (&[Some(false), None], None),
            (&[None, Some(true)], Some(true)),
            (&[Some(true), None], Some(true)),
        ] {
            assert_eq!(PoolSight::new(answers.iter().copied(), None).knows_ours, knows_ours, "{answers:?}");
        }
    }
}
