//! The chain as it is when all is over, and blocks that it once had.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::support::Chain;

/// Blocks that are asked for at once.
const AT_ONCE: usize = 16;

/// Plain data, read from the blocks themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// From the first to the head.
    pub(crate) canonical: Vec<Block>,
    /// Those that were seen before they were taken back.
    pub(crate) orphaned: Vec<Block>,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) number: u64,
    pub(crate) hash: String,
    pub(crate) parent: String,
    pub(crate) transactions: Vec<Sent>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) hash: String,
    pub(crate) from: String,
    pub(crate) nonce: u64,
    /// The request that it is for, by its data.
    pub(crate) request_id: String,
}

impl Scan {
    pub(crate) async fn read(chain: &Chain, seen: Vec<Block>) -> Self {
        let head = chain.head().await;
        let blocks = stream::iter(0..=head).map(|number| block(chain, number)).buffered(AT_ONCE);
        let canonical: Vec<Block> = blocks.collect().await;
        let hashes: BTreeSet<&str> = canonical.iter().map(|block| block.hash.as_str()).collect();
        let mut orphaned: BTreeMap<String, Block> = BTreeMap::new();
        for block in seen.into_iter().filter(|block| !hashes.contains(block.hash.as_str())) {
            orphaned.insert(block.hash.clone(), block);
        }
        Scan { orphaned: orphaned.into_values().collect(), canonical }
    }

    /// Of one account, in the order of the chain.
    pub(crate) fn of<'a>(&'a self, address: &'a str) -> impl Iterator<Item = &'a Sent> {
        sent_by(&self.canonical, address)
    }

    pub(crate) fn once_of<'a>(&'a self, address: &'a str) -> impl Iterator<Item = &'a Sent> {
        sent_by(&self.orphaned, address)
    }
}

fn sent_by<'a>(blocks: &'a [Block], address: &'a str) -> impl Iterator<Item = &'a Sent> {
    let sent = blocks.iter().flat_map(|block| &block.transactions);
    sent.filter(move |sent| sent.from.eq_ignore_ascii_case(address))
}

/// The newest blocks, for whoever is about to take some of them back.
pub(crate) async fn newest(chain: &Chain, count: u64) -> Vec<Block> {
    let head = chain.head().await;
    stream::iter(head.saturating_sub(count)..=head).then(|number| block(chain, number)).collect().await
}

async fn block(chain: &Chain, number: u64) -> Block {
    let block = chain.call("eth_getBlockByNumber", json!([format!("{number:#x}"), true])).await;
    let sent = |tx: &Value| Sent {
        hash: text(&tx["hash"]),
        from: text(&tx["from"]),
        nonce: u64::from_str_radix(tx["nonce"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap(),
        request_id: request_of(&tx["input"]),
    };
    let transactions = block["transactions"].as_array().unwrap().iter().map(sent).collect();
    Block { number, hash: text(&block["hash"]), parent: text(&block["parentHash"]), transactions }
}

/// What the data of a transaction say; in hex, if they say nothing.
pub(crate) fn request_of(input: &Value) -> String {
    let input = text(input);
    let digits = input.trim_start_matches("0x").as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let said = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| String::from_utf8(bytes).ok());
    said.unwrap_or(input)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
