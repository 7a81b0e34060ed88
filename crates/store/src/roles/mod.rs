//! The contract of a store, in seven roles. Each part of the program takes the roles that it needs.
//!
//! | role | purpose | used by |
//! | --- | --- | --- |
//! | [`IntentIntake`] | submitters, intents and commands: writes that need no lease | intake, API |
//! | [`Leases`] | ownership of lanes, and the search for lanes without an owner | lease keeper, dispatcher |
//! | [`Lanes`] | the work of a lane's owner: load, commit, peek, open commands | dispatcher, lane writer, peeker |
//! | [`Outbox`] | events for consumers, each at least once and in order | consumers of events |
//! | [`Views`] | reads for callers and operators; nothing is decided from them | API |
//! | [`Heads`] | the linked head of each chain | watcher, API |
//! | [`Upkeep`] | retention, and the operator's statements about a lost database | operators |
//!
//! Rules that hold for every verb:
//!
//! - A verb is atomic, and most verbs take many items. A verb that takes a list answers in the order of its input, with
//!   one answer for each item.
//! - An `Err` means that the call changed nothing that the caller has to know of, and that the call may be repeated.
//!   Verbs with other rules say so.
//! - Lease expiry and the ages of rows are measured by the database's clock. No verb takes the time from a node.
//! - A handle belongs to one node ([`Leases::owner`]). Many handles share one database.

mod heads;
mod intake;
mod lanes;
mod leases;
mod outbox;
mod upkeep;
mod views;

pub use heads::{HeadVerdict, Heads};
pub use intake::{Accepted, CancelVerdict, IntentIntake, NewIntent, NewSubmitter};
pub use lanes::{CommitVerdict, Committed, Conflict, Lanes, Loaded, MAX_OPEN_COMMANDS};
pub use leases::{Acquired, Census, Leases, Renewal};
pub use outbox::Outbox;
pub use upkeep::Upkeep;
pub use views::{AuditFilter, LaneStatus, LeaseStatus, SlotStatus, TxFilter, Views};

/// A complete store: all roles together. Only the composition root and tests use it; every other part takes single
/// roles. Each type that has all roles is a `Store`.
pub trait Store: IntentIntake + Leases + Lanes + Outbox + Views + Heads + Upkeep {}

impl<T: IntentIntake + Leases + Lanes + Outbox + Views + Heads + Upkeep + ?Sized> Store for T {}
