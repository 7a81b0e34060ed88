//! What callers hand in: a transaction from an account to itself.
//!
//! The null chain takes the recipient as the sender; on any other chain, this is as good as anything else.

use std::fmt::Write as _;

use crate::scene::Scene;

/// What every transaction needs, and what every byte of calldata costs at the most (EIP-7623).
const GAS_BASE: u64 = 21_000;
const GAS_BYTE: u64 = 40;

/// Bodies of requests, by number. Ids are never used twice in a scene, since the numbers are not.
#[derive(Debug)]
pub(crate) struct Orders {
    /// For each account, all that is before the request id.
    openings: Vec<String>,
    /// For each account, all that is after it.
    endings: Vec<String>,
}

impl Orders {
    /// `estimate`: the node has to ask the chain for the gas.
    pub(crate) fn new(scene: &Scene, calldata: usize, estimate: bool) -> Self {
        let data = "11".repeat(calldata);
        let gas = if estimate { String::new() } else { format!(",\"gasLimit\":{}", gas_limit(calldata)) };
        let opening = |account| format!("{{\"submitter\":\"{}\",\"requestId\":\"", scene.submitter(account));
        let ending = |address| format!("\",\"payload\":{{\"to\":\"{address}\",\"data\":\"0x{data}\"{gas}}}}}");
        Orders {
            openings: scene.accounts.iter().map(opening).collect(),
            endings: scene.accounts.iter().map(|account| ending(account.address)).collect(),
        }
    }

    /// The accounts take turns.
    pub(crate) fn body(&self, number: u64) -> String {
        let account = usize::try_from(number).unwrap_or(0).checked_rem(self.openings.len()).unwrap_or(0);
        let (opening, ending) = (self.openings.get(account), self.endings.get(account));
        let mut body = String::with_capacity(opening.map_or(0, String::len) + ending.map_or(0, String::len) + 20);
        body.push_str(opening.map_or("", String::as_str));
        // Writing to a String never fails.
        let _ = write!(body, "bench-{number}");
        body.push_str(ending.map_or("", String::as_str));
        body
    }
}

/// Enough on every chain.
pub(crate) fn gas_limit(calldata: usize) -> u64 {
    GAS_BASE + GAS_BYTE * calldata as u64
}
