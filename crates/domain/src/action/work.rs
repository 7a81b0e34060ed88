//! The work of a transaction: the measure that a chain charges for.

/// An amount of work, in the unit of the chain: gas on EVM chains. In a plan it is the highest amount that the
/// transaction may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    pub units: u64,
}

impl Work {
    pub const fn new(units: u64) -> Self {
        Work { units }
    }
}
