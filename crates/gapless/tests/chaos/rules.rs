//! For how long, and by which seed: from the environment, where `cargo xtask chaos` puts them.

use std::env;
use std::fmt;
use std::time::Duration;

use crate::support::unique;

const MINUTES: &str = "GAPLESS_CHAOS_MINUTES";
const SEED: &str = "GAPLESS_CHAOS_SEED";
const BLINDLY: &str = "GAPLESS_CHAOS_RESEND_BLINDLY";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Without one, everything goes wrong once.
    pub(crate) span: Option<Duration>,
    pub(crate) seed: u64,
    /// Callers whose answers were lost ask again without having looked at what the operator has found on chain.
    pub(crate) resend_blindly: bool,
}

impl Rules {
    pub(crate) fn read() -> Self {
        let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let fresh = || u64::from_str_radix(&unique()[..8], 16).unwrap();
        Rules {
            span: number(MINUTES).map(|minutes| Duration::from_secs(60 * minutes)),
            seed: number(SEED).unwrap_or_else(fresh),
            resend_blindly: env::var_os(BLINDLY).is_some(),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span {
            Some(span) => write!(out, "{} minutes, seed {}", span.as_secs() / 60, self.seed),
            None => write!(out, "everything once, seed {}", self.seed),
        }
    }
}
