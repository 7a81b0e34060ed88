//! The list.

mod blocks;
mod calls;
mod contracts;
mod fees;
mod protocol;
mod sends;
mod subscriptions;
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
        subscriptions::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
