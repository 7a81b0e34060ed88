//! One case: what is done, and what comes of it on which node.

use std::panic;

use crate::node::Node;
use crate::stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    DevChain,
    Anvil,
    Hardhat,
}

/// What a node that is not geth does.
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
    /// `geth` is what geth answers, and so what the dev chain has to answer.
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

    /// A difference that is none would make the table lie.
    pub(crate) fn differs(&self, target: Target) -> bool {
        self.expected(target) != self.geth
    }

    /// What is wrong, if anything is.
    pub(crate) fn check(&self, node: &Node) -> Option<String> {
        // One case that panics must not hide the others.
        let run = || (self.run)(&Stage::new(node, self.name));
        let seen =
            panic::catch_unwind(panic::AssertUnwindSafe(run)).unwrap_or_else(|_| "a panic, see above".to_owned());
        let expected = self.expected(node.target());
        (seen != expected).then(|| format!("{}\n  expected: {expected}\n      seen: {seen}", self.name))
    }
}
