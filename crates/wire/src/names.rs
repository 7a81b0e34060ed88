//! Fixed words of the API, each the twin of a domain name.
//!
//! These types exist because the domain has no serde. The `From` below is an exhaustive match, so a new domain name
//! does not compile until it has a word here.

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

        // Written by hand, because the derive does not see names that a macro produces.
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
    /// Progress within a state.
    SubStateName = gapless_domain::SubStateName {
        Pending = "PENDING",
        Mined = "MINED",
        AwaitingFunds = "AWAITING_FUNDS",
        Canceling = "CANCELING",
        Replacing = "REPLACING",
    }
}

/// Kind of an event of an intent: `accepted`, or the name of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxEventName(EventKind);

impl TxEventName {
    pub const ACCEPTED: TxEventName = TxEventName(EventKind::Accepted);
    pub const MINE: TxEventName = TxEventName(EventKind::Tx(TransitionName::Mine));
    pub const UNMINE: TxEventName = TxEventName(EventKind::Tx(TransitionName::Unmine));

    pub fn all() -> impl Iterator<Item = TxEventName> {
        let transitions = TransitionName::ALL.iter().map(|name| TxEventName(EventKind::Tx(*name)));
        std::iter::once(TxEventName::ACCEPTED).chain(transitions)
    }

    pub fn as_str(self) -> &'static str {
        self.0.as_str()
    }

    pub fn parse(text: &str) -> Option<Self> {
        EventKind::parse(text).map(TxEventName)
    }
}

impl std::fmt::Display for TxEventName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<EventKind> for TxEventName {
    fn from(kind: EventKind) -> Self {
        TxEventName(kind)
    }
}

impl Serialize for TxEventName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for TxEventName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        TxEventName::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("unknown event name `{text}`")))
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for TxEventName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        word_schema(TxEventName::all().map(TxEventName::as_str))
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for TxEventName {}

words! {
    /// Price level that the caller chose.
    Speed = gapless_domain::Speed {
        Slow = "slow",
        Standard = "standard",
        Fast = "fast",
        Instant = "instant",
    }
}

words! {
    /// Purpose of an attempt.
    AttemptKindName = gapless_domain::AttemptKind {
        Original = "original",
        Bump = "bump",
        Replace = "replace",
        Cancel = "cancel",
        Fill = "fill",
    }
}

words! {
    /// Signal of the endpoints' pools about an unmined transaction. It guides resends and proves nothing.
    /// `likely_dropped`: every endpoint answered, and none has it. `likely_replaced`: none has it, and an endpoint
    /// counts its nonce as taken.
    MempoolSignalName = gapless_domain::MempoolSignal {
        InMempool = "in_mempool",
        LikelyDropped = "likely_dropped",
        LikelyReplaced = "likely_replaced",
        Unknown = "unknown",
    }
}

words! {
    /// Rule for transactions whose nonce was finally used by something else.
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
    /// State of a submitter's lane. PROTECT binds no new nonce until an operator decides.
    LaneStateName {
        Idle = "IDLE",
        InFlight = "IN_FLIGHT",
        Protect = "PROTECT",
    }
}

words! {
    /// Rule that makes a block of a chain final.
    FinalityName {
        /// Enough blocks on top of it.
        Depth = "depth",
        /// Enough blocks on top of it, and under the chain's `safe` tag.
        Safe = "safe",
        /// Under the chain's `finalized` tag.
        Finalized = "finalized",
    }
}

words! {
    /// A declaration of an operator about the database.
    StoreDeclarationName {
        /// The database was restored, or has lost commits.
        Lost = "lost",
        /// Every loss so far is reconciled.
        Reconciled = "reconciled",
    }
}

words! {
    /// Health of an endpoint. Only a `good` endpoint is trusted.
    EndpointStandingName {
        Good = "good",
        /// Not asked yet.
        Unchecked = "unchecked",
        /// Behind other endpoints, or its head has not moved for too long.
        Lagging = "lagging",
        /// Failing; tried again from time to time.
        Down = "down",
        /// Rate limited; it has said when to come back.
        RateLimited = "rate_limited",
        /// Belongs to another chain.
        WrongChain = "wrong_chain",
        /// Alternates between two forks.
        Flipping = "flipping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_round_trip_as_json() {
        let names: Vec<TxEventName> = TxEventName::all().collect();
        assert_eq!(names.len(), TransitionName::ALL.len() + 1);
        let json = serde_json::to_string(&names).unwrap();
        assert!(json.starts_with(r#"["accepted","bind","#), "{json}");
        assert_eq!(serde_json::from_str::<Vec<TxEventName>>(&json).unwrap(), names);
        assert!(serde_json::from_str::<TxEventName>(r#""unheard_of""#).is_err());
    }
}
