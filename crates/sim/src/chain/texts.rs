//! The error texts of real clients, which the real classifier reads.

use std::sync::OnceLock;

use gapless_chain::{Classified, Classifier, Family, Method, NodeFailure, Overrides};

use super::pool::Refusal;

/// The client families of the endpoints.
pub(super) const FAMILIES: [Family; 5] =
    [Family::Geth, Family::Nethermind, Family::Erigon, Family::Besu, Family::Anvil];

/// A text that the classifier has no pattern for.
pub(super) const NONSENSE: &str = "the flux of module 17 is out of phase";

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The request timed out. It may have arrived.
    TimedOut,
    /// There was no connection. The request has not arrived.
    Away,
    /// A gateway answered. The request may have arrived.
    Gateway,
    /// The chain node answered with an error.
    Said { code: i64, text: String },
}

impl Trouble {
    pub(super) fn said(text: impl Into<String>) -> Self {
        Trouble::Said { code: -32000, text: text.into() }
    }

    pub(super) fn classified(&self, family: Family, method: Method) -> Classified {
        let failure = match self {
            Trouble::TimedOut => NodeFailure::TimedOut,
            Trouble::Away => NodeFailure::Unreachable { text: "connection refused" },
            Trouble::Gateway => NodeFailure::Http { status: 503, body: "503 Service Temporarily Unavailable" },
            Trouble::Said { code, text } => NodeFailure::Answer { code: Some(*code), text, data: None },
        };
        classifier().classify(Some(family), method, &failure)
    }
}

/// Compiled once for all worlds.
fn classifier() -> &'static Classifier {
    static CLASSIFIER: OnceLock<Classifier> = OnceLock::new();
    CLASSIFIER.get_or_init(|| match Classifier::new(Overrides::default()) {
        Ok(classifier) => classifier,
        Err(error) => unreachable!("the tables are well formed, a test says: {error}"),
    })
}

/// The error of a client of this family when its pool refuses a transaction.
pub(super) fn refusal(family: Family, refusal: Refusal) -> Trouble {
    let text = match family {
        Family::Nethermind => nethermind(refusal),
        Family::Erigon => erigon(refusal),
        Family::Besu => return besu(refusal),
        Family::Anvil => anvil(refusal),
        _ => geth(refusal),
    };
    Trouble::said(text)
}

fn geth(refusal: Refusal) -> String {
    match refusal {
        Refusal::AlreadyKnown => "already known".into(),
        Refusal::NonceTooLow { next, nonce } => format!("nonce too low: next nonce {next}, tx nonce {nonce}"),
        Refusal::NonceGap { next, nonce } => format!("nonce too high: next nonce {next}, tx nonce {nonce}"),
        Refusal::NonceTooFar => "account limit exceeded".into(),
        Refusal::ReplacementUnderpriced => "replacement transaction underpriced".into(),
        Refusal::Underpriced => "transaction underpriced".into(),
        Refusal::InsufficientFunds { balance, cost } => {
            format!("insufficient funds for gas * price + value: balance {balance}, tx cost {cost}")
        }
        Refusal::Full => "txpool is full".into(),
        Refusal::GasTooLow => "intrinsic gas too low".into(),
        Refusal::TipAboveMax => "max priority fee per gas higher than max fee per gas".into(),
        Refusal::Unreadable => "invalid sender".into(),
    }
}

fn nethermind(refusal: Refusal) -> String {
    match refusal {
        Refusal::AlreadyKnown => "AlreadyKnown".into(),
        Refusal::NonceTooLow { next, nonce } => {
            format!("OldNonce, Current nonce: {next}, nonce of rejected tx: {nonce}")
        }
        Refusal::NonceGap { next, .. } => format!("NonceGap, Future nonce. Expected nonce: {next}"),
        Refusal::NonceTooFar => "nonce too far in future".into(),
        Refusal::ReplacementUnderpriced => "ReplacementNotAllowed".into(),
        Refusal::Underpriced => "FeeTooLow".into(),
        Refusal::InsufficientFunds { balance, cost } => {
            format!("InsufficientFunds, Account balance: {balance}, cumulative cost: {cost}")
        }
        Refusal::GasTooLow => "transaction invalid, intrinsic gas too low".into(),
        Refusal::Unreadable => "failed to recover sender".into(),
        Refusal::Full | Refusal::TipAboveMax => geth(refusal),
    }
}

