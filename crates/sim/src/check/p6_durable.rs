//! P6: an acknowledged intent stays in the store for ever.

use gapless_domain::{RequestId, SubmitterId, TxId};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct AcceptedIsDurable;

impl Check for AcceptedIsDurable {
    fn promise(&self) -> &'static str {
        "P6"
    }

    /// Only a loss of commits removes rows, so it is sufficient to check at each acknowledgement and after each loss.
    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        match moment {
            Moment::Acknowledged { id, lane, request } => is_there(lane, request, *id, view),
            Moment::StoreLost { .. } => all_are_there(view),
            _ => Ok(()),
        }
    }

    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        all_are_there(view)?;
        view.finding("P6")
    }
}

fn all_are_there(view: &WorldView) -> Result<(), CheckFailure> {
    view.acknowledged.iter().try_for_each(|(lane, request, id)| is_there(lane, request, *id, view))
}

/// The caller must repeat a request that a reported loss has removed.
fn is_there(lane: &SubmitterId, request: &RequestId, id: TxId, view: &WorldView) -> Result<(), CheckFailure> {
    match view.ledger.intents.get(&id) {
        Some(entry) if entry.lane() == lane && entry.intent.request_id() == request => Ok(()),
        Some(_) => Err(CheckFailure::of(
            lane,
            format!("request {request} was acknowledged as {id}, which belongs to another request"),
        )),
        None if view.is_gone(id) => Ok(()),
        None => {
            Err(CheckFailure::of(lane, format!("request {request} was acknowledged as {id}, which is not durable")))
        }
    }
}
