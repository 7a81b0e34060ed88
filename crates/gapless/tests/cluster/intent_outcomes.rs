//! Shared helpers: blocks with a base fee, and the final check of intents that may end confirmed or canceled.

use std::time::Duration;

use gapless_wire::{AttemptKindName, AttemptView, TxStateName, TxView};
use serde_json::{Value, json};

use crate::support::{SubmitterLedger, TestChain, repeat_while};

/// The time between two blocks that a test mines.
const PACE: Duration = Duration::from_millis(100);

/// The number of confirmed and canceled intents of one submitter, as ledger and chain have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IntentOutcomes {
    pub(crate) confirmed: usize,
    /// Intents that were canceled by a filler at their nonce.
    pub(crate) canceled: usize,
    pub(crate) canceled_in_queue: usize,
    /// Gas cost in wei.
    pub(crate) paid: u128,
}

impl IntentOutcomes {
    /// Counts the intents, and asserts that
    ///
    /// - each intent is CONFIRMED or CANCELED;
    /// - the chain has one transaction at each nonce, from 0 without a gap, and only attempts of intents;
    /// - a CONFIRMED intent was mined with a payload, and a CANCELED intent by its cancel;
    /// - the fees of the views are the fees of the receipts.
    pub(crate) async fn of(chain: &TestChain, ledger: &SubmitterLedger) -> Self {
        let mut mined = chain.mined_of(&ledger.address).await;
        let gap = mined.keys().zip(0..).find(|(nonce, expected)| *nonce != expected);
        assert_eq!(gap, None, "the nonces have a gap");
        let mut outcomes = IntentOutcomes::default();
        for tx in ledger.txs.values() {
            let Some(nonce) = tx.nonce else {
                assert_eq!((tx.state, tx.attempts.as_deref()), (TxStateName::Canceled, Some(&[][..])), "{tx:?}");
                outcomes.canceled_in_queue += 1;
                continue;
            };
            let hash = tx.hash.as_ref().unwrap();
            assert_eq!(mined.remove(&nonce).as_deref(), Some(&[hash.clone()][..]), "at nonce {nonce}: {tx:?}");
            let attempt = mined_attempt(tx);
            match (tx.state, attempt.kind) {
                (
                    TxStateName::Confirmed,
                    AttemptKindName::Original | AttemptKindName::Bump | AttemptKindName::Replace,
                ) => {
                    outcomes.confirmed += 1;
                }
                (TxStateName::Canceled, AttemptKindName::Cancel) => outcomes.canceled += 1,
                (state, kind) => panic!("{state} by {kind}: {tx:?}"),
            }
            let paid = paid(chain, hash).await;
            let receipt = tx.receipt.as_ref().unwrap();
            assert_eq!(
                (receipt.attempt_kind, receipt.fee_paid.as_str()),
                (attempt.kind, paid.to_string().as_str()),
                "{tx:?}"
            );
            outcomes.paid += paid;
        }
        assert!(mined.is_empty(), "the chain has transactions that are no attempts: {mined:?}");
        outcomes
    }
}

impl std::ops::AddAssign for IntentOutcomes {
    fn add_assign(&mut self, other: Self) {
        self.confirmed += other.confirmed;
        self.canceled += other.canceled;
        self.canceled_in_queue += other.canceled_in_queue;
        self.paid += other.paid;
    }
}

/// The attempt that is on chain.
pub(crate) fn mined_attempt(tx: &TxView) -> &AttemptView {
    let attempts = tx.attempts.as_deref().unwrap();
    let found = attempts.iter().find(|attempt| Some(&attempt.hash) == tx.hash.as_ref());
    found.unwrap_or_else(|| panic!("the chain has no attempt of the intent: {tx:?}"))
}

/// The fee of a transaction by its receipt.
async fn paid(chain: &TestChain, hash: &str) -> u128 {
    let receipt = chain.call("eth_getTransactionReceipt", json!([hash])).await;
    wei(&receipt["gasUsed"]) * wei(&receipt["effectiveGasPrice"])
}

pub(crate) fn wei(value: &Value) -> u128 {
    u128::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Mines blocks with this base fee until a future ends.
pub(crate) async fn blocks_at<T>(chain: &TestChain, base_fee: u128, until: impl Future<Output = T>) -> T {
    blocks_every(PACE, chain, base_fee, until).await
}

/// Mines blocks with this base fee at an interval until a future ends.
pub(crate) async fn blocks_every<T>(
    pace: Duration,
    chain: &TestChain,
    base_fee: u128,
    until: impl Future<Output = T>,
) -> T {
    repeat_while(until, async || {
        block_at(chain, base_fee).await;
        tokio::time::sleep(pace).await;
    })
    .await
}

/// Mines one block with this base fee.
pub(crate) async fn block_at(chain: &TestChain, base_fee: u128) {
    chain.call("hardhat_setNextBlockBaseFeePerGas", json!([format!("{base_fee:#x}")])).await;
    chain.mine(1).await;
}

/// Prints the figures of a test run.
#[expect(clippy::print_stderr, reason = "the figures are part of the test output")]
pub(crate) fn print_figures(figures: &str) {
    eprintln!("{figures}");
}
