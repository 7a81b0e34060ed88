//! The error texts of real clients, which the real classifier reads.

use std::sync::OnceLock;

use gapless_chain::{Classified, Classifier, Family, Method, NodeFailure, Overrides};

use super::pool::PoolRefusal;

/// The client families of the endpoints.
pub(super) const FAMILIES: [Family; 5] =
    [Family::Geth, Family::Nethermind, Family::Erigon, Family::Besu, Family::Anvil];

/// A text that the classifier has no pattern for.
pub(super) const NONSENSE: &str = "the flux of module 17 is out of phase";

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// The request timed out. It may have arrived.
    TimedOut,
    /// There was no connection. The request has not arrived.
    Unreachable,
    /// A gateway answered. The request may have arrived.
    Gateway,
    /// The chain node answered with an error.
    Answered { code: i64, text: String },
}

impl RequestFailure {
    pub(super) fn answered(text: impl Into<String>) -> Self {
        RequestFailure::Answered { code: -32000, text: text.into() }
    }

    pub(super) fn classified(&self, family: Family, method: Method) -> Classified {
        let failure = match self {
            RequestFailure::TimedOut => NodeFailure::TimedOut,
            RequestFailure::Unreachable => NodeFailure::Unreachable { text: "connection refused" },
            RequestFailure::Gateway => NodeFailure::Http { status: 503, body: "503 Service Temporarily Unavailable" },
            RequestFailure::Answered { code, text } => NodeFailure::Answer { code: Some(*code), text, data: None },
        };
        classifier().classify(Some(family), method, &failure)
    }
}

/// Compiled once for all worlds.
fn classifier() -> &'static Classifier {
    static CLASSIFIER: OnceLock<Classifier> = OnceLock::new();
    CLASSIFIER.get_or_init(|| match Classifier::new(Overrides::default()) {
        Ok(classifier) => classifier,
        Err(error) => unreachable!("a test proves that the tables are well formed: {error}"),
    })
}

/// The error of a client of this family when its pool refuses a transaction.
pub(super) fn refusal(family: Family, refusal: PoolRefusal) -> RequestFailure {
    let text = match family {
        Family::Nethermind => nethermind(refusal),
        Family::Erigon => erigon(refusal),
        Family::Besu => return besu(refusal),
        Family::Anvil => anvil(refusal),
        _ => geth(refusal),
    };
    RequestFailure::answered(text)
}

fn geth(refusal: PoolRefusal) -> String {
    match refusal {
        PoolRefusal::AlreadyKnown => "already known".into(),
        PoolRefusal::NonceTooLow { next, nonce } => format!("nonce too low: next nonce {next}, tx nonce {nonce}"),
        PoolRefusal::NonceGap { next, nonce } => format!("nonce too high: next nonce {next}, tx nonce {nonce}"),
        PoolRefusal::NonceTooFar => "account limit exceeded".into(),
        PoolRefusal::ReplacementUnderpriced => "replacement transaction underpriced".into(),
        PoolRefusal::Underpriced => "transaction underpriced".into(),
        PoolRefusal::InsufficientFunds { balance, cost } => {
            format!("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}")
        }
        PoolRefusal::Full => "txpool is full".into(),
        PoolRefusal::GasTooLow => "intrinsic gas too low".into(),
        PoolRefusal::TipAboveMax => "max priority fee per gas higher than max fee per gas".into(),
        PoolRefusal::Unreadable => "invalid sender".into(),
    }
}

fn nethermind(refusal: PoolRefusal) -> String {
    match refusal {
        PoolRefusal::AlreadyKnown => "AlreadyKnown".into(),
        PoolRefusal::NonceTooLow { next, nonce } => {
            format!("OldNonce, Current nonce: {next}, nonce of rejected tx: {nonce}")
        }
        PoolRefusal::NonceGap { next, .. } => format!("NonceGap, Future nonce. Expected nonce: {next}"),
        PoolRefusal::NonceTooFar => "nonce too far in future".into(),
        PoolRefusal::ReplacementUnderpriced => "ReplacementNotAllowed".into(),
        PoolRefusal::Underpriced => "FeeTooLow".into(),
        PoolRefusal::InsufficientFunds { balance, cost } => {
            format!("InsufficientFunds, Account balance: {balance}, cumulative cost: {cost}")
        }
        PoolRefusal::GasTooLow => "transaction invalid, intrinsic gas too low".into(),
        PoolRefusal::Unreadable => "failed to recover sender".into(),
        PoolRefusal::Full | PoolRefusal::TipAboveMax => geth(refusal),
    }
}

