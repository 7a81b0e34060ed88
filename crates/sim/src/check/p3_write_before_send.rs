//! P3: no transaction is sent before it is durable.

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct WriteBeforeSend;

impl Check for WriteBeforeSend {
    fn promise(&self) -> &'static str {
        "P3"
    }

    /// A transaction that was durable and is lost now was still written before it was sent.
    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Sent { by, tx } = moment else { return Ok(()) };
        match view.durable(&tx.hash) {
            None => Err(CheckFailure::new(format!("{by} sent {}, which is not durable", tx.hash))),
            Some(raw) if *raw != tx.raw => {
                Err(CheckFailure::new(format!("{by} sent {} with bytes that differ from the durable ones", tx.hash)))
            }
            Some(_) => Ok(()),
        }
    }
}
