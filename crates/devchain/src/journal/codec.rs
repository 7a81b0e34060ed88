//! Encoding of operations and headers: one byte for the kind, then RLP.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::{Decodable, Encodable, Error, Header};

use crate::core::{Edit, Op};
use crate::error::ChainError;

/// The prefix of every file of a chain. The last byte is the format version.
const MAGIC: &[u8] = b"gapless-devchain\x01";

const SEND: u8 = 1;
const DELAY: u8 = 2;
const RELEASE: u8 = 3;
const DROP: u8 = 4;
const DROP_ALL: u8 = 5;
const MINE: u8 = 6;
const REWIND: u8 = 7;
const EDIT_BALANCE: u8 = 8;
const EDIT_NONCE: u8 = 9;
const EDIT_CODE: u8 = 10;
const EDIT_STORAGE: u8 = 11;
const SET_GAS_LIMIT: u8 = 12;
const SET_COINBASE: u8 = 13;
const RESET: u8 = 14;

pub(super) fn encode_header(identity: B256) -> Vec<u8> {
    [MAGIC, identity.as_slice()].concat()
}

pub(super) fn check_header(payload: &[u8], identity: B256) -> Result<(), ChainError> {
    let found = payload.strip_prefix(MAGIC).filter(|found| found.len() == B256::len_bytes()).map(B256::from_slice);
    match found {
        Some(found) if found == identity => Ok(()),
        Some(found) => Err(ChainError::OtherGenesis { found, wanted: identity }),
        None => Err(ChainError::OtherFormat),
    }
}

pub(super) fn encode_op(op: &Op) -> Vec<u8> {
    let mut out = Vec::new();
    match op {
        Op::Send(tx) => put(&mut out, SEND, &[tx]),
        Op::Delay { until, tx } => put(&mut out, DELAY, &[until, tx]),
        Op::Release(hash) => put(&mut out, RELEASE, &[hash]),
        Op::Drop(hash) => put(&mut out, DROP, &[hash]),
        Op::DropAll => put(&mut out, DROP_ALL, &[]),
        Op::Mine(block) => put(&mut out, MINE, &[block]),
        Op::Rewind { depth, to_pool } => put(&mut out, REWIND, &[depth, to_pool]),
        Op::Edit(Edit::Balance { account, balance }) => put(&mut out, EDIT_BALANCE, &[account, balance]),
        Op::Edit(Edit::Nonce { account, nonce }) => put(&mut out, EDIT_NONCE, &[account, nonce]),
        Op::Edit(Edit::Code { account, code }) => put(&mut out, EDIT_CODE, &[account, code]),
        Op::Edit(Edit::Storage { account, slot, value }) => put(&mut out, EDIT_STORAGE, &[account, slot, value]),
        Op::SetGasLimit(gas_limit) => put(&mut out, SET_GAS_LIMIT, &[gas_limit]),
        Op::SetCoinbase(coinbase) => put(&mut out, SET_COINBASE, &[coinbase]),
        Op::Reset => put(&mut out, RESET, &[]),
    }
    out
}

pub(super) fn decode_op(payload: &[u8]) -> Result<Op, Error> {
    let Some((kind, mut rest)) = payload.split_first() else { return Err(Error::InputTooShort) };
    let rest = &mut rest;
    let op = match *kind {
        SEND => Op::Send(get(rest)?),
        DELAY => Op::Delay { until: get(rest)?, tx: get(rest)? },
        RELEASE => Op::Release(get(rest)?),
        DROP => Op::Drop(get(rest)?),
        DROP_ALL => Op::DropAll,
        MINE => Op::Mine(get(rest)?),
        REWIND => Op::Rewind { depth: get(rest)?, to_pool: get(rest)? },
        EDIT_BALANCE => Op::Edit(Edit::Balance { account: get(rest)?, balance: get(rest)? }),
        EDIT_NONCE => Op::Edit(Edit::Nonce { account: get(rest)?, nonce: get(rest)? }),
        EDIT_CODE => Op::Edit(Edit::Code { account: get::<Address>(rest)?, code: get::<Bytes>(rest)? }),
        EDIT_STORAGE => {
            Op::Edit(Edit::Storage { account: get(rest)?, slot: get::<U256>(rest)?, value: get::<U256>(rest)? })
        }
        SET_GAS_LIMIT => Op::SetGasLimit(get(rest)?),
        SET_COINBASE => Op::SetCoinbase(get(rest)?),
        RESET => Op::Reset,
        _ => return Err(Error::Custom("unknown kind of record")),
    };
    if rest.is_empty() { Ok(op) } else { Err(Error::UnexpectedLength) }
}

/// Writes a record: its kind, then its fields.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, fields: &[&dyn Encodable]) {
    out.push(kind);
    for field in fields {
        field.encode(out);
    }
}

pub(super) fn get<T: Decodable>(rest: &mut &[u8]) -> Result<T, Error> {
    T::decode(rest)
}

/// The payload of an RLP list.
pub(super) fn get_list<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    Header::decode_bytes(rest, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{MinedBlock, SentTx};

    #[test]
    fn every_op_decodes_to_itself() {
        let (account, hash) = (Address::with_last_byte(7), B256::with_last_byte(9));
        let tx = SentTx { from: account, raw: Bytes::from_static(&[1, 2, 3]) };
        let mined = MinedBlock { timestamp: 5, base_fee: 6, txs: vec![hash, B256::ZERO], hash };
        let ops = [
            Op::Send(tx.clone()),
            Op::Delay { until: 3, tx },
            Op::Release(hash),
            Op::Drop(hash),
            Op::DropAll,
            Op::Mine(mined),
            Op::Rewind { depth: 2, to_pool: true },
            Op::Rewind { depth: 2, to_pool: false },
            Op::Edit(Edit::Balance { account, balance: U256::MAX }),
            Op::Edit(Edit::Nonce { account, nonce: 0 }),
            Op::Edit(Edit::Code { account, code: Bytes::new() }),
            Op::Edit(Edit::Storage { account, slot: U256::ZERO, value: U256::from(1) }),
            Op::SetGasLimit(30_000_000),
            Op::SetCoinbase(account),
            Op::Reset,
        ];
        for op in ops {
            let bytes = encode_op(&op);
            assert_eq!(decode_op(&bytes), Ok(op));
            assert!(decode_op(&[bytes.as_slice(), &[1]].concat()).is_err(), "trailing bytes are an error");
        }
    }
}
