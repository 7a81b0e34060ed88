//! The failures of requests: their reasons, and the error texts of real clients.

use gapless_chain::{Classified, Reason, Source};

use super::pool::PoolRefusal;

/// The client families of the endpoints.
pub(super) const FAMILIES: [ClientFamily; 5] =
    [ClientFamily::Geth, ClientFamily::Nethermind, ClientFamily::Erigon, ClientFamily::Besu, ClientFamily::Anvil];

/// A text that no classifier has a pattern for.
pub(super) const NONSENSE: &str = "the flux of module 17 is out of phase";

/// The client whose error texts an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFamily {
    Geth,
    Nethermind,
    Erigon,
    Besu,
    Anvil,
}

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
    Answered { reason: Reason, code: i64, text: String },
}

impl RequestFailure {
    pub(super) fn answered(reason: Reason, text: impl Into<String>) -> Self {
        RequestFailure::Answered { reason, code: -32000, text: text.into() }
    }

    pub(super) fn reverted(text: &str) -> Self {
        RequestFailure::Answered { reason: Reason::Reverted, code: 3, text: format!("execution reverted: {text}") }
    }

    pub(super) fn classified(&self) -> Classified {
        match self {
            RequestFailure::TimedOut => Classified::new(Reason::TimedOut, Source::Transport, ""),
            RequestFailure::Unreachable => {
                Classified::new(Reason::Unreachable, Source::Transport, "connection refused")
            }
            RequestFailure::Gateway => {
                Classified::new(Reason::GatewayError, Source::HttpStatus(503), "503 Service Temporarily Unavailable")
            }
            RequestFailure::Answered { reason, code, text } => Classified::new(*reason, Source::Code(*code), text),
        }
    }
}

impl PoolRefusal {
    fn reason(self) -> Reason {
        match self {
            PoolRefusal::AlreadyKnown => Reason::AlreadyKnown,
            PoolRefusal::NonceTooLow { .. } => Reason::NonceUsed,
            PoolRefusal::NonceGap { .. } => Reason::NonceGap,
            PoolRefusal::NonceTooFar => Reason::NonceTooFar,
            PoolRefusal::ReplacementUnderpriced => Reason::ReplacementUnderpriced,
            PoolRefusal::Underpriced => Reason::FeeTooLow,
            PoolRefusal::InsufficientFunds { .. } => Reason::InsufficientFunds,
            PoolRefusal::Full => Reason::PoolFull,
            PoolRefusal::GasTooLow => Reason::GasTooLow,
            PoolRefusal::TipAboveMax => Reason::BadFees,
            PoolRefusal::Unreadable => Reason::BadSignature,
        }
    }
}

/// The error of a client of this family when its pool refuses a transaction.
pub(super) fn refusal(family: ClientFamily, refusal: PoolRefusal) -> RequestFailure {
    let text = match family {
        ClientFamily::Nethermind => nethermind(refusal),
        ClientFamily::Erigon => erigon(refusal),
        ClientFamily::Besu => return besu(refusal),
        ClientFamily::Anvil => anvil(refusal),
        ClientFamily::Geth => geth(refusal),
    };
    RequestFailure::answered(refusal.reason(), text)
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
    RequestFailure::Answered { reason: refusal.reason(), code, text: text.to_owned() }
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
    use gapless_chain_evm::{Classifier, Family, Method, NodeFailure, Overrides};

    /// The verdict of the real classifier on the text of a failure.
    fn verdict_on_text(
        classifier: &Classifier,
        family: ClientFamily,
        method: Method,
        failed: &RequestFailure,
    ) -> Verdict {
        let family = match family {
            ClientFamily::Geth => Family::Geth,
            ClientFamily::Nethermind => Family::Nethermind,
            ClientFamily::Erigon => Family::Erigon,
            ClientFamily::Besu => Family::Besu,
            ClientFamily::Anvil => Family::Anvil,
        };
        let classified = failed.classified();
        let text = classified.text.as_str();
        let failure = match failed {
            RequestFailure::TimedOut => NodeFailure::TimedOut,
            RequestFailure::Unreachable => NodeFailure::Unreachable { text },
            RequestFailure::Gateway => NodeFailure::Http { status: 503, body: text },
            RequestFailure::Answered { code, .. } => NodeFailure::Answer { code: Some(*code), text, data: None },
        };
        classifier.classify(Some(family), method, &failure).verdict
    }

    /// The real classifier gives every text of the simulator the verdict that the simulator gives it.
    #[test]
    fn classifier_knows_every_refusal() {
        let classifier = Classifier::new(Overrides::default()).unwrap();
        let refusals = [
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
        let others = [
            (RequestFailure::TimedOut, Verdict::Unavailable),
            (RequestFailure::Unreachable, Verdict::Unavailable),
            (RequestFailure::Gateway, Verdict::Unavailable),
            (RequestFailure::answered(Reason::Unrecognized, NONSENSE), Verdict::Unknown),
        ];
        for family in FAMILIES {
            let refused = refusals.iter().map(|(refused, verdict)| (refusal(family, *refused), *verdict));
            for (failure, verdict) in refused.chain(others.iter().cloned()) {
                let read = verdict_on_text(&classifier, family, Method::Send, &failure);
                assert_eq!((read, failure.classified().verdict), (verdict, verdict), "{family:?}: {failure:?}");
            }
            let reverted = RequestFailure::reverted("too early");
            assert_eq!(verdict_on_text(&classifier, family, Method::Call, &reverted), Verdict::Reverted);
            assert_eq!(reverted.classified().verdict, Verdict::Reverted);
        }
    }
}
