//! The composition root: builds the rooms from the config and puts them together.

use uuid::Uuid;

/// The random part of a process's name: never the same twice (N22).
#[expect(clippy::disallowed_methods, reason = "the composition root gives every process its own identity")]
pub(crate) fn unique() -> u128 {
    Uuid::new_v4().as_u128()
}
