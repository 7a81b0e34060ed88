//! Cases that every SQL store runs in its tests.
