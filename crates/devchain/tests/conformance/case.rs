//! A conformance case, with its expected outcome per node.

use std::panic;

use crate::node::Node;
use crate::stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    DevChain,
    Anvil,
    Hardhat,
}

/// The expected outcome of a node other than geth.
#[derive(Clone, Copy, Debug)]
enum Other {
    Same,
    Differs(&'static str),
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    run: fn(&Stage<'_>) -> String,
    geth: &'static str,
    anvil: Other,
    hardhat: Other,
}

impl Case {
    /// `geth` is geth's outcome, which the dev chain must match.
    pub(crate) fn new(name: &'static str, run: fn(&Stage<'_>) -> String, geth: &'static str) -> Self {
        Self { name, run, geth, anvil: Other::Same, hardhat: Other::Same }
    }

    pub(crate) fn anvil(self, seen: &'static str) -> Self {
        Self { anvil: Other::Differs(seen), ..self }
    }

    pub(crate) fn hardhat(self, seen: &'static str) -> Self {
        Self { hardhat: Other::Differs(seen), ..self }
    }

    pub(crate) fn expected(&self, target: Target) -> &'static str {
        let other = match target {
            Target::DevChain => Other::Same,
            Target::Anvil => self.anvil,
            Target::Hardhat => self.hardhat,
        };
        match other {
            Other::Same => self.geth,
            Other::Differs(seen) => seen,
        }
    }

    /// True if the expected outcome differs from geth's. A listed difference that equals geth's outcome is none.
    pub(crate) fn differs(&self, target: Target) -> bool {
        self.expected(target) != self.geth
    }

    /// Runs the case. Returns a description of the difference, if there is one.
    pub(crate) fn check(&self, node: &Node) -> Option<String> {
        // A panic of one case must not hide the others.
        let run = || (self.run)(&Stage::new(node, self.name));
        let seen =
            panic::catch_unwind(panic::AssertUnwindSafe(run)).unwrap_or_else(|_| "a panic, see above".to_owned());
        let expected = self.expected(node.target());
        (seen != expected).then(|| format!("{}\n  expected: {expected}\n      seen: {seen}", self.name))
    }
}
