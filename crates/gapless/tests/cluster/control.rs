//! What races, prices and orders have in common: chance that comes from a seed, blocks at a price, and what must be true of
//! intents that may end in more than one way.

use std::time::Duration;

use gapless_wire::{AttemptKindName, AttemptView, TxStateName, TxView};
use serde_json::{Value, json};

use crate::support::{Chain, Ledger};

/// Between two blocks that a test makes by itself.
const PACE: Duration = Duration::from_millis(100);

/// How the intents of one submitter have ended, as the chain has it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) confirmed: usize,
    /// By a transaction without effect at its nonce.
    pub(crate) canceled: usize,
    pub(crate) canceled_in_queue: usize,
    /// For gas, in wei.
    pub(crate) paid: u128,
}

impl Tally {
    /// - Each intent is CONFIRMED or CANCELED;
    /// - the chain has one transaction at each nonce, from 0 on without a gap, and none that is not an attempt of an intent;
    /// - what it has for a CONFIRMED one carries a payload, and for a CANCELED one it is the cancel;
    /// - what the receipts say was paid is what the views say.
    pub(crate) async fn of(chain: &Chain, ledger: &Ledger) -> Self {
        let mut mined = chain.mined_of(&ledger.address).await;
        let gap = mined.keys().zip(0..).find(|(nonce, place)| *nonce != place);
        assert_eq!(gap, None, "the nonces have a gap");
        let mut tally = Tally::default();
        for tx in ledger.txs.values() {
            let Some(nonce) = tx.nonce else {
                assert_eq!((tx.state, tx.attempts.as_deref()), (TxStateName::Canceled, Some(&[][..])), "{tx:?}");
                tally.canceled_in_queue += 1;
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
                    tally.confirmed += 1;
                }
                (TxStateName::Canceled, AttemptKindName::Cancel) => tally.canceled += 1,
                (state, kind) => panic!("{state} by {kind}: {tx:?}"),
            }
            let paid = paid(chain, hash).await;
            let told = tx.receipt.as_ref().unwrap();
            assert_eq!(
                (told.attempt_kind, told.fee_paid.as_str()),
                (attempt.kind, paid.to_string().as_str()),
                "{tx:?}"
            );
            tally.paid += paid;
        }
        assert!(mined.is_empty(), "the chain has something of nobody's: {mined:?}");
        tally
    }
}

impl std::ops::AddAssign for Tally {
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
    found.unwrap_or_else(|| panic!("no attempt of its own is on chain: {tx:?}"))
}

/// What a transaction's receipt says that it has cost.
async fn paid(chain: &Chain, hash: &str) -> u128 {
    let receipt = chain.call("eth_getTransactionReceipt", json!([hash])).await;
    wei(&receipt["gasUsed"]) * wei(&receipt["effectiveGasPrice"])
}

pub(crate) fn wei(value: &Value) -> u128 {
    u128::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Blocks with this base fee, until something has happened.
pub(crate) async fn blocks_at<T>(chain: &Chain, base_fee: u128, something: impl Future<Output = T>) -> T {
    blocks_every(PACE, chain, base_fee, something).await
}

/// The same at another pace.
pub(crate) async fn blocks_every<T>(
    pace: Duration,
    chain: &Chain,
    base_fee: u128,
    something: impl Future<Output = T>,
) -> T {
    let blocks = async {
        loop {
            block_at(chain, base_fee).await;
            tokio::time::sleep(pace).await;
        }
    };
    tokio::select! {
        never = blocks => never,
        done = something => done,
    }
}

/// One block with this base fee.
pub(crate) async fn block_at(chain: &Chain, base_fee: u128) {
    chain.call("hardhat_setNextBlockBaseFeePerGas", json!([format!("{base_fee:#x}")])).await;
    chain.mine(1).await;
}

/// Figures for whoever reads the output of a test.
#[expect(clippy::print_stderr, reason = "what a run has measured is worth seeing")]
pub(crate) fn tell(figures: &str) {
    eprintln!("{figures}");
}
