//! `gapless chain show`: shows one chain of a running node with its endpoints.

use clap::Args;
use gapless_wire::{ChainView, EndpointView, FinalityName};

use crate::cli::server::ServerArgs;
use crate::cli::table::{columns, span};
use crate::cli::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ShowChainArgs {
    /// CAIP-2 id of the chain, as in eip155:1
    #[arg(value_name = "CHAIN")]
    chain: String,
    #[command(flatten)]
    server: ServerArgs,
}

impl ShowChainArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let chain = block_on(async { Ok(self.server.client()?.chain(&self.chain).await?) })?;
        output.result(&chain, full_text(&chain))?;
        Ok(Exit::Success)
    }
}

/// One row per chain, for `gapless chain list`.
pub(super) fn summary(chain: &ChainView) -> [String; 6] {
    let healthy = chain.endpoints.iter().filter(|endpoint| endpoint.healthy).count();
    let head = chain.head.as_ref();
    [
        chain.chain.clone(),
        head.map_or("no head yet".to_owned(), |head| format!("head {}, {} ago", head.block_number, span(head.age_ms))),
        chain.final_block.as_ref().map_or("no final block".to_owned(), |block| format!("final {}", block.block_number)),
        finality(chain),
        format!("{healthy} of {} endpoints healthy", chain.endpoints.len()),
        chain.trouble.as_ref().map(|problem| format!("PROBLEM: {}", problem.code)).unwrap_or_default(),
    ]
}

fn full_text(chain: &ChainView) -> String {
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![row("chain", chain.chain.clone())];
    if let Some(problem) = &chain.trouble {
        rows.push(row("PROBLEM", format!("{}: {} ({})", problem.code, problem.message, problem.detail)));
    }
    let head = chain.head.as_ref();
    let head = head.map(|head| format!("{} {}, {} ago", head.block_number, head.block_hash, span(head.age_ms)));
    rows.push(row("head", head.unwrap_or_else(|| "none yet".to_owned())));
    let final_block = chain.final_block.as_ref();
    rows.extend(final_block.map(|block| row("final", format!("{} {}", block.block_number, block.block_hash))));
    rows.push(row("finality", finality(chain)));
    rows.extend(chain.block_time_ms.map(|time| row("block time", span(time))));
    rows.push(row("lanes here", chain.lanes.to_string()));
    rows.push(row("open here", format!("{} transactions", chain.open_transactions)));
    format!("{}\n{}", columns(&rows), columns(&endpoints(&chain.endpoints)))
}

fn finality(chain: &ChainView) -> String {
    match chain.finality {
        FinalityName::Depth => format!("by depth ({})", chain.required_confirmations),
        FinalityName::Safe => format!("by depth ({}) and the safe tag", chain.required_confirmations),
        FinalityName::Finalized => "by the finalized tag".to_owned(),
    }
}

fn endpoints(endpoints: &[EndpointView]) -> Vec<[String; 10]> {
    let heading =
        ["endpoint", "health", "block", "behind", "head age", "errors", "latency", "in flight", "weight", "problem"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(endpoints.iter().map(|endpoint| {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            endpoint.name.clone(),
            endpoint.standing.to_string(),
            or_dash(endpoint.block_number.map(|number| number.to_string())),
            or_dash(endpoint.lag_blocks.map(|blocks| blocks.to_string())),
            or_dash(endpoint.head_age_ms.map(span)),
            or_dash(endpoint.errors_permille.map(|errors| format!("{}.{} %", errors / 10, errors % 10))),
            or_dash(endpoint.latency_ms.map(span)),
            endpoint.in_flight.to_string(),
            endpoint.weight.to_string(),
            endpoint.trouble.clone().unwrap_or_default(),
        ]
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_wire::{BlockView, ChainTroubleView, EndpointStandingName, HeadView};

    fn chain() -> ChainView {
        let good = EndpointView {
            name: "rpc.example:443".to_owned(),
            weight: 2,
            standing: EndpointStandingName::Good,
            healthy: true,
            block_number: Some(120),
            head_age_ms: Some(1500),
            lag_blocks: Some(0),
            errors_permille: Some(14),
            latency_ms: Some(30),
            in_flight: 7,
            trouble: None,
        };
        let new = EndpointView {
            name: "other.example:443".to_owned(),
            standing: EndpointStandingName::Unchecked,
            healthy: false,
            block_number: None,
            head_age_ms: None,
            lag_blocks: None,
            errors_permille: None,
            latency_ms: None,
            in_flight: 0,
            ..good.clone()
        };
        ChainView {
            chain: "eip155:1".to_owned(),
            head: Some(HeadView { block_number: 120, block_hash: "0xaa".to_owned(), age_ms: 5 }),
            final_block: Some(BlockView { block_number: 101, block_hash: "0xbb".to_owned() }),
            finality: FinalityName::Depth,
            required_confirmations: 20,
            block_time_ms: Some(12_000),
            trouble: None,
            open_transactions: 11,
            lanes: 3,
            endpoints: vec![good, new],
        }
    }

    #[test]
    fn chain_text_has_a_row_per_endpoint() {
        let expected = "\
chain       eip155:1
head        120 0xaa, 5 ms ago
final       101 0xbb
finality    by depth (20)
block time  12.0 s
lanes here  3
open here   11 transactions

endpoint           health     block  behind  head age  errors  latency  in flight  weight  problem
rpc.example:443    good       120    0       1.5 s     1.4 %   30 ms    7          2
other.example:443  unchecked  -      -       -         -       -        0          2
";
        assert_eq!(full_text(&chain()), expected);
        assert_eq!(
            columns(&[summary(&chain())]),
            "eip155:1  head 120, 5 ms ago  final 101  by depth (20)  1 of 2 endpoints healthy\n"
        );
    }

    #[test]
    fn chain_problem_is_shown_in_capitals() {
        let trouble = ChainTroubleView {
            code: "deep_reorg".to_owned(),
            message: "it went back".to_owned(),
            detail: "block 101".to_owned(),
        };
        let chain = ChainView { trouble: Some(trouble), head: None, final_block: None, ..chain() };
        let expected = "\nPROBLEM     deep_reorg: it went back (block 101)\nhead        none yet\n";
        assert!(full_text(&chain).contains(expected));
        assert!(columns(&[summary(&chain)]).ends_with("PROBLEM: deep_reorg\n"));
    }
}
