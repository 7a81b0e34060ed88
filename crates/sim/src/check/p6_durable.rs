//! P6: what a caller has seen accepted is there, for ever.

use gapless_domain::{RequestId, SubmitterId, TxId};

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct Durable;

impl Check for Durable {
    fn promise(&self) -> &'static str {
        "P6"
    }

    /// Rows are never taken out but by a loss of commits, so it is enough to look when it is acknowledged, and after a loss.
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

/// What was lost, and was told to be lost, is the caller's to send again.
fn is_there(lane: &SubmitterId, request: &RequestId, id: TxId, picture: &Picture) -> Result<(), Broken> {
    match picture.ledger.intents.get(&id) {
        Some(entry) if entry.lane() == lane && entry.intent.request_id() == request => Ok(()),
        Some(_) => Err(Broken::of(lane, format!("request {request} was acknowledged as {id}, which is another's"))),
        None if picture.is_gone(id) => Ok(()),
        None => Err(Broken::of(lane, format!("request {request} was acknowledged as {id}, which is not durable"))),
    }
}
