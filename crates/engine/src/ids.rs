//! Sources of new ids.

use std::fmt;

use gapless_domain::TxId;
use uuid::Uuid;

pub trait Ids: Send + Sync + fmt::Debug {
    fn next_tx(&self) -> TxId;
}

/// UUID version 7: random enough to be unguessable, and ordered in time, so that the database appends to its indexes
/// instead of writing to random pages. No code relies on the time in it.
#[derive(Debug, Default)]
pub struct TimeOrderedIds;

impl Ids for TimeOrderedIds {
    #[expect(clippy::disallowed_methods, reason = "the only place that may create ids")]
    fn next_tx(&self) -> TxId {
        TxId::from_uuid(Uuid::now_v7())
    }
}
