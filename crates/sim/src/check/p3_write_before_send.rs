//! P3: no byte leaves before it is durable.

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct WriteBeforeSend;

impl Check for WriteBeforeSend {
    fn promise(&self) -> &'static str {
        "P3"
    }

    /// What was durable once, and is lost by now, was written before it was sent all the same.
    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        let Moment::Sent { by, tx } = moment else { return Ok(()) };
        match picture.durable(&tx.hash) {
            None => Err(Broken::new(format!("{by} sent {}, which is not durable", tx.hash))),
            Some(raw) if *raw != tx.raw => Err(Broken::new(format!("{by} sent other bytes as {}", tx.hash))),
            Some(_) => Ok(()),
        }
    }
}
