//! The bare sender, for comparison: it signs, sends in batches and reads receipts, and stores nothing. A crash loses
//! everything.
//!
//! An engineer writes such a sender in an afternoon, and it is fast: no ledger, no database, no HTTP in front.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use alloy_consensus::{SignableTransaction as _, TxEip1559, TxEnvelope};
use alloy_eips::Encodable2718 as _;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use gapless_chain_evm::LocalSigner;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::LoadError;
use crate::account::Account;
use crate::chain::Endpoint;
use crate::driver::{STEADY, STEADY_MIN};
use crate::order::gas_limit;
use crate::rpc::{Rpc, number};

/// Concurrent batches and calls per batch, as in a Gapless node.
const SENDERS: usize = 4;
const BATCH_ITEMS: usize = 100;
/// Interval between reads of the newest block.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);
const PRIORITY_FEE_WEI: u128 = 1_000_000_000;
/// Factor on the current price. No block becomes dearer during the measurement.
const FEE_FACTOR: u128 = 100;

/// The load of the bare sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BareFlow {
    pub(crate) submitters: u32,
    pub(crate) window: u32,
    pub(crate) intents: u64,
    pub(crate) calldata: usize,
}

#[derive(Debug)]
struct Sender {
    signer: LocalSigner,
    next_nonce: Cell<u64>,
    /// The chain has all nonces below this one. Later batches wait for it, because chain nodes drop nonces that are too
    /// far ahead.
    sent_to: Cell<u64>,
    unmined: Cell<u32>,
}

#[derive(Debug)]
struct Bare {
    flow: BareFlow,
    chain_id: u64,
    max_fee: u128,
    senders: Vec<Sender>,
    left: Cell<u64>,
    turn: Cell<usize>,
    freed: Notify,
    sent: Notify,
}

#[derive(Debug, Deserialize)]
struct Sent {
    result: Option<IgnoredAny>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Receipts {
    #[serde(default)]
    result: Vec<Receipt>,
}

#[derive(Debug, Deserialize)]
struct Receipt {
    from: Address,
    status: String,
}

/// Measures the number of mined transactions per second.
pub(crate) async fn run(chain: &Endpoint, flow: BareFlow) -> Result<f64, LoadError> {
    let bare = Rc::new(Bare::new(chain, flow).await?);
    let mut rpc = chain.connect().await?;
    let head = rpc.call("eth_blockNumber", json!([])).await?;
    let head = number(&head).unwrap_or(0);
    let driven = async {
        let mut tasks = JoinSet::new();
        for _ in 0..SENDERS {
            tasks.spawn_local(Rc::clone(&bare).send(chain.connect().await?));
        }
        let rate = bare.read(rpc, head, &mut tasks).await?;
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|_| LoadError::Stopped)??;
        }
        Ok(rate)
    };
    LocalSet::new().run_until(driven).await
}

/// Sends one transaction per interval for ever, because the null chain makes blocks only for transactions.
pub(crate) async fn tick(chain: &Endpoint, interval: Duration) -> LoadError {
    let flow = BareFlow { submitters: 1, window: 1, intents: 1, calldata: 0 };
    let ticking = async {
        let bare = Bare::new(chain, flow).await?;
        let mut rpc = chain.connect().await?;
        for nonce in 0.. {
            rpc.call("eth_sendRawTransaction", json!([bare.sign(0, nonce)])).await?;
            tokio::time::sleep(interval).await;
        }
        Ok::<_, LoadError>(())
    };
    ticking.await.err().unwrap_or(LoadError::Stopped)
}

impl Bare {
    async fn new(chain: &Endpoint, flow: BareFlow) -> Result<Self, LoadError> {
        let accounts = Account::fresh(flow.submitters)?;
        chain.fund(&accounts).await?;
        let price = chain.connect().await?.call("eth_gasPrice", json!([])).await?;
        let price = number(&price).map_or(PRIORITY_FEE_WEI, u128::from);
        let sender = |account: &Account| {
            let signer = account.signer()?;
            Ok(Sender { signer, next_nonce: Cell::new(0), sent_to: Cell::new(0), unmined: Cell::new(0) })
        };
        Ok(Bare {
            flow,
            chain_id: chain.chain_id,
            max_fee: price * FEE_FACTOR + PRIORITY_FEE_WEI,
            senders: accounts.iter().map(sender).collect::<Result<_, LoadError>>()?,
            left: Cell::new(flow.intents),
            turn: Cell::new(0),
            freed: Notify::new(),
            sent: Notify::new(),
        })
    }

