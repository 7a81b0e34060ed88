//! The chain at the end of a run, and its orphaned blocks.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::support::TestChain;

/// Blocks that are read at the same time.
const AT_ONCE: usize = 16;

/// Plain data of all blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainScan {
    /// The canonical blocks from the first to the head.
    pub(crate) canonical: Vec<ScannedBlock>,
    /// The blocks that were read before a reorg dropped them.
    pub(crate) orphaned: Vec<ScannedBlock>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScannedBlock {
    pub(crate) number: u64,
    pub(crate) hash: String,
    pub(crate) parent: String,
    pub(crate) transactions: Vec<ScannedTx>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScannedTx {
    pub(crate) hash: String,
    pub(crate) from: String,
    pub(crate) nonce: u64,
    /// The request id in the transaction's data.
    pub(crate) request_id: String,
}

impl ChainScan {
    pub(crate) async fn read(chain: &TestChain, replaced_blocks: Vec<ScannedBlock>) -> Self {
        let head = chain.head().await;
        let blocks = stream::iter(0..=head).map(|number| block(chain, number)).buffered(AT_ONCE);
        let canonical: Vec<ScannedBlock> = blocks.collect().await;
        let hashes: BTreeSet<&str> = canonical.iter().map(|block| block.hash.as_str()).collect();
        let mut orphaned: BTreeMap<String, ScannedBlock> = BTreeMap::new();
        for block in replaced_blocks.into_iter().filter(|block| !hashes.contains(block.hash.as_str())) {
            orphaned.insert(block.hash.clone(), block);
        }
        ChainScan { orphaned: orphaned.into_values().collect(), canonical }
    }

    /// The canonical transactions of an account, in order.
    pub(crate) fn of<'a>(&'a self, address: &'a str) -> impl Iterator<Item = &'a ScannedTx> {
        sent_by(&self.canonical, address)
    }

    pub(crate) fn orphaned_of<'a>(&'a self, address: &'a str) -> impl Iterator<Item = &'a ScannedTx> {
        sent_by(&self.orphaned, address)
    }
}

fn sent_by<'a>(blocks: &'a [ScannedBlock], address: &'a str) -> impl Iterator<Item = &'a ScannedTx> {
    let sent = blocks.iter().flat_map(|block| &block.transactions);
    sent.filter(move |sent| sent.from.eq_ignore_ascii_case(address))
}

/// The newest blocks, which are read before a reorg.
pub(crate) async fn newest(chain: &TestChain, count: u64) -> Vec<ScannedBlock> {
    let head = chain.head().await;
    stream::iter(head.saturating_sub(count)..=head).then(|number| block(chain, number)).collect().await
}

async fn block(chain: &TestChain, number: u64) -> ScannedBlock {
    let block = chain.call("eth_getBlockByNumber", json!([format!("{number:#x}"), true])).await;
    let sent = |tx: &Value| ScannedTx {
        hash: text(&tx["hash"]),
        from: text(&tx["from"]),
        nonce: u64::from_str_radix(tx["nonce"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap(),
        request_id: request_of(&tx["input"]),
    };
    let transactions = block["transactions"].as_array().unwrap().iter().map(sent).collect();
    ScannedBlock { number, hash: text(&block["hash"]), parent: text(&block["parentHash"]), transactions }
}

/// The request id in the data of a transaction, or the data in hex if it is no text.
pub(crate) fn request_of(input: &Value) -> String {
    let input = text(input);
    let digits = input.trim_start_matches("0x").as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let text = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or(input)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
