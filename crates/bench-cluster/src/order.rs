//! The orders of callers: transactions from an account to itself.
//!
//! The null chain counts the recipient as the sender. Other chains accept such transactions like any other.

use std::fmt::Write as _;

use crate::setup::BenchSetup;

/// Gas of every transaction, and the highest gas cost of a byte of calldata (EIP-7623).
const GAS_BASE: u64 = 21_000;
const GAS_BYTE: u64 = 40;

/// Request bodies by number. Numbers are unique within a setup, and so are the request ids.
#[derive(Debug)]
pub(crate) struct Orders {
    /// For each account, the body before the request id.
    openings: Vec<String>,
    /// For each account, the body after the request id.
    endings: Vec<String>,
}

impl Orders {
    /// `estimate`: leave the gas limit out, so that the node estimates it.
    pub(crate) fn new(setup: &BenchSetup, calldata: usize, estimate: bool) -> Self {
        let data = "11".repeat(calldata);
        let gas = if estimate { String::new() } else { format!(",\"gasLimit\":{}", gas_limit(calldata)) };
        let opening = |account| format!("{{\"submitter\":\"{}\",\"requestId\":\"", setup.submitter(account));
        let ending = |address| format!("\",\"payload\":{{\"to\":\"{address}\",\"data\":\"0x{data}\"{gas}}}}}");
        Orders {
            openings: setup.accounts.iter().map(opening).collect(),
            endings: setup.accounts.iter().map(|account| ending(account.address)).collect(),
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

/// A price that is enough on every chain.
pub(crate) fn gas_limit(calldata: usize) -> u64 {
    GAS_BASE + GAS_BYTE * calldata as u64
}
