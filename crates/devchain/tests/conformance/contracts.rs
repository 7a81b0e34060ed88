//! Small contracts for the cases, written by hand.

use alloy_primitives::{Bytes, hex};

/// Stores 7 at slot 0, logs its input under topic 0x2a, and returns its input.
pub(crate) const LOGGER: [u8; 16] = hex!("60075f55" "365f5f37" "602a365fa1" "365ff3");
/// Reverts with its input.
pub(crate) const REVERTER: [u8; 7] = hex!("365f5f37365ffd");
/// Loops until its gas is used up.
pub(crate) const LOOPER: [u8; 3] = hex!("5b5f56");

/// Init code that deploys this code.
pub(crate) fn deploy(code: &[u8]) -> Bytes {
    let mut init = vec![0x60, u8::try_from(code.len()).unwrap(), 0x80, 0x60, 0x09, 0x5f, 0x39, 0x5f, 0xf3];
    init.extend_from_slice(code);
    init.into()
}

/// The revert data of Solidity's `require(false, reason)`, for reasons of up to 32 bytes.
pub(crate) fn revert_reason(reason: &str) -> Bytes {
    let mut data = hex!("08c379a0").to_vec();
    let mut word = |fill: &dyn Fn(&mut [u8; 32])| {
        let mut bytes = [0; 32];
        fill(&mut bytes);
        data.extend_from_slice(&bytes);
    };
    word(&|bytes| bytes[31] = 0x20);
    word(&|bytes| bytes[31] = u8::try_from(reason.len()).unwrap());
    word(&|bytes| bytes[..reason.len()].copy_from_slice(reason.as_bytes()));
    data.into()
}
