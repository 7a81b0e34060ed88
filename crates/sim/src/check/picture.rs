//! What the moments add up to.

#[derive(Debug, Default)]
pub struct Picture {}