fn erigon(refusal: Refusal) -> String {
    match refusal {
        Refusal::AlreadyKnown => "INTERNAL_ERROR: existing txn with same hash".into(),
        Refusal::NonceTooLow { .. } => "INTERNAL_ERROR: nonce too low".into(),
        Refusal::NonceTooFar => {
            "INTERNAL_ERROR: nonce gap too large: transaction nonce is too far ahead of sender's on-chain nonce".into()
        }
        Refusal::ReplacementUnderpriced => "FEE_TOO_LOW: replacement transaction underpriced".into(),
        Refusal::Underpriced => "FEE_TOO_LOW: underpriced".into(),
        Refusal::InsufficientFunds { .. } => "INTERNAL_ERROR: insufficient funds".into(),
        Refusal::Full => "INTERNAL_ERROR: pending sub-pool is full".into(),
        Refusal::NonceGap { .. } | Refusal::GasTooLow | Refusal::TipAboveMax | Refusal::Unreadable => geth(refusal),
    }
}

fn besu(refusal: Refusal) -> Trouble {
    let (code, text) = match refusal {
        Refusal::AlreadyKnown => (-32000, "Known transaction"),
        Refusal::NonceTooLow { .. } => (-32001, "Nonce too low"),
        Refusal::NonceGap { .. } => (-32006, "Nonce too high"),
        Refusal::NonceTooFar => (-32000, "Transaction nonce is too distant from current sender nonce"),
        Refusal::ReplacementUnderpriced => (-32000, "Replacement transaction underpriced"),
        Refusal::Underpriced => (-32009, "Gas price below current base fee"),
        Refusal::InsufficientFunds { .. } => (-32004, "Upfront cost exceeds account balance"),
        Refusal::Full => (-32000, "Transaction pool is full"),
        Refusal::GasTooLow => (-32003, "Intrinsic gas exceeds gas limit"),
        Refusal::TipAboveMax => (-32000, "max priority fee per gas exceeds max fee per gas"),
        Refusal::Unreadable => (-32002, "Invalid signature"),
    };
    Trouble::Said { code, text: text.to_owned() }
}

fn anvil(refusal: Refusal) -> String {
    match refusal {
        Refusal::AlreadyKnown => "transaction already imported".into(),
        Refusal::NonceTooLow { .. } => "nonce too low".into(),
        Refusal::NonceGap { .. } => "nonce too high".into(),
        Refusal::ReplacementUnderpriced => "insufficient gas price to replace existing transaction".into(),
        Refusal::Underpriced => "max fee per gas less than block base fee".into(),
        Refusal::InsufficientFunds { .. } => "Insufficient funds for gas * price + value".into(),
        _ => geth(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_chain::Verdict;

    /// The classifier knows all texts, and gives each refusal the same verdict for every family.
    #[test]
    fn every_refusal_is_understood() {
        let cases = [
            (Refusal::AlreadyKnown, Verdict::AlreadyKnown),
            (Refusal::NonceTooLow { next: 5, nonce: 3 }, Verdict::NonceTooLow),
            (Refusal::NonceGap { next: 5, nonce: 9 }, Verdict::NonceTooHigh),
            (Refusal::NonceTooFar, Verdict::Wait),
            (Refusal::ReplacementUnderpriced, Verdict::ReplacementUnderpriced),
            (Refusal::Underpriced, Verdict::Underpriced),
            (Refusal::InsufficientFunds { balance: 1, cost: 2 }, Verdict::InsufficientFunds),
            (Refusal::Full, Verdict::PoolFull),
            (Refusal::GasTooLow, Verdict::Rejected),
            (Refusal::TipAboveMax, Verdict::Rejected),
            (Refusal::Unreadable, Verdict::Rejected),
        ];
        for family in FAMILIES {
            for (said, meant) in cases {
                let trouble = refusal(family, said);
                assert_eq!(trouble.classified(family, Method::Send).verdict, meant, "{family:?}: {trouble:?}");
            }
            let nonsense = Trouble::said(NONSENSE).classified(family, Method::Send);
            assert_eq!(nonsense.verdict, Verdict::Unknown);
        }
        let revert = Trouble::Said { code: 3, text: "execution reverted: too early".to_owned() };
        assert_eq!(revert.classified(Family::Geth, Method::Call).verdict, Verdict::Reverted);
    }
}
