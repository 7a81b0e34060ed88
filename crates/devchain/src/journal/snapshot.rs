//! Encoding of the whole chain as one file, in the record format of the journal.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, Log, LogData, U256, logs_bloom};
use alloy_rlp::{Decodable, Encodable, Error, RlpDecodable, RlpEncodable};

use super::codec::{self, get, get_list, put};
use super::frame;
use crate::block::{Block, Receipt};
use crate::core::{Core, DelayedSend, SentTx, SnapshotContent, finish};
use crate::error::ChainError;
use crate::state::{Account, State, Versions};
use crate::tx::Tx;

const CHAIN: u8 = 1;
const BLOCK: u8 = 2;
const ACCOUNT: u8 = 3;
const SLOT: u8 = 4;
const CODE: u8 = 5;
const POOLED: u8 = 6;
const DELAYED: u8 = 7;
/// The last record. A snapshot without it is incomplete.
const END: u8 = 8;

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct ChainRecord {
    oldest: u64,
    newest: u64,
    root: B256,
    branch: u64,
    gas_limit: u64,
    coinbase: Address,
}

/// A version of an account, written by `block`. The other fields of a deleted account are empty.
#[derive(Debug, RlpEncodable, RlpDecodable)]
struct AccountRecord {
    block: u64,
    is_there: bool,
    balance: U256,
    nonce: u64,
    code_hash: B256,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct SlotRecord {
    block: u64,
    value: U256,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct ReceiptRecord {
    success: bool,
    gas_used: u64,
    effective_gas_price: u128,
    logs: Vec<LogRecord>,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct LogRecord {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
}

pub(super) fn encode(core: &Core, identity: B256) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push(&mut out, &codec::encode_header(identity));
    let mut payload = Vec::new();
    let mut record = |kind: u8, fields: &[&dyn Encodable]| {
        payload.clear();
        put(&mut payload, kind, fields);
        frame::push(&mut out, &payload);
    };
    let chain = ChainRecord {
        oldest: core.oldest(),
        newest: core.head().number(),
        root: core.root(),
        branch: core.branch(),
        gas_limit: core.gas_limit(),
        coinbase: core.coinbase(),
    };
    record(CHAIN, &[&chain]);
    for block in core.blocks() {
        let txs: Vec<SentTx> = block.txs.iter().map(|tx| sent(tx)).collect();
        let receipts: Vec<ReceiptRecord> = block.receipts.iter().map(receipt_record).collect();
        record(BLOCK, &[&block.header, &txs, &receipts]);
    }
    for (address, versions) in core.state().accounts() {
        let versions: Vec<AccountRecord> =
            versions.iter().map(|(block, account)| account_record(*block, *account)).collect();
        record(ACCOUNT, &[address, &versions]);
    }
    for ((address, slot), versions) in core.state().slots() {
        let versions: Vec<SlotRecord> =
            versions.iter().map(|(block, value)| SlotRecord { block: *block, value: *value }).collect();
        record(SLOT, &[address, slot, &versions]);
    }
    for (_, code) in core.state().codes() {
        record(CODE, &[code]);
    }
    for tx in core.pool_by_arrival() {
        record(POOLED, &[&sent(&tx)]);
    }
    for delayed in core.delayed() {
        record(DELAYED, &[&delayed.until, &sent(&delayed.tx)]);
    }
    record(END, &[]);
    out
}

pub(super) fn decode(name: &str, bytes: &[u8], identity: B256) -> Result<SnapshotContent, ChainError> {
    let mut frames = frame::Frames::of(name, bytes);
    let cut = |frames: &frame::Frames<'_>| frames.damaged("the file ends too early".to_owned());
    let header = frames.next()?.ok_or_else(|| cut(&frames))?;
    codec::check_header(header, identity)?;
    let first = frames.next()?.ok_or_else(|| cut(&frames))?;
    let mut restored = begin(first).map_err(|error| frames.damaged(error.to_string()))?;
    loop {
        let payload = frames.next()?.ok_or_else(|| cut(&frames))?;
        if payload == [END] {
            break;
        }
        restore(&mut restored, payload).map_err(|error| frames.damaged(error.to_string()))?;
    }
    if restored.blocks.is_empty() {
        return Err(frames.damaged("the snapshot has no blocks".to_owned()));
    }
    Ok(restored)
}

fn begin(payload: &[u8]) -> Result<SnapshotContent, Error> {
    let Some((&CHAIN, mut rest)) = payload.split_first() else {
        return Err(Error::Custom("the first record is not the chain record"));
    };
    let chain: ChainRecord = get(&mut rest)?;
    Ok(SnapshotContent {
        state: State::restore(chain.oldest, chain.newest),
        blocks: Vec::new(),
        pool: Vec::new(),
        delayed: Vec::new(),
        root: chain.root,
        branch: chain.branch,
        gas_limit: chain.gas_limit,
        coinbase: chain.coinbase,
    })
}

fn restore(restored: &mut SnapshotContent, payload: &[u8]) -> Result<(), Error> {
    let Some((kind, mut rest)) = payload.split_first() else { return Err(Error::InputTooShort) };
    let rest = &mut rest;
    match *kind {
        BLOCK => restored.blocks.push(Arc::new(block(rest)?)),
        ACCOUNT => {
            let address = get(rest)?;
            let versions = each(rest, |record: AccountRecord| (record.block, account(&record)))?;
            restored.state.restore_account(address, versions);
        }
        SLOT => {
            let slot = (get(rest)?, get(rest)?);
            let versions = each(rest, |record: SlotRecord| (record.block, record.value))?;
            restored.state.restore_slot(slot, versions);
        }
        CODE => restored.state.restore_code(get(rest)?),
        POOLED => restored.pool.push(tx(&get(rest)?)?),
        DELAYED => restored.delayed.push(DelayedSend { until: get(rest)?, tx: tx(&get(rest)?)? }),
        _ => return Err(Error::Custom("unknown kind of record")),
    }
    if rest.is_empty() { Ok(()) } else { Err(Error::UnexpectedLength) }
}

fn block(rest: &mut &[u8]) -> Result<Block, Error> {
    let header: Header = get(rest)?;
    let txs: Vec<SentTx> = get(rest)?;
    let receipts: Vec<ReceiptRecord> = get(rest)?;
    if txs.len() != receipts.len() {
        return Err(Error::Custom("a block whose receipts do not match its transactions"));
    }
    let txs = txs.iter().map(tx).collect::<Result<Vec<_>, _>>()?;
    let (mut cumulative_gas_used, mut first_log_index) = (0, 0);
    let mut restored = Vec::with_capacity(receipts.len());
    for (tx, record) in txs.iter().zip(receipts) {
        cumulative_gas_used += record.gas_used;
        let logs: Vec<Log> = record
            .logs
            .into_iter()
            .map(|log| Log { address: log.address, data: LogData::new_unchecked(log.topics, log.data) })
            .collect();
        let logged = logs.len() as u64;
        restored.push(Receipt {
            success: record.success,
            gas_used: record.gas_used,
            cumulative_gas_used,
            effective_gas_price: record.effective_gas_price,
            contract_address: tx.created_contract(),
            bloom: logs_bloom(&logs),
            first_log_index,
            logs,
        });
        first_log_index += logged;
    }
    Ok(finish(header, txs, restored))
}

fn each<R: Decodable, T>(rest: &mut &[u8], of: impl Fn(R) -> (u64, T)) -> Result<Versions<T>, Error> {
    let mut list = get_list(rest)?;
    let mut versions = Versions::new();
    while !list.is_empty() {
        versions.push_back(of(get(&mut list)?));
    }
    Ok(versions)
}

fn sent(tx: &Tx) -> SentTx {
    SentTx { from: tx.from, raw: tx.raw.clone() }
}

fn tx(sent: &SentTx) -> Result<Arc<Tx>, Error> {
    let tx =
        Tx::decode_known(&sent.raw, sent.from).map_err(|_| Error::Custom("a transaction that cannot be decoded"))?;
    Ok(Arc::new(tx))
}

fn account_record(block: u64, account: Option<Account>) -> AccountRecord {
    let Account { balance, nonce, code_hash } = account.unwrap_or_default();
    AccountRecord { block, is_there: account.is_some(), balance, nonce, code_hash }
}

fn account(record: &AccountRecord) -> Option<Account> {
    let account = Account { balance: record.balance, nonce: record.nonce, code_hash: record.code_hash };
    record.is_there.then_some(account)
}

fn receipt_record(receipt: &Receipt) -> ReceiptRecord {
    let logs = receipt.logs.iter().map(|log| LogRecord {
        address: log.address,
        topics: log.topics().to_vec(),
        data: log.data.data.clone(),
    });
    ReceiptRecord {
        success: receipt.success,
        gas_used: receipt.gas_used,
        effective_gas_price: receipt.effective_gas_price,
        logs: logs.collect(),
    }
}
