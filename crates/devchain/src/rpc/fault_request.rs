//! The JSON argument of `gapless_faults`.
//!
//! ```json
//! { "clear": true, "lag": 3, "dead": false, "hideReceipts": true, "chainId": 5,
//!   "stuckHead": true, "flip": 1, "preconfirm": true,
//!   "rules": [ { "on": "sends", "times": 2, "after": 1, "fault": { "kind": "timeOutAfter" } },
//!              { "on": "eth_call", "permille": 100,
//!                "fault": { "kind": "http", "status": 429, "retryAfterSecs": 1 } } ] }
//! ```
//!
//! A rule without `times` and `permille` applies to every call.

use serde::Deserialize;

use super::args::invalid;
use crate::endpoint::Endpoint;
use crate::error::RpcError;
use crate::faults::{CallFilter, Fault, Faults};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FaultRequest {
    /// Removes all faults before the other changes.
    #[serde(default)]
    clear: bool,
    lag: Option<u64>,
    dead: Option<bool>,
    hide_receipts: Option<bool>,
    chain_id: Option<u64>,
    stuck_head: Option<bool>,
    /// Reads of `latest` before the endpoint switches branches. 0 ends it.
    flip: Option<u32>,
    preconfirm: Option<bool>,
    #[serde(default)]
    rules: Vec<RuleRequest>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleRequest {
    /// `any`, `sends`, `reads`, or the name of a method.
    on: String,
    times: Option<u32>,
    after: Option<u32>,
    permille: Option<u32>,
    fault: FaultKind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum FaultKind {
    Drop,
    DelayBlocks { blocks: u64 },
    Duplicate,
    TimeOutAfter,
    RefuseAfter { code: i64, message: String },
    WrongHash,
    TimeOutBefore,
    Refuse { code: i64, message: String },
    Http { status: u16, retry_after_secs: Option<u32>, body: Option<String> },
    Disconnect,
    Null,
}

impl FaultRequest {
    /// Applies the changes. An invalid rule leaves all faults unchanged.
    pub(crate) fn apply(self, endpoint: &Endpoint) -> Result<(), RpcError> {
        let faults = endpoint.faults();
        for rule in &self.rules {
            if rule.permille.is_some() && (rule.times.is_some() || rule.after.is_some()) {
                return Err(invalid("invalid argument 1: a rule has either `times` or `permille`"));
            }
            if rule.after.is_some() && rule.times.is_none() {
                return Err(invalid("invalid argument 1: `after` needs `times`"));
            }
        }
        if self.clear {
            faults.clear();
        }
        if let Some(lag) = self.lag {
            faults.set_lag(lag);
        }
        if let Some(dead) = self.dead {
            faults.set_dead(dead);
        }
        if let Some(hide) = self.hide_receipts {
            faults.hide_receipts(hide);
        }
        if self.chain_id.is_some() {
            faults.set_wrong_chain_id(self.chain_id);
        }
        if let Some(stuck) = self.stuck_head {
            endpoint.freeze_head(stuck);
        }
        if let Some(reads) = self.flip {
            faults.flip_every(reads);
        }
        if let Some(on) = self.preconfirm {
            faults.preconfirm(on);
        }
        let all_taken = self.rules.into_iter().all(|rule| rule.add_to(faults));
        if all_taken { Ok(()) } else { Err(invalid("invalid argument 1: too many fault rules for this endpoint")) }
    }
}

impl RuleRequest {
    fn add_to(self, faults: &Faults) -> bool {
        let on = match self.on.as_str() {
            "any" => CallFilter::Any,
            "sends" => CallFilter::Sends,
            "reads" => CallFilter::Reads,
            _ => CallFilter::Method(self.on),
        };
        let fault = self.fault.into();
        match (self.times, self.permille) {
            (Some(times), _) => faults.after(on, self.after.unwrap_or(0), times, fault),
            (None, Some(permille)) => faults.sometimes(on, permille, fault),
            (None, None) => faults.always(on, fault),
        }
    }
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::Drop => Self::Drop,
            FaultKind::DelayBlocks { blocks } => Self::DelayBlocks(blocks),
            FaultKind::Duplicate => Self::Duplicate,
            FaultKind::TimeOutAfter => Self::TimeOutAfter,
            FaultKind::RefuseAfter { code, message } => Self::RefuseAfter { code, message },
            FaultKind::WrongHash => Self::WrongHash,
            FaultKind::TimeOutBefore => Self::TimeOutBefore,
            FaultKind::Refuse { code, message } => Self::Refuse { code, message },
            FaultKind::Http { status, retry_after_secs, body } => {
                Self::Http { status, retry_after_secs, body: body.unwrap_or_default() }
            }
            FaultKind::Disconnect => Self::Disconnect,
            FaultKind::Null => Self::Null,
        }
    }
}
