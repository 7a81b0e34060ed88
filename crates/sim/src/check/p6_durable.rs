//! P6: an acknowledged intent stays in the store for ever.

use gapless_domain::{RequestId, SubmitterId, TxId};

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct Durable;

impl Check for Durable {
    fn promise(&self) -> &'static str {
        "P6"
    }

    /// Only a loss of commits removes rows, so it is sufficient to check at each acknowledgement and after each loss.
    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        match moment {
            Moment::Acknowledged { id, lane, request } => is_there(lane, request, *id, picture),
            Moment::StoreLost { .. } => all_are_there(picture),
            _ => Ok(()),
        }
    }

    fn end(&mut self, picture: &Picture) -> Result<(), Broken> {
        all_are_there(picture)?;
        picture.finding("P6")
    }
}

fn all_are_there(picture: &Picture) -> Result<(), Broken> {
    picture.acknowledged.iter().try_for_each(|(lane, request, id)| is_there(lane, request, *id, picture))
}

/// The caller must repeat a request that a reported loss has removed.
fn is_there(lane: &SubmitterId, request: &RequestId, id: TxId, picture: &Picture) -> Result<(), Broken> {
    match picture.ledger.intents.get(&id) {
        Some(entry) if entry.lane() == lane && entry.intent.request_id() == request => Ok(()),
        Some(_) => Err(Broken::of(lane, format!("request {request} was acknowledged as {id}, which is another's"))),
        None if picture.is_gone(id) => Ok(()),
        None => Err(Broken::of(lane, format!("request {request} was acknowledged as {id}, which is not durable"))),
    }
}
