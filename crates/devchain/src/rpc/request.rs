//! Conversion of request arguments to the chain's types.

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, TxKind};
use alloy_rpc_types_eth::TransactionRequest;
use serde::Deserialize;

use super::args::invalid;
use crate::error::RpcError;
use crate::query::{BlockSelector, CallRequest, LogBlocks, LogFilter};

/// Maximum number of topic positions, because a log has at most four topics.
const MAX_TOPICS: usize = 4;

pub(crate) fn at_tag(tag: BlockNumberOrTag) -> BlockSelector {
    match tag {
        BlockNumberOrTag::Latest => BlockSelector::Latest,
        BlockNumberOrTag::Finalized => BlockSelector::Finalized,
        BlockNumberOrTag::Safe => BlockSelector::Safe,
        BlockNumberOrTag::Earliest => BlockSelector::Earliest,
        BlockNumberOrTag::Pending => BlockSelector::Pending,
        BlockNumberOrTag::Number(number) => BlockSelector::Number(number),
    }
}

pub(crate) fn at(id: BlockId) -> BlockSelector {
    match id {
        BlockId::Hash(hash) => BlockSelector::Hash(hash.block_hash),
        BlockId::Number(tag) => at_tag(tag),
    }
}

/// Converts a call request. Blob fields are refused, because the chain has no blobs.
pub(crate) fn call(request: TransactionRequest) -> Result<CallRequest, RpcError> {
    if request.blob_versioned_hashes.is_some() || request.sidecar.is_some() {
        return Err(invalid("invalid argument 0: blob transactions are not supported by this chain"));
    }
    if request.input.input.is_some() && request.input.data.is_some() && request.input.input != request.input.data {
        return Err(invalid(
            "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
        ));
    }
    Ok(CallRequest {
        from: request.from,
        to: match request.to {
            Some(TxKind::Call(to)) => Some(to),
            Some(TxKind::Create) | None => None,
        },
        gas: request.gas,
        gas_price: request.gas_price,
        max_fee_per_gas: request.max_fee_per_gas,
        max_priority_fee_per_gas: request.max_priority_fee_per_gas,
        value: request.value.unwrap_or_default(),
        data: request.input.into_input().unwrap_or_default(),
        nonce: request.nonce,
        access_list: request.access_list.unwrap_or_default(),
        authorizations: request.authorization_list.unwrap_or_default(),
    })
}

/// A log filter in its JSON form. alloy's type is not used because it drops positions that match anything. In geth such
/// a position still requires that the log has a topic there.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilterRequest {
    from_block: Option<BlockNumberOrTag>,
    to_block: Option<BlockNumberOrTag>,
    block_hash: Option<B256>,
    address: Option<OneOrMany<Address>>,
    topics: Option<Vec<Option<OneOrMany<Option<B256>>>>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

impl FilterRequest {
    pub(crate) fn into_filter(self) -> Result<LogFilter, RpcError> {
        let blocks = match (self.block_hash, self.from_block, self.to_block) {
            (Some(hash), None, None) => LogBlocks::Hash(hash),
            (Some(_), ..) => {
                return Err(invalid(
                    "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other",
                ));
            }
            (None, from, to) => LogBlocks::Range {
                from: from.map_or(BlockSelector::Latest, at_tag),
                to: to.map_or(BlockSelector::Latest, at_tag),
            },
        };
        let topics = self.topics.unwrap_or_default();
        if topics.len() > MAX_TOPICS {
            return Err(invalid("exceed max topics"));
        }
        // A position that contains `null` matches any topic, even if it also lists topics.
        let position = |wanted: Option<OneOrMany<Option<B256>>>| {
            wanted.map(OneOrMany::into_vec).and_then(|list| list.into_iter().collect()).unwrap_or_default()
        };
        Ok(LogFilter {
            blocks,
            addresses: self.address.map(OneOrMany::into_vec).unwrap_or_default(),
            topics: topics.into_iter().map(position).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn filter(value: Value) -> Result<LogFilter, RpcError> {
        serde_json::from_value::<FilterRequest>(value).unwrap().into_filter()
    }

    #[test]
    fn topics_match_by_position_and_null_matches_any() {
        let one = B256::repeat_byte(1);
        let two = B256::repeat_byte(2);
        let read = filter(json!({ "topics": [one, null, [one, two], [one, null]] })).unwrap();
        assert_eq!(read.topics, [vec![one], vec![], vec![one, two], vec![]]);
        assert_eq!(read.blocks, LogBlocks::Range { from: BlockSelector::Latest, to: BlockSelector::Latest });
    }

    #[test]
    fn log_filter_accepts_address_lists_and_hash_or_range() {
        let account = Address::repeat_byte(7);
        assert_eq!(filter(json!({ "address": account })).unwrap().addresses, [account]);
        assert_eq!(filter(json!({ "address": [account, account] })).unwrap().addresses.len(), 2);
        let hash = B256::repeat_byte(9);
        assert_eq!(filter(json!({ "blockHash": hash })).unwrap().blocks, LogBlocks::Hash(hash));
        assert!(filter(json!({ "blockHash": hash, "toBlock": "0x1" })).is_err());
        assert!(filter(json!({ "topics": [null, null, null, null, null] })).is_err());
    }
}
