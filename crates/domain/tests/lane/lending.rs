//! Nonces for callers who sign by themselves.
