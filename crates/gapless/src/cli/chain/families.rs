//! `gapless chain families`: lists the client families that the classifier knows.

use gapless_chain_evm::Family;
use serde_json::json;

use crate::cli::{CliError, Exit};
use crate::output::Output;

pub(super) fn run(output: &Output) -> Result<Exit, CliError> {
    let names: Vec<&str> = Family::ALL.iter().map(|family| family.as_str()).collect();
    output.result(&json!({ "families": names }), names.join("\n"))?;
    Ok(Exit::Success)
}
