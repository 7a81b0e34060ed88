//! The final check of a submitter: every accepted intent took effect on chain exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures_util::{StreamExt as _, stream};
use gapless_wire::{AttemptKindName, Client, ListQuery, PageQuery, TxExpand, TxQuery, TxStateName, TxView};

use super::{AcceptedRequest, TestChain, eventually};

/// Waits until a submitter has no queued and no open intents.
pub(crate) async fn wait_until_done(client: &Client, submitter: &str) {
    eventually("no intent is queued or open", async || {
        let view = client.submitter(submitter, &[]).await.ok()?;
        assert_eq!(view.protect, None, "{submitter} is in PROTECT");
        (view.queued == 0 && view.open == 0).then_some(())
    })
    .await;
}

/// All intents of a submitter by request id, as the API shows them.
#[derive(Debug)]
pub(crate) struct SubmitterLedger {
    pub(crate) address: String,
    pub(crate) txs: BTreeMap<String, TxView>,
}

impl SubmitterLedger {
    pub(crate) async fn read(client: &Client, submitter: &str) -> Self {
        let view = client.submitter(submitter, &[]).await.unwrap();
        let (_, address) = view.submitter.rsplit_once(':').unwrap();
        let (mut ids, mut cursor) = (Vec::new(), None);
        loop {
            let page = PageQuery { limit: Some(200), cursor };
            let query = ListQuery { submitter: Some(submitter.to_owned()), state: None, page };
            let page = client.list_tx(&query).await.unwrap();
            ids.extend(page.items.into_iter().map(|tx| tx.tx_id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let query = &TxQuery { expand: vec![TxExpand::Attempts], ..TxQuery::default() };
        let read = stream::iter(ids).map(|id| async move { client.tx(&id, query).await.unwrap() });
        let txs: Vec<TxView> = read.buffer_unordered(32).collect().await;
        let count = txs.len();
        let txs: BTreeMap<String, TxView> = txs.into_iter().map(|tx| (tx.request_id.clone(), tx)).collect();
        assert_eq!(txs.len(), count, "a request id has two rows");
        SubmitterLedger { address: address.to_owned(), txs }
    }

    /// Asserts that
    ///
    /// - there is an intent for every accepted request and no other, with the id that the caller got;
    /// - each intent is CONFIRMED with one attempt, so no intent was signed twice;
    /// - the nonces are 0, 1, 2, … without a gap;
    /// - the chain has exactly one transaction for each nonce, and it is that attempt.
    pub(crate) async fn assert_exactly_once(&self, chain: &TestChain, accepted: &[AcceptedRequest]) {
        let wanted: BTreeMap<&str, &str> = accepted.iter().map(|a| (a.request_id.as_str(), a.tx_id.as_str())).collect();
        let found: BTreeMap<&str, &str> = self.txs.iter().map(|(id, tx)| (id.as_str(), tx.tx_id.as_str())).collect();
        assert_same("the ledger differs from the answers of the callers", &found, &wanted);
        let mut bound = BTreeMap::new();
        for tx in self.txs.values() {
            assert_eq!(tx.state, TxStateName::Confirmed, "{tx:?}");
            let attempts = tx.attempts.as_deref().unwrap();
            let [attempt] = attempts else { panic!("{} attempts of {}", attempts.len(), tx.request_id) };
            assert_eq!(attempt.kind, AttemptKindName::Original);
            assert_eq!(Some(&attempt.hash), tx.hash.as_ref());
            assert_eq!(Some(attempt.nonce), tx.nonce);
            let before = bound.insert(attempt.nonce, vec![attempt.hash.clone()]);
            assert_eq!(before, None, "nonce {} is bound twice", attempt.nonce);
        }
        let nonces: Vec<u64> = bound.keys().copied().collect();
        let gap = nonces.iter().zip(0..).find(|(nonce, expected)| **nonce != *expected);
        assert_eq!(gap, None, "the nonces have a gap");
        assert_same("the chain differs from the ledger", &chain.mined_of(&self.address).await, &bound);
    }

    /// Asserts, for an account with foreign transactions, that
    ///
    /// - every accepted request is CONFIRMED by the transaction that the chain has at its nonce;
    /// - the nonces on chain are 0, 1, 2, … without a gap, each consumed by one transaction.
    ///
    /// Returns the other transactions on chain by nonce.
    pub(crate) async fn assert_confirmed_among_others(
        &self,
        chain: &TestChain,
        accepted: &[AcceptedRequest],
    ) -> BTreeMap<u64, String> {
        let mut others = BTreeMap::new();
        for ((nonce, mut hashes), expected) in chain.mined_of(&self.address).await.into_iter().zip(0..) {
            assert_eq!(nonce, expected, "the nonces have a gap");
            assert_eq!(hashes.len(), 1, "nonce {nonce} was used twice");
            others.extend(hashes.pop().map(|hash| (nonce, hash)));
        }
        for accepted in accepted {
            let tx = &self.txs[&accepted.request_id];
            assert_eq!((tx.tx_id.as_str(), tx.state), (accepted.tx_id.as_str(), TxStateName::Confirmed), "{tx:?}");
            assert_eq!(others.remove(&tx.nonce.unwrap()), tx.hash, "the chain has another transaction than {tx:?}");
        }
        others
    }

    /// Asserts that a request that was answered before another request was sent has the lower nonce.
    pub(crate) fn assert_in_order_of_acceptance(&self, accepted: &[AcceptedRequest]) {
        let nonce = |accepted: &AcceptedRequest| self.txs[&accepted.request_id].nonce.unwrap();
        let mut by_answer: Vec<&AcceptedRequest> = accepted.iter().collect();
        by_answer.sort_by_key(|accepted| accepted.answered);
        let mut by_request = by_answer.clone();
        by_request.sort_by_key(|accepted| accepted.asked);
        let mut answered = by_answer.into_iter().peekable();
        let (mut highest, mut pairs) = (None, BTreeSet::new());
        for later in by_request {
            while let Some(earlier) = answered.next_if(|earlier| earlier.answered < later.asked) {
                highest = highest.max(Some(nonce(earlier)));
            }
            if let Some(highest) = highest {
                assert!(nonce(later) > highest, "{} was accepted later and has a lower nonce", later.request_id);
                pairs.insert(nonce(later));
            }
        }
        assert!(!pairs.is_empty(), "no request was sent after another was answered, so the test proves nothing");
    }
}

/// Asserts that two maps are equal, and shows only the first differences, because there may be thousands.
fn assert_same<K: Ord + Debug, V: PartialEq + Debug>(what: &str, found: &BTreeMap<K, V>, wanted: &BTreeMap<K, V>) {
    const SHOWN: usize = 20;
    let keys: BTreeSet<&K> = found.keys().chain(wanted.keys()).collect();
    let differ: Vec<_> = keys.into_iter().filter(|key| found.get(key) != wanted.get(key)).collect();
    let shown: Vec<_> = differ.iter().take(SHOWN).map(|key| (key, found.get(key), wanted.get(key))).collect();
    assert!(differ.is_empty(), "{what} at {} keys; key, found, wanted: {shown:#?}", differ.len());
}
