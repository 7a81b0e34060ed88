//! A node's counters, read from `/metrics`.

use crate::LoadError;
use crate::http::Connection;

const SETTLED: &str = "gapless_tx_changes_total";
const SETTLED_LABEL: &str = "event=\"settle\"";
const STATEMENTS: &str = "gapless_store_statements_total";
const RPC_CALLS: &str = "gapless_rpc_requests_total";

/// Counters of one node, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Intents that have ended on chain.
    pub(crate) settled: u64,
    /// Statements sent to the database; not every build counts them.
    pub(crate) statements: Option<f64>,
    pub(crate) rpc_calls: Option<f64>,
}

impl Counts {
    pub(crate) async fn read(connection: &mut Connection) -> Result<Self, LoadError> {
        let answer = connection.get("/metrics").await.map_err(LoadError::http("/metrics"))?;
        match answer.status {
            200 => Ok(Self::parse(&answer.text())),
            status => Err(LoadError::Refused { what: "/metrics".to_owned(), status, body: answer.text() }),
        }
    }

    fn parse(text: &str) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter is a whole number")]
        let settled = sum(text, SETTLED, SETTLED_LABEL).unwrap_or(0.0) as u64;
        Counts { settled, statements: sum(text, STATEMENTS, ""), rpc_calls: sum(text, RPC_CALLS, "") }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Counts {
            settled: self.settled + other.settled,
            statements: both(self.statements, other.statements),
            rpc_calls: both(self.rpc_calls, other.rpc_calls),
        }
    }
}

/// Sum of all samples with this name and label; `None` if there is none.
fn sum(text: &str, name: &str, label: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let whole_name = labels.is_empty() || labels.starts_with('{');
        (whole_name && labels.contains(label)).then(|| value.parse::<f64>().ok())?
    });
    values.reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE gapless_tx_changes_total counter\n\
        gapless_tx_changes_total{event=\"settle\"} 41\n\
        gapless_tx_changes_total{event=\"mine\"} 7\n\
        gapless_rpc_requests_total{chain=\"a b\",method=\"x\"} 3\n\
        gapless_rpc_requests_total{chain=\"a b\",method=\"y\"} 4\n\
        gapless_rpc_requests_total_of_another_kind 100\n";

    #[test]
    fn counters_are_summed_by_name_and_label() {
        assert_eq!(Counts::parse(TEXT), Counts { settled: 41, statements: None, rpc_calls: Some(7.0) });
        assert_eq!(Counts::parse("gapless_store_statements_total 5\n").statements, Some(5.0));
        assert_eq!(Counts::parse(""), Counts::default());
    }

    #[test]
    fn counter_missing_in_one_node_is_missing_in_sum() {
        let both = Counts::parse(TEXT).and(Counts { settled: 1, statements: Some(1.0), rpc_calls: Some(1.0) });
        assert_eq!(both, Counts { settled: 42, statements: None, rpc_calls: Some(8.0) });
    }
}
