//! P1: an intent takes effect at most once, and it has one terminal state that never changes.

use gapless_domain::{StateName, TxId};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct ExactlyOnce;

impl Check for ExactlyOnce {
    fn promise(&self) -> &'static str {
        "P1"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        match moment {
            // Checked before blocks are final, because both could become final.
            Moment::Mined { block } => block.txs.iter().try_for_each(|tx| {
                let Some(effect) = tx.effect() else { return Ok(()) };
                let hash = tx.hash();
                let mut others = view.blocks.carriers(effect).filter(|other| **other != hash);
                others.next().map_or(Ok(()), |other| {
                    let what = format!("effect {effect} is on the chain twice: by {other} and by {hash}");
                    Err(CheckFailure::of(&tx.read.plan.submitter, what))
                })
            }),
            Moment::Accepted { id, intent } => view.before.same_request.map_or(Ok(()), |other| {
                let what = format!("request {} was accepted as {other} and again as {id}", intent.request_id());
                Err(CheckFailure::of(intent.submitter(), what))
            }),
            Moment::Committed { commit, .. } => {
                let rows = commit.changes().iter().zip(&view.before.rows);
                rows.map(|(change, row)| (change.tx_id(), row, change.to().name())).try_for_each(|(id, row, to)| {
                    let from = row.as_ref().map(|(state, _)| state.name());
                    has_not_ended(id, from, to).map_err(|what| CheckFailure::of(commit.lease().submitter(), what))
                })
            }
            Moment::CanceledInQueue { id } => {
                let from = view.before.rows.first().and_then(|row| Some(row.as_ref()?.0.name()));
                let lane = view.ledger.intents.get(id).map(|entry| entry.lane().clone());
                has_not_ended(*id, from, StateName::Canceled).map_err(|what| CheckFailure { lane, what })
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        view.finding("P1")
    }
}

fn has_not_ended(id: TxId, from: Option<StateName>, to: StateName) -> Result<(), String> {
    match from {
        Some(from) if from.is_terminal() => Err(format!("{id} ended as {}, but is {} now", from.as_str(), to.as_str())),
        _ => Ok(()),
    }
}
