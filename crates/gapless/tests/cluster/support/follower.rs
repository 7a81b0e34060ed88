//! Somebody who reads nothing but events, and keeps the list of confirmations that they tell of.

use gapless_wire::{ConfirmationNoticeView, ConfirmationView, TxEventName, TxEventView};
use serde_json::Value;

use super::Database;

#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    pub(crate) list: Vec<ConfirmationView>,
    /// How often the transaction's own block went.
    pub(crate) unmined: usize,
}

impl Follower {
    /// One that has read all of these.
    pub(crate) fn of(events: &[TxEventView]) -> Self {
        let mut follower = Follower::default();
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(event.seq, seq, "a change is missing among {events:?}");
            follower.hear(event.event, event.confirmations.as_ref());
        }
        follower
    }

    /// One that has read the rows of a transaction, as the database has them.
    pub(crate) async fn of_rows(database: &Database, tx_id: &str) -> Self {
        let query = format!("SELECT kind, notice::text FROM tx_event WHERE tx_id = '{tx_id}' ORDER BY xid, id");
        let mut follower = Follower::default();
        for row in database.raw().await.query(&query, &[]).await.unwrap() {
            let kind = TxEventName::parse(row.get("kind")).unwrap();
            let notice = row.get::<_, Option<&str>>("notice").map(|json| notice(&serde_json::from_str(json).unwrap()));
            follower.hear(kind, notice.as_ref());
        }
        follower
    }

    /// What a consumer does (docs/watching.md); and what it may rely on is asserted.
    fn hear(&mut self, event: TxEventName, notice: Option<&ConfirmationNoticeView>) {
        if event == TxEventName::Unmine {
            assert!(notice.is_none(), "what is not mined has no confirmations: {notice:?}");
            self.list.clear();
            self.unmined += 1;
        }
        let Some(notice) = notice else { return };
        assert!(!notice.blocks.is_empty() || notice.new_fork, "{event} tells of nothing");
        if self.list.is_empty() {
            assert!(notice.new_fork, "the first notice is a whole list: {notice:?}");
        }
        if event == TxEventName::Mine {
            assert!(self.list.is_empty(), "mined where it was mined already");
        }
        if notice.new_fork {
            if let Some(own) = self.list.first() {
                assert_eq!(
                    notice.blocks.first(),
                    Some(own),
                    "another block of its own, and nobody said that this one went"
                );
                assert!(!notice.blocks.starts_with(&self.list), "nothing that was told has changed: {notice:?}");
            }
            self.list.clear();
        }
        self.list.extend(notice.blocks.iter().cloned());
        for pair in self.list.windows(2) {
            assert_eq!(pair[1].parent_hash, pair[0].block_hash, "{event} does not link: {:?}", self.list);
            assert_eq!(pair[1].block_number, pair[0].block_number + 1);
        }
    }
}

/// `{"new_fork": true, "links": [[number, hash, parent], …]}`.
fn notice(row: &Value) -> ConfirmationNoticeView {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let block = |link: &Value| ConfirmationView {
        block_number: link[0].as_u64().unwrap(),
        block_hash: text(&link[1]),
        parent_hash: text(&link[2]),
    };
    let new_fork = row.get("new_fork").is_some_and(|value| value.as_bool().unwrap());
    ConfirmationNoticeView { new_fork, blocks: row["links"].as_array().unwrap().iter().map(block).collect() }
}
