//! The HTTP API of Gapless.
