//! Fixed words of the API, each the twin of a domain name.
//!
//! They are types of their own because the domain knows no serde; the `From` below is an exhaustive match, so a new domain
//! name does not compile until it has a word here.

use gapless_domain::{EventKind, TransitionName};
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        // Written by hand: the derive does not see names that come out of a macro.
        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $crate::names::word_schema(Self::ALL.iter().map(|word| word.as_str()))
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    };
    ($(#[$doc:meta])* $name:ident = $domain:ty { $($variant:ident = $text:literal),+ $(,)? }) => {
        words! { $(#[$doc])* $name { $($variant = $text),+ } }

        impl From<$domain> for $name {
            fn from(name: $domain) -> Self {
                match name { $(<$domain>::$variant => $name::$variant),+ }
            }
        }

        impl From<$name> for $domain {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => <$domain>::$variant),+ }
            }
        }
    };
}

pub(crate) use words;

#[cfg(feature = "schema")]
pub(crate) fn word_schema(
    words: impl IntoIterator<Item = &'static str>,
) -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
    use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
    Schema::Object(ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()).into()
}

words! {
    /// The state of an intent. CONFIRMED, FAILED_FINAL and CANCELED are final.
    TxStateName = gapless_domain::StateName {
        Queued = "QUEUED",
        Allocated = "ALLOCATED",
        Tracking = "TRACKING",
        Stuck = "STUCK",
        Confirmed = "CONFIRMED",
        FailedFinal = "FAILED_FINAL",
        Canceled = "CANCELED",
    }
}

impl TxStateName {
    pub fn is_terminal(self) -> bool {
        gapless_domain::StateName::from(self).is_terminal()
    }
}

words! {
    /// What goes on within a state.
    SubStateName = gapless_domain::SubStateName {
        Pending = "PENDING",
        Mined = "MINED",
        AwaitingFunds = "AWAITING_FUNDS",
        Canceling = "CANCELING",
        Replacing = "REPLACING",
    }
}

words! {
    /// What happened to an intent.
    TxEventName {
        Accepted = "accepted",
        Bind = "bind",
        Acknowledge = "acknowledge",
        Mine = "mine",
        Confirm = "confirm",
        Unmine = "unmine",
        AwaitFunds = "await_funds",
        Funded = "funded",
        GiveUp = "give_up",
        Revive = "revive",
        WantCancel = "want_cancel",
        WantReplace = "want_replace",
        LoseNonce = "lose_nonce",
        Settle = "settle",
        FailInQueue = "fail_in_queue",
        CancelInQueue = "cancel_in_queue",
        ReleaseReserved = "release_reserved",
    }
}

impl From<EventKind> for TxEventName {
    fn from(kind: EventKind) -> Self {
        let transition = match kind {
            EventKind::Accepted => return TxEventName::Accepted,
            EventKind::Tx(transition) => transition,
        };
        match transition {
            TransitionName::Bind => TxEventName::Bind,
            TransitionName::Acknowledge => TxEventName::Acknowledge,
            TransitionName::Mine => TxEventName::Mine,
            TransitionName::Confirm => TxEventName::Confirm,
            TransitionName::Unmine => TxEventName::Unmine,
            TransitionName::AwaitFunds => TxEventName::AwaitFunds,
            TransitionName::Funded => TxEventName::Funded,
            TransitionName::GiveUp => TxEventName::GiveUp,
            TransitionName::Revive => TxEventName::Revive,
            TransitionName::WantCancel => TxEventName::WantCancel,
            TransitionName::WantReplace => TxEventName::WantReplace,
            TransitionName::LoseNonce => TxEventName::LoseNonce,
            TransitionName::Settle => TxEventName::Settle,
            TransitionName::FailInQueue => TxEventName::FailInQueue,
            TransitionName::CancelInQueue => TxEventName::CancelInQueue,
            TransitionName::ReleaseReserved => TxEventName::ReleaseReserved,
        }
    }
}

words! {
    /// How much the caller pays for being quick.
    Speed = gapless_domain::Speed {
        Slow = "slow",
        Standard = "standard",
        Fast = "fast",
        Instant = "instant",
    }
}

words! {
    /// What a signed transaction does for its nonce.
    AttemptKindName = gapless_domain::AttemptKind {
        Original = "original",
        Bump = "bump",
        Replace = "replace",
        Cancel = "cancel",
        Fill = "fill",
    }
}

words! {
    /// What nodes' pools show of a transaction that is not mined. It guides what is sent; it proves nothing. `likely_dropped`: every node
    /// was heard, and none has it. `likely_replaced`: none has it, and some node counts its nonce as taken.
    MempoolSignalName = gapless_domain::MempoolSignal {
        InMempool = "in_mempool",
        LikelyDropped = "likely_dropped",
        LikelyReplaced = "likely_replaced",
        Unknown = "unknown",
    }
}

words! {
    /// What becomes of transactions whose nonce was finally used by something else.
    LostRuleName = gapless_domain::LostRule {
        Requeue = "requeue",
        Fail = "fail",
    }
}

words! {
    ReceiptStatus {
        Success = "success",
        Reverted = "reverted",
    }
}

words! {
    /// The state of a submitter's lane. PROTECT binds nothing new until an operator decides.
    LaneStateName {
        Idle = "IDLE",
        InFlight = "IN_FLIGHT",
        Protect = "PROTECT",
    }
}

words! {
    /// By what a block counts as final on a chain.
    FinalityName {
        /// There are enough blocks on it.
        Depth = "depth",
        /// There are enough blocks on it, and the chain's own `safe` tag has come to it.
        Safe = "safe",
        /// The chain's own `finalized` tag.
        Finalized = "finalized",
    }
}

words! {
    /// A declaration of an operator about the database.
    StoreDeclarationName {
        /// The database was restored, or has lost commits.
        Lost = "lost",
        /// Every loss so far has been looked into.
        Reconciled = "reconciled",
    }
}

words! {
    /// What a node thinks of an endpoint. Only a `good` one is asked for anything that has to be believed.
    EndpointStandingName {
        Good = "good",
        /// Nobody has asked it yet.
        Unchecked = "unchecked",
        /// It is behind others, or its head has not moved for too long.
        Lagging = "lagging",
        /// It fails; it is tried again from time to time.
        Down = "down",
        /// It has said when to come back.
        RateLimited = "rate_limited",
        /// It is of another chain.
        WrongChain = "wrong_chain",
        /// It goes to and fro between two forks.
        Flipping = "flipping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_same_words_as_in_the_ledger() {
        let kinds = TransitionName::ALL.iter().map(|name| EventKind::Tx(*name)).chain([EventKind::Accepted]);
        let mut words = 0;
        for kind in kinds {
            assert_eq!(TxEventName::from(kind).as_str(), kind.as_str());
            words += 1;
        }
        assert_eq!(words, TxEventName::ALL.len());
    }
}
