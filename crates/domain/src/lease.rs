//! Ownership of a lane: the lease, the fencing token, and the time for which a node may trust them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::id::SubmitterId;
use crate::time::Tick;

/// Identity of one node, that is one *process*. A restarted process gets a new id, so it never shares a fencing token
/// with a former process that still runs (N22).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(Arc<str>);

impl OwnerId {
    pub const MAX_NAME_BYTES: usize = 64;

    /// `unique` is drawn at every start of the process. `node_name` is for people; characters that are unsafe in a log
    /// line are removed.
    pub fn new(node_name: &str, unique: u128) -> Self {
        let name: String = node_name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            .take(Self::MAX_NAME_BYTES)
            .collect();
        OwnerId(format!("{name}/{unique:032x}").into())
    }

    /// Reads an owner from a store.
    pub fn restore(text: &str) -> Self {
        OwnerId(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fencing token: grows at every takeover of a lane and never restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub const fn new(value: u64) -> Self {
        FencingToken(value)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to write one lane, as a store granted it. Every fenced operation takes a lease, and the store checks each
/// time that the lease still holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    submitter: SubmitterId,
    owner: OwnerId,
    token: FencingToken,
}

impl Lease {
    /// For stores: makes a lease from the lease row.
    pub fn granted(submitter: SubmitterId, owner: OwnerId, token: FencingToken) -> Self {
        Lease { submitter, owner, token }
    }

    pub fn submitter(&self) -> &SubmitterId {
        &self.submitter
    }

    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    pub fn token(&self) -> FencingToken {
        self.token
    }
}

/// Durations of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    pub duration: Duration,
    pub renew_interval: Duration,
    /// Largest difference between the clocks of two database servers. A takeover waits this much longer.
    pub clock_skew: Duration,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        LeaseTerms {
            duration: Duration::from_secs(10),
            renew_interval: Duration::from_secs(3),
            clock_skew: Duration::from_secs(1),
        }
    }
}

impl LeaseTerms {
    /// True if two renewals fit into the trusted part of a lease. Otherwise one slow answer would cost the lane.
    pub fn are_sound(&self) -> bool {
        !self.renew_interval.is_zero() && self.renew_interval * 2 <= self.trusted_span()
    }

    /// How long a node trusts a lease by its own clock, counted from before the request.
    pub fn trusted_span(&self) -> Duration {
        self.duration.saturating_sub(self.clock_skew)
    }
}

/// A lease with the time until which its holder trusts it. That time is on the holder's own monotonic clock and lies
/// before the expiry in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    lease: Lease,
    trusted_until: Tick,
}

/// Proof that a lease was trusted a moment ago. Signing and sending take a permit (N06), and must end before it does.
#[derive(Debug)]
pub struct Permit {
    lease: Lease,
    until: Tick,
}

/// The lease is no longer trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease of {submitter} is no longer trusted by this node")]
pub struct Lapsed {
    pub submitter: SubmitterId,
}

impl Term {
    /// `asked_at` is the time *before* the request went to the store, because the answer may have been delayed.
    pub fn begin(lease: Lease, asked_at: Tick, terms: &LeaseTerms) -> Self {
        Term { lease, trusted_until: asked_at.saturating_add(terms.trusted_span()) }
    }

    /// Extends the trust after a renewal, or after a commit that extended the lease. A late answer to an older request
    /// shortens nothing.
    pub fn extend(&mut self, asked_at: Tick, terms: &LeaseTerms) {
        self.trusted_until = self.trusted_until.max(asked_at.saturating_add(terms.trusted_span()));
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn trusted_until(&self) -> Tick {
        self.trusted_until
    }

    pub fn permit(&self, now: Tick) -> Result<Permit, Lapsed> {
        if now < self.trusted_until {
            Ok(Permit { lease: self.lease.clone(), until: self.trusted_until })
        } else {
            Err(Lapsed { submitter: self.lease.submitter.clone() })
        }
    }
}

impl Permit {
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The time by which the permitted work must be done.
    pub fn until(&self) -> Tick {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        let submitter = "eip155:1:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
        Lease::granted(submitter, OwnerId::new("a", 1), FencingToken::new(1))
    }

    fn tick(seconds: u64) -> Tick {
        Tick::since_start(Duration::from_secs(seconds))
    }

    #[test]
    fn lease_trust_ends_before_database_expiry() {
        let terms = LeaseTerms::default();
        let term = Term::begin(lease(), tick(100), &terms);
        assert!(term.permit(tick(108)).is_ok());
        assert!(term.permit(tick(109)).is_err());
    }

    #[test]
    fn late_renewal_answer_does_not_shorten_trust() {
        let terms = LeaseTerms::default();
        let mut term = Term::begin(lease(), tick(100), &terms);
        term.extend(tick(103), &terms);
        term.extend(tick(101), &terms);
        assert_eq!(term.trusted_until(), tick(112));
    }

    #[test]
    fn restarted_node_is_another_owner() {
        assert_ne!(OwnerId::new("node-a", 1), OwnerId::new("node-a", 2));
        assert_eq!(OwnerId::new("no de\n/a", 0xff).as_str(), "nodea/000000000000000000000000000000ff");
    }

    #[test]
    fn sound_terms_allow_a_second_renewal() {
        assert!(LeaseTerms::default().are_sound());
        assert!(!LeaseTerms { renew_interval: Duration::from_secs(5), ..LeaseTerms::default() }.are_sound());
    }
}