    async fn send(self: Rc<Self>, mut rpc: Rpc) -> Result<(), LoadError> {
        loop {
            let batch = self.take();
            if batch.is_empty() {
                if self.left.get() == 0 {
                    return Ok(());
                }
                self.freed.notified().await;
                continue;
            }
            let mut calls = Vec::with_capacity(batch.len());
            for (id, (sender, nonce)) in batch.iter().enumerate() {
                let raw = self.sign(*sender, *nonce);
                calls.push(format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"eth_sendRawTransaction\",\"params\":[\"{raw}\"]}}"
                ));
            }
            while self.is_early(&batch) {
                self.sent.notified().await;
            }
            let answers: Vec<Sent> = rpc.post("the bare sender", &format!("[{}]", calls.join(","))).await?;
            if let Some(refused) = answers.iter().find(|answer| answer.result.is_none()) {
                let message = refused.error.as_ref().map(Value::to_string).unwrap_or_default();
                return Err(LoadError::Rpc { method: "eth_sendRawTransaction".to_owned(), message });
            }
            for (sender, nonce) in &batch {
                if let Some(sender) = self.senders.get(*sender) {
                    sender.sent_to.set(nonce + 1);
                }
            }
            self.sent.notify_waiters();
        }
    }

    /// True if one of the batch's accounts has earlier transactions on their way.
    fn is_early(&self, batch: &[(usize, u64)]) -> bool {
        let mut previous = None;
        batch.iter().any(|(sender, nonce)| {
            let is_first = previous.replace(*sender) != Some(*sender);
            is_first && self.senders.get(*sender).is_some_and(|sender| sender.sent_to.get() != *nonce)
        })
    }

    /// The next transactions that may be sent, account by account.
    fn take(&self) -> Vec<(usize, u64)> {
        let mut batch = Vec::new();
        let room = BATCH_ITEMS.min(usize::try_from(self.left.get()).unwrap_or(usize::MAX));
        for _ in 0..self.senders.len() {
            let turn = self.turn.get() % self.senders.len();
            let Some(sender) = self.senders.get(turn) else { break };
            while batch.len() < room && sender.unmined.get() < self.flow.window {
                batch.push((turn, sender.next_nonce.get()));
                sender.next_nonce.set(sender.next_nonce.get() + 1);
                sender.unmined.set(sender.unmined.get() + 1);
            }
            self.turn.set(turn + 1);
            if batch.len() == room {
                break;
            }
        }
        self.left.set(self.left.get() - batch.len() as u64);
        batch
    }

    fn sign(&self, sender: usize, nonce: u64) -> String {
        let Some(sender) = self.senders.get(sender) else { return String::new() };
        let tx = TxEip1559 {
            chain_id: self.chain_id,
            nonce,
            gas_limit: gas_limit(self.flow.calldata),
            max_fee_per_gas: self.max_fee,
            max_priority_fee_per_gas: PRIORITY_FEE_WEI,
            to: TxKind::Call(sender.signer.address()),
            value: U256::ZERO,
            input: Bytes::from(vec![0x11; self.flow.calldata]),
            ..TxEip1559::default()
        };
        let signature = sender.signer.sign_hash(tx.signature_hash());
        hex::encode_prefixed(TxEnvelope::from(tx.into_signed(signature)).encoded_2718())
    }

    /// Reads every block's receipts until all transactions are mined.
    async fn read(
        &self,
        mut rpc: Rpc,
        mut head: u64,
        tasks: &mut JoinSet<Result<(), LoadError>>,
    ) -> Result<f64, LoadError> {
        let index: HashMap<Address, &Sender> =
            self.senders.iter().map(|sender| (sender.signer.address(), sender)).collect();
        let share = |part: f64| (self.flow.intents as f64 * part) as u64;
        let begun = (Instant::now(), 0);
        let (mut done, mut progress, mut first, mut last) = (0, Instant::now(), None, None);
        while done < self.flow.intents {
            let newest = number(&rpc.call("eth_blockNumber", json!([])).await?).unwrap_or(head);
            if newest == head {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            while head < newest {
                head += 1;
                let before = done;
                for receipt in receipts(&mut rpc, head).await? {
                    let Some(sender) = index.get(&receipt.from) else { continue };
                    if receipt.status != "0x1" {
                        let message = format!("mined with status {}", receipt.status);
                        return Err(LoadError::Rpc { method: "eth_getBlockReceipts".to_owned(), message });
                    }
                    sender.unmined.set(sender.unmined.get().saturating_sub(1));
                    done += 1;
                }
                if done > before {
                    progress = Instant::now();
                    self.freed.notify_waiters();
                }
            }
            if first.is_none() && done >= share(STEADY.0) {
                first = Some((Instant::now(), done));
            }
            if last.is_none() && done >= share(STEADY.1) {
                last = Some((Instant::now(), done));
            }
            while let Some(ended) = tasks.try_join_next() {
                ended.map_err(|_| LoadError::Stopped)??;
            }
            if progress.elapsed() > PATIENCE {
                let (wanted, seconds) = (self.flow.intents, PATIENCE.as_secs());
                return Err(LoadError::Stalled { done, wanted, seconds, log: "the bare sender has none".to_owned() });
            }
        }
        self.freed.notify_waiters();
        let steady = first.zip(last).filter(|(first, last)| last.0 - first.0 >= STEADY_MIN);
        let (first, last) = steady.unwrap_or((begun, (Instant::now(), done)));
        Ok((last.1 - first.1) as f64 / (last.0 - first.0).as_secs_f64())
    }
}

async fn receipts(rpc: &mut Rpc, block: u64) -> Result<Vec<Receipt>, LoadError> {
    let body =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockReceipts\",\"params\":[\"{block:#x}\"]}}");
    Ok(rpc.post::<Receipts>("eth_getBlockReceipts", &body).await?.result)
}
