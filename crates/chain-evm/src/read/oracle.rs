//! The data fee of OP stack rollups, from their gas price oracle.

use alloy_primitives::{Address, Bytes, U256, address, keccak256};
use gapless_chain::{Classified, Reason, Verdict};
use serde_json::json;

use crate::endpoint::Endpoint;
use crate::endpoints::without_verdict;
use crate::rpc::RpcCall;

/// The predeploy `GasPriceOracle`.
const ORACLE: Address = address!("420000000000000000000000000000000000000F");
/// `getL1FeeUpperBound(uint256)`, since Fjord. The argument is the size of a transaction without its signature.
const UPPER_BOUND: [u8; 4] = [0xf1, 0xc7, 0xa5, 0x8b];
/// `getL1Fee(bytes)`. The argument is the transaction without its signature.
const FEE_OF: [u8; 4] = [0x49, 0x94, 0x8e, 0x0e];

/// The maximum data fee of a transaction of this size, at the newest block of the endpoint. An oracle without the first
/// method is asked by the second one, for the most expensive bytes of this size.
pub(crate) async fn data_fee(endpoint: &Endpoint, size: usize) -> Result<U256, Classified> {
    let upper_bound = [UPPER_BOUND.as_slice(), &word(size)].concat();
    if let Some(fee) = ask(endpoint, upper_bound.into()).await? {
        return Ok(fee);
    }
    let of_bytes = ask(endpoint, fee_of(size)).await?;
    of_bytes.ok_or_else(|| without_verdict(Reason::NotReady, "the gas price oracle of the rollup returned no data fee"))
}

/// `None` if the contract lacks the method or is not deployed. That is no verdict on a transaction.
async fn ask(endpoint: &Endpoint, data: Bytes) -> Result<Option<U256>, Classified> {
    let call = RpcCall::new("eth_call", json!([{ "to": ORACLE, "data": data }, "latest"]));
    match endpoint.ask_one::<Bytes>(call).await {
        Ok(answer) => Ok(<[u8; 32]>::try_from(answer.as_ref()).ok().map(U256::from_be_bytes)),
        Err(classified) if classified.verdict == Verdict::Reverted => Ok(None),
        Err(classified) => Err(classified),
    }
}

fn fee_of(size: usize) -> Bytes {
    let mut data = [FEE_OF.as_slice(), &word(32), &word(size), &most_expensive_bytes(size)].concat();
    data.resize(FEE_OF.len() + (data.len() - FEE_OF.len()).next_multiple_of(32), 0);
    data.into()
}

/// Bytes of the highest fee: none is zero, and they cannot be compressed.
fn most_expensive_bytes(size: usize) -> Vec<u8> {
    let blocks = (0..size.div_ceil(32)).flat_map(|block| keccak256(word(block)).0);
    blocks.map(|byte| byte.max(1)).take(size).collect()
}

fn word(number: usize) -> [u8; 32] {
    U256::from(number).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_calls_are_abi_encoded() {
        let selector = |text: &str| keccak256(text)[..4].to_vec();
        assert_eq!(selector("getL1FeeUpperBound(uint256)"), UPPER_BOUND);
        assert_eq!(selector("getL1Fee(bytes)"), FEE_OF);
        for size in [0, 1, 31, 32, 33, 1_000] {
            let data = fee_of(size);
            assert_eq!((data.len() - 4) % 32, 0);
            assert_eq!(U256::from_be_slice(&data[4..36]), U256::from(32));
            assert_eq!(U256::from_be_slice(&data[36..68]), U256::from(size));
            assert!(data[68..68 + size].iter().all(|byte| *byte != 0));
            assert!(data[68 + size..].iter().all(|byte| *byte == 0));
        }
    }
}
