//! Confirmations of a transaction: linked blocks that begin with its own.

use gapless_domain::{BlockLink, ConfirmationNotice, Event, EventBody, EventKind, TransitionName};
use serde::{Deserialize, Serialize};

/// One confirmation: a block and the hash of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationView {
    pub block_number: u64,
    pub block_hash: String,
    pub parent_hash: String,
}

/// Change of the confirmations in an event. A consumer keeps a list: with `newFork` it empties the list first, and then
/// appends `blocks`. The event `unmine` empties the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationNoticeView {
    /// True if `blocks` is the whole list: earlier blocks are invalid, or there were none.
    pub new_fork: bool,
    pub blocks: Vec<ConfirmationView>,
}

impl From<&BlockLink> for ConfirmationView {
    fn from(link: &BlockLink) -> Self {
        ConfirmationView {
            block_number: link.block.number,
            block_hash: link.block.hash.to_string(),
            parent_hash: link.parent_hash.to_string(),
        }
    }
}

impl From<&ConfirmationNotice> for ConfirmationNoticeView {
    fn from(notice: &ConfirmationNotice) -> Self {
        ConfirmationNoticeView {
            new_fork: notice.new_fork,
            blocks: notice.links.iter().map(ConfirmationView::from).collect(),
        }
    }
}

/// The list of a consumer that followed the events from the first one to this version; `None` if the events do not
/// reach it.
pub(crate) fn list_at(version: u32, events: &[Event]) -> Option<Vec<ConfirmationView>> {
    let mut list = Vec::new();
    let mut reached = 0;
    for event in events {
        let EventBody::Tx { seq, kind, notice, .. } = &event.body else { continue };
        if *seq > version {
            break;
        }
        reached = *seq;
        if *kind == EventKind::Tx(TransitionName::Unmine) {
            list.clear();
        }
        if let Some(notice) = notice {
            notice.apply(&mut list);
        }
    }
    (reached == version).then(|| list.iter().map(ConfirmationView::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{B256, BlockRef, EventPosition, Timestamp, TxId, TxState};

    fn link(number: u64, fork: u8) -> BlockLink {
        let hash = |number: u64| B256::with_last_byte(number as u8 * 16 + fork);
        BlockLink { block: BlockRef { number, hash: hash(number) }, parent_hash: hash(number - 1) }
    }

    type Told = Option<(bool, Vec<BlockLink>)>;

    fn history(events: &[(&str, Told)]) -> Vec<Event> {
        let event = |(at, (kind, notice)): (usize, &(&str, Told))| Event {
            position: EventPosition::default(),
            submitter: "eip155:1:0x1111111111111111111111111111111111111111".parse().unwrap(),
            at: Timestamp::from_micros(0),
            body: EventBody::Tx {
                tx_id: "0190a6e0-0000-7000-8000-000000000000".parse::<TxId>().unwrap(),
                seq: at as u32 + 1,
                kind: EventKind::parse(kind).unwrap(),
                state: TxState::Queued,
                notice: notice.clone().map(|(new_fork, links)| ConfirmationNotice { new_fork, links }),
            },
        };
        events.iter().enumerate().map(event).collect()
    }

    fn hashes(list: Option<Vec<ConfirmationView>>) -> Option<Vec<String>> {
        list.map(|list| list.into_iter().map(|block| block.block_hash).collect())
    }

    fn expected(links: &[BlockLink]) -> Option<Vec<String>> {
        Some(links.iter().map(|link| link.block.hash.to_string()).collect())
    }

    #[test]
    fn list_contains_notices_up_to_version() {
        let events = history(&[
            ("accepted", None),
            ("mine", Some((true, vec![link(5, 0)]))),
            ("confirm", Some((false, vec![link(6, 0), link(7, 0)]))),
            ("confirm", Some((true, vec![link(5, 0), link(6, 1)]))),
            ("unmine", None),
            ("mine", Some((true, vec![link(6, 2)]))),
            ("settle", Some((false, vec![link(7, 2)]))),
        ]);
        let at = |version| hashes(list_at(version, &events));
        assert_eq!(at(1), expected(&[]));
        assert_eq!(at(2), expected(&[link(5, 0)]));
        assert_eq!(at(3), expected(&[link(5, 0), link(6, 0), link(7, 0)]));
        assert_eq!(at(4), expected(&[link(5, 0), link(6, 1)]));
        assert_eq!(at(5), expected(&[]));
        assert_eq!(at(7), expected(&[link(6, 2), link(7, 2)]));
        assert_eq!(at(8), None, "the events do not reach it");
        assert_eq!(hashes(list_at(1, &[])), None);
    }
}
