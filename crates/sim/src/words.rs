//! Moments in words, for whoever reads a trace.

use std::fmt;

use crate::history::Moment;

pub(crate) fn moment(moment: &Moment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{moment:?}")
}
