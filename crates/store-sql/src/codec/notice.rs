//! Confirmation notices as JSON.

use gapless_domain::{BlockLink, BlockRef, ConfirmationNotice};
use gapless_store::RowError;
use serde::{Deserialize, Serialize};

use super::{from_json, parsed, to_json};

#[derive(Serialize, Deserialize)]
struct NoticeRow {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    new_fork: bool,
    /// Number, hash, parent hash. Without field names, because an event may hold many links.
    links: Vec<(u64, String, String)>,
}

pub fn notice_to_json(notice: &ConfirmationNotice) -> String {
    let row = |link: &BlockLink| (link.block.number, link.block.hash.to_string(), link.parent_hash.to_string());
    to_json(&NoticeRow { new_fork: notice.new_fork, links: notice.links.iter().map(row).collect() })
}

pub fn notice_from_json(json: &str) -> Result<ConfirmationNotice, RowError> {
    let row: NoticeRow = from_json("notice", json)?;
    let link = |(number, hash, parent): &(u64, String, String)| {
        let block = BlockRef { number: *number, hash: parsed("confirmation", hash)? };
        Ok(BlockLink { block, parent_hash: parsed("parent of a confirmation", parent)? })
    };
    Ok(ConfirmationNotice {
        new_fork: row.new_fork,
        links: row.links.iter().map(link).collect::<Result<_, RowError>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::B256;

    fn link(number: u64) -> BlockLink {
        let hash = |number: u64| B256::from(gapless_domain::U256::from(number));
        BlockLink { block: BlockRef { number, hash: hash(number) }, parent_hash: hash(number.wrapping_sub(1)) }
    }

    #[test]
    fn notices_round_trip() {
        for links in [vec![], vec![link(7)], vec![link(7), link(8), link(9)], vec![link(u64::MAX)]] {
            for new_fork in [false, true] {
                let notice = ConfirmationNotice { new_fork, links: links.clone() };
                assert_eq!(notice_from_json(&notice_to_json(&notice)), Ok(notice));
            }
        }
    }

    #[test]
    fn stored_json_of_a_notice_does_not_change() {
        let hash = B256::repeat_byte(0xab);
        let block = BlockRef { number: 7, hash };
        let notice = ConfirmationNotice::first(BlockLink { block, parent_hash: B256::ZERO });
        let json = format!(r#"{{"new_fork":true,"links":[[7,"{hash}","{}"]]}}"#, B256::ZERO);
        assert_eq!(notice_to_json(&notice), json);
    }

    #[test]
    fn damaged_notice_is_an_error() {
        let negative = format!(r#"{{"links":[[-1,"{0}","{0}"]]}}"#, B256::ZERO);
        for damaged in [
            "",
            "null",
            "{}",
            r#"{"links":[[7]]}"#,
            r#"{"links":[[7,"0xab","0xab"]]}"#,
            negative.as_str(),
            r#"{"new_fork":1,"links":[]}"#,
        ] {
            assert!(notice_from_json(damaged).is_err(), "{damaged}");
        }
    }
}
