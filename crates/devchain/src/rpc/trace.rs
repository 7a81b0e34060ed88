//! `debug_traceTransaction`. The dev chain supports geth's `callTracer` with the top call only.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::{Args, invalid};
use super::message::{Answer, answer};
use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::query::TopCall;
use crate::view::View;

const CALL_TRACER: &str = "callTracer";

/// Options of a trace. geth's further options (`timeout`, `reexec`) do not affect the answer and are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TraceRequest {
    tracer: Option<String>,
    tracer_config: Option<TracerConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TracerConfig {
    only_top_call: bool,
    with_log: bool,
}

/// A call in geth's form: empty fields are omitted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    from: Address,
    gas: U64,
    gas_used: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Address>,
    input: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert_reason: Option<String>,
    value: U256,
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(crate) fn trace_transaction(view: &View, params: Value) -> Result<Answer, RpcError> {
    let mut args = Args::new(params, 2)?;
    let hash: B256 = args.required()?;
    let request: TraceRequest = args.optional()?.unwrap_or_default();
    if request.tracer.as_deref() != Some(CALL_TRACER) {
        return Err(RpcError::new(SERVER_ERROR_CODE, "tracer not found"));
    }
    let config = request.tracer_config.unwrap_or_default();
    if !config.only_top_call || config.with_log {
        return Err(invalid("this chain traces top calls only: set onlyTopCall, and not withLog"));
    }
    answer(&frame(view.top_call(hash)?))
}

fn frame(call: TopCall) -> CallFrame {
    CallFrame {
        from: call.from,
        gas: U64::from(call.gas),
        gas_used: U64::from(call.gas_used),
        to: call.to,
        input: call.input,
        output: Some(call.output).filter(|output| !output.is_empty()),
        error: call.error,
        revert_reason: call.revert_reason,
        value: call.value,
        kind: if call.creates { "CREATE" } else { "CALL" },
    }
}
