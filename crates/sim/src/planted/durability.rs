//! A bug that sends bytes before they are durable.

use gapless_domain::{Effect, Fact, Lane, NewAttempt, Outgoing, SignedTx};

use super::lane::{KnownLane, LaneBug};

/// Sends the attempts of a commit together with the commit.
#[derive(Debug)]
pub(super) struct SendBeforeCommit;

impl LaneBug for SendBeforeCommit {
    fn alter_effects(&mut self, effects: &mut Vec<Effect>, _: &KnownLane, _: &Lane) -> Vec<Fact> {
        let outgoing = |NewAttempt { nonce, hash, raw, .. }: &NewAttempt| Outgoing {
            nonce: *nonce,
            tx: SignedTx { hash: *hash, raw: raw.clone() },
        };
        let unsent = |effect: &Effect| match effect {
            Effect::Commit(commit) => commit.attempts().iter().map(outgoing).collect(),
            _ => Vec::new(),
        };
        let early: Vec<Outgoing> = effects.iter().flat_map(unsent).collect();
        if !early.is_empty() {
            effects.insert(0, Effect::Broadcast(early));
        }
        Vec::new()
    }
}
