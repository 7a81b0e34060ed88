//! Secrets that an operator configures: keys, passwords, and URLs with credentials in them.
//!
//! - [`Secret`] is a text that is wiped from memory when it is dropped.
//! - [`SecretUrl`] is a URL that shows scheme, host and port only. One rule serves RPC endpoints, webhooks and
//!   databases.
//!
//! Architecture invariant: no `Debug`, `Display` or error of this crate repeats a secret (X03).

mod secret_text;
mod secret_url;

pub use secret_text::{Secret, SecretError};
pub use secret_url::{SecretUrl, UrlError};