fn erigon(refusal: PoolRefusal) -> String {
    match refusal {
        PoolRefusal::AlreadyKnown => "INTERNAL_ERROR: existing txn with same hash".into(),
        PoolRefusal::NonceTooLow { .. } => "INTERNAL_ERROR: nonce too low".into(),
        PoolRefusal::NonceTooFar => {
            "INTERNAL_ERROR: nonce gap too large: transaction nonce is too far ahead of sender's on-chain nonce".into()
        }
        PoolRefusal::ReplacementUnderpriced => "FEE_TOO_LOW: replacement transaction underpriced".into(),
        PoolRefusal::Underpriced => "FEE_TOO_LOW: underpriced".into(),
        PoolRefusal::InsufficientFunds { .. } => "INTERNAL_ERROR: insufficient funds".into(),
        PoolRefusal::Full => "INTERNAL_ERROR: pending sub-pool is full".into(),
        PoolRefusal::NonceGap { .. } | PoolRefusal::GasTooLow | PoolRefusal::TipAboveMax | PoolRefusal::Unreadable => {
            geth(refusal)
        }
    }
}

fn besu(refusal: PoolRefusal) -> RequestFailure {
    let (code, text) = match refusal {
        PoolRefusal::AlreadyKnown => (-32000, "Known transaction"),
        PoolRefusal::NonceTooLow { .. } => (-32001, "Nonce too low"),
        PoolRefusal::NonceGap { .. } => (-32006, "Nonce too high"),
        PoolRefusal::NonceTooFar => (-32000, "Transaction nonce is too distant from current sender nonce"),
        PoolRefusal::ReplacementUnderpriced => (-32000, "Replacement transaction underpriced"),
        PoolRefusal::Underpriced => (-32009, "Gas price below current base fee"),
        PoolRefusal::InsufficientFunds { .. } => (-32004, "Upfront cost exceeds account balance"),
        PoolRefusal::Full => (-32000, "Transaction pool is full"),
        PoolRefusal::GasTooLow => (-32003, "Intrinsic gas exceeds gas limit"),
        PoolRefusal::TipAboveMax => (-32000, "max priority fee per gas exceeds max fee per gas"),
        PoolRefusal::Unreadable => (-32002, "Invalid signature"),
    };
    RequestFailure::Answered { code, text: text.to_owned() }
}

fn anvil(refusal: PoolRefusal) -> String {
    match refusal {
        PoolRefusal::AlreadyKnown => "transaction already imported".into(),
        PoolRefusal::NonceTooLow { .. } => "nonce too low".into(),
        PoolRefusal::NonceGap { .. } => "nonce too high".into(),
        PoolRefusal::ReplacementUnderpriced => "insufficient gas price to replace existing transaction".into(),
        PoolRefusal::Underpriced => "max fee per gas less than block base fee".into(),
        PoolRefusal::InsufficientFunds { .. } => "Insufficient funds for gas * price + value".into(),
        _ => geth(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_chain::Verdict;

    /// The classifier knows all texts, and gives each refusal the same verdict for every family.
    #[test]
    fn classifier_knows_every_refusal() {
        let cases = [
            (PoolRefusal::AlreadyKnown, Verdict::AlreadyKnown),
            (PoolRefusal::NonceTooLow { next: 5, nonce: 3 }, Verdict::NonceTooLow),
            (PoolRefusal::NonceGap { next: 5, nonce: 9 }, Verdict::NonceTooHigh),
            (PoolRefusal::NonceTooFar, Verdict::Wait),
            (PoolRefusal::ReplacementUnderpriced, Verdict::ReplacementUnderpriced),
            (PoolRefusal::Underpriced, Verdict::Underpriced),
            (PoolRefusal::InsufficientFunds { balance: 1, cost: 2 }, Verdict::InsufficientFunds),
            (PoolRefusal::Full, Verdict::PoolFull),
            (PoolRefusal::GasTooLow, Verdict::Rejected),
            (PoolRefusal::TipAboveMax, Verdict::Rejected),
            (PoolRefusal::Unreadable, Verdict::Rejected),
        ];
        for family in FAMILIES {
            for (said, meant) in cases {
                let failure = refusal(family, said);
                assert_eq!(failure.classified(family, Method::Send).verdict, meant, "{family:?}: {failure:?}");
            }
            let nonsense = RequestFailure::answered(NONSENSE).classified(family, Method::Send);
            assert_eq!(nonsense.verdict, Verdict::Unknown);
        }
        let revert = RequestFailure::Answered { code: 3, text: "execution reverted: too early".to_owned() };
        assert_eq!(revert.classified(Family::Geth, Method::Call).verdict, Verdict::Reverted);
    }
}
