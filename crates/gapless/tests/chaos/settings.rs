//! The duration and the seed of a run, from the environment variables that `cargo xtask chaos` sets.

use std::env;
use std::fmt;
use std::time::Duration;

use crate::support::unique;

const MINUTES: &str = "GAPLESS_CHAOS_MINUTES";
const SEED: &str = "GAPLESS_CHAOS_SEED";
const BLINDLY: &str = "GAPLESS_CHAOS_RESEND_BLINDLY";

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSettings {
    /// The duration of the faults; `None` runs every fault once.
    pub(crate) span: Option<Duration>,
    pub(crate) seed: u64,
    /// Callers repeat requests whose answers were lost, although their transactions may be on chain.
    pub(crate) resend_blindly: bool,
}

impl RunSettings {
    pub(crate) fn read() -> Self {
        let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let fresh = || u64::from_str_radix(&unique()[..8], 16).unwrap();
        RunSettings {
            span: number(MINUTES).map(|minutes| Duration::from_secs(60 * minutes)),
            seed: number(SEED).unwrap_or_else(fresh),
            resend_blindly: env::var_os(BLINDLY).is_some(),
        }
    }
}

impl fmt::Display for RunSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span {
            Some(span) => write!(out, "{} minutes, seed {}", span.as_secs() / 60, self.seed),
            None => write!(out, "every fault once, seed {}", self.seed),
        }
    }
}
