//! The list of all cases.

mod blocks;
mod calls;
mod contracts;
mod fees;
mod protocol;
mod sends;
mod subscriptions;
mod traces;
mod transactions;

use crate::case::Case;

pub(crate) fn all() -> Vec<Case> {
    [
        protocol::cases(),
        sends::cases(),
        transactions::cases(),
        blocks::cases(),
        fees::cases(),
        calls::cases(),
        contracts::cases(),
        traces::cases(),
        subscriptions::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
