//! A conformance case, with its expected outcome per node.

use std::panic;

use crate::case_env::CaseEnv;
use crate::node::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    DevChain,
    Anvil,
    Hardhat,
}

/// The expected outcome of a node other than geth.
#[derive(Clone, Copy, Debug)]
enum Expectation {
    Same,
    Differs(&'static str),
}

pub(crate) struct Case {
    pub(crate) name: &'static str,
    run: fn(&CaseEnv<'_>) -> String,
    geth: &'static str,
    anvil: Expectation,
    hardhat: Expectation,
}

impl Case {
    /// `geth` is geth's outcome, which the dev chain must match.
    pub(crate) fn new(name: &'static str, run: fn(&CaseEnv<'_>) -> String, geth: &'static str) -> Self {
        Self { name, run, geth, anvil: Expectation::Same, hardhat: Expectation::Same }
    }

    pub(crate) fn anvil(self, seen: &'static str) -> Self {
        Self { anvil: Expectation::Differs(seen), ..self }
    }

    pub(crate) fn hardhat(self, seen: &'static str) -> Self {
        Self { hardhat: Expectation::Differs(seen), ..self }
    }

    pub(crate) fn expected(&self, kind: NodeKind) -> &'static str {
        let other = match kind {
            NodeKind::DevChain => Expectation::Same,
            NodeKind::Anvil => self.anvil,
            NodeKind::Hardhat => self.hardhat,
        };
        match other {
            Expectation::Same => self.geth,
            Expectation::Differs(seen) => seen,
        }
    }

    /// True if the expected outcome differs from geth's. A listed difference that equals geth's outcome is none.
    pub(crate) fn differs(&self, kind: NodeKind) -> bool {
        self.expected(kind) != self.geth
    }

    /// Runs the case. Returns a description of the difference, if there is one.
    pub(crate) fn check(&self, node: &Node) -> Option<String> {
        // A panic of one case must not hide the others.
        let run = || (self.run)(&CaseEnv::new(node, self.name));
        let seen =
            panic::catch_unwind(panic::AssertUnwindSafe(run)).unwrap_or_else(|_| "a panic, see above".to_owned());
        let expected = self.expected(node.kind());
        (seen != expected).then(|| format!("{}\n  expected: {expected}\n      seen: {seen}", self.name))
    }
}
