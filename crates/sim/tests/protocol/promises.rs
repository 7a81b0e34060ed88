//! The promises, as statements about a world.

use stateright::Property;

use crate::ledger::{Does, INTENTS, Intent, Ledger, NONCES, Slot};
use crate::steps::Protocol;
use crate::world::{Block, Chain, World};

pub(crate) const EXACTLY_ONCE: &str = "P1 exactly once";
pub(crate) const NO_GAP: &str = "P2 no gap, no duplicate";
pub(crate) const WRITE_BEFORE_SEND: &str = "P3 write before send";
pub(crate) const STICKY: &str = "P4 sticky nonce";
pub(crate) const FENCED: &str = "P5 fenced";
/// The purpose of P5: the owner of a lane knows all its rows.
pub(crate) const EXACT: &str = "P5 the owner's memory is exact";
pub(crate) const WINDOW: &str = "N13 within the window";

pub(crate) const ALL: [&str; 7] = [EXACTLY_ONCE, NO_GAP, WRITE_BEFORE_SEND, STICKY, FENCED, EXACT, WINDOW];

pub(crate) const ALL_CONFIRMED: &str = "every intent is confirmed";

pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(EXACTLY_ONCE, |_, world: &World| exactly_once(world)),
        Property::always(NO_GAP, |_, world: &World| no_gap(&world.ledger)),
        Property::always(WRITE_BEFORE_SEND, |_, world: &World| write_before_send(world)),
        Property::always(STICKY, |_, world: &World| !world.broken.sticky),
        Property::always(FENCED, |_, world: &World| !world.broken.fence),
        Property::always(EXACT, |_, world: &World| exact(world)),
        Property::always(WINDOW, |model: &Protocol, world: &World| {
            // A reorg may overfill the window afterwards.
            model.reorgs > 0 || world.ledger.next_nonce.saturating_sub(world.chain.height) <= model.window
        }),
        Property::sometimes(ALL_CONFIRMED, |model: &Protocol, world: &World| {
            world.ledger.intents[..model.intents].iter().all(|intent| *intent == Intent::Confirmed)
        }),
    ]
}

/// An intent takes effect at most once. Its terminal state says whether it did, and never changes.
fn exactly_once(world: &World) -> bool {
    let mut effects = [0; INTENTS];
    for block in &world.chain.blocks {
        if let Block::Ours(hash) = block
            && let Does::Intent(intent) = hash.does
        {
            effects[usize::from(intent)] += 1;
        }
    }
    let agrees = |(intent, effects): (&Intent, u32)| match intent {
        Intent::Confirmed => effects == 1,
        Intent::Canceled => effects == 0,
        Intent::Absent | Intent::Queued | Intent::Bound(_) => effects <= 1,
    };
    !world.broken.terminal && world.ledger.intents.iter().zip(effects).all(agrees)
}

/// Every nonce below the cursor has one slot, no nonce above has one, and slots and intents agree.
fn no_gap(ledger: &Ledger) -> bool {
    let contiguous = (0..NONCES).all(|n| (ledger.slots[n] != Slot::Free) == (n < usize::from(ledger.next_nonce)));
    let one_slot_each = (0..INTENTS).all(|i| {
        let mut held = (0..NONCES).filter(|n| ledger.slots[*n] == Slot::Of(i as u8));
        let (first, second) = (held.next(), held.next());
        let agrees = match ledger.intents[i] {
            Intent::Absent | Intent::Queued => first.is_none(),
            Intent::Bound(nonce) => first == Some(usize::from(nonce)),
            Intent::Confirmed | Intent::Canceled => first.is_some(),
        };
        agrees && second.is_none()
    });
    contiguous && one_slot_each
}

/// Every transaction in the pool or in a block is durable.
fn write_before_send(world: &World) -> bool {
    let durable = world.ledger.attempts;
    let mined_is_durable = world.chain.blocks.iter().all(|block| match block {
        Block::Ours(hash) => durable.contains(*hash),
        Block::NotYet | Block::Foreign => true,
    });
    mined_is_durable && world.chain.pool.without(durable).is_empty()
}

/// The owner's memory equals the durable rows, up to its own commit that is under way.
fn exact(world: &World) -> bool {
    let owners = world.nodes.iter().filter(|node| world.is_owner(node));
    owners.filter_map(|node| node.mind.memory()).all(|memory| *memory == world.ledger)
}

/// Did a slot lose its intent, or an intent its slot, although no foreign transaction has used the nonce?
pub(crate) fn lets_go(before: &Ledger, after: &Ledger, chain: &Chain) -> bool {
    let is_gone = |nonce: u8| chain.is_final(nonce) && chain.block(nonce) == Block::Foreign;
    let slot_moved = (0..NONCES as u8).any(|nonce| {
        let (old, new) = (before.slot(nonce), after.slot(nonce));
        matches!(old, Slot::Of(_)) && new != old && !is_gone(nonce)
    });
    let intent_moved = before.intents.iter().zip(&after.intents).any(|(old, new)| match (old, new) {
        (Intent::Bound(nonce), new) if new != old && !new.is_terminal() => !is_gone(*nonce),
        _ => false,
    });
    slot_moved || intent_moved
}

pub(crate) fn changes_an_end(before: &Ledger, after: &Ledger) -> bool {
    before.intents.iter().zip(&after.intents).any(|(old, new)| old.is_terminal() && old != new)
}
