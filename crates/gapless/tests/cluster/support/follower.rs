//! A consumer that reads only events, and keeps the confirmation list that they describe.

use gapless_wire::{ConfirmationNoticeView, ConfirmationView, TxEventName, TxEventView};
use serde_json::Value;

use super::TestDatabase;

#[derive(Clone, Debug, Default)]
pub(crate) struct EventFollower {
    pub(crate) list: Vec<ConfirmationView>,
    /// How often the block of the transaction was orphaned.
    pub(crate) unmined: usize,
}

impl EventFollower {
    /// A follower that has read these events.
    pub(crate) fn of(events: &[TxEventView]) -> Self {
        let mut follower = EventFollower::default();
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(event.seq, seq, "an event is missing in {events:?}");
            follower.apply(event.event, event.confirmations.as_ref());
        }
        follower
    }

    /// A follower that has read the event rows of a transaction.
    pub(crate) async fn of_rows(database: &TestDatabase, tx_id: &str) -> Self {
        let query = format!("SELECT kind, notice::text FROM tx_event WHERE tx_id = '{tx_id}' ORDER BY xid, id");
        let mut follower = EventFollower::default();
        for row in database.raw().await.query(&query, &[]).await.unwrap() {
            let kind = TxEventName::parse(row.get("kind")).unwrap();
            let notice = row.get::<_, Option<&str>>("notice").map(|json| notice(&serde_json::from_str(json).unwrap()));
            follower.apply(kind, notice.as_ref());
        }
        follower
    }

    /// Applies an event as a consumer does (docs/watching.md), and asserts the rules that a consumer relies on.
    fn apply(&mut self, event: TxEventName, notice: Option<&ConfirmationNoticeView>) {
        if event == TxEventName::UNMINE {
            assert!(notice.is_none(), "an unmined transaction has confirmations: {notice:?}");
            self.list.clear();
            self.unmined += 1;
        }
        let Some(notice) = notice else { return };
        assert!(!notice.blocks.is_empty() || notice.new_fork, "the notice of {event} is empty");
        if self.list.is_empty() {
            assert!(notice.new_fork, "the first notice does not begin a list: {notice:?}");
        }
        if event == TxEventName::MINE {
            assert!(self.list.is_empty(), "a mined transaction is mined again");
        }
        if notice.new_fork {
            if let Some(own) = self.list.first() {
                assert_eq!(
                    notice.blocks.first(),
                    Some(own),
                    "the transaction has another block without an unmine event"
                );
                assert!(!notice.blocks.starts_with(&self.list), "the new fork has no changed block: {notice:?}");
            }
            self.list.clear();
        }
        self.list.extend(notice.blocks.iter().cloned());
        for pair in self.list.windows(2) {
            assert_eq!(pair[1].parent_hash, pair[0].block_hash, "{event} breaks the links: {:?}", self.list);
            assert_eq!(pair[1].block_number, pair[0].block_number + 1);
        }
    }
}

/// Parses the stored form `{"new_fork": true, "links": [[number, hash, parent], …]}`.
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
