//! The head of a chain as columns.

use gapless_domain::{B256, BlockLink, BlockRef, Head, Tail};
use gapless_store::RowError;

use super::{signed, unsigned};

const HASH_BYTES: usize = 32;

/// The columns of `chain_head`, under their names in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadRow {
    /// The newest block. The tail ends with it too; the first releases wrote only this and no tail.
    pub number: i64,
    pub hash: Vec<u8>,
    pub parent_hash: Vec<u8>,
    pub final_number: Option<i64>,
    pub final_hash: Option<Vec<u8>>,
    pub tail_first: Option<i64>,
    /// Hashes of 32 bytes each: the parent of the first block, then the blocks.
    pub tail: Option<Vec<u8>>,
    pub genesis: Option<Vec<u8>>,
}

pub fn head_to_row(head: &Head) -> HeadRow {
    let newest = head.tail.last();
    let parent_hash = match head.tail.hashes() {
        [.., parent, _] => *parent,
        _ => B256::ZERO,
    };
    HeadRow {
        number: signed(newest.number),
        hash: newest.hash.to_vec(),
        parent_hash: parent_hash.to_vec(),
        final_number: head.finalized.map(|block| signed(block.number)),
        final_hash: head.finalized.map(|block| block.hash.to_vec()),
        tail_first: Some(signed(head.tail.first_number())),
        tail: Some(head.tail.hashes().concat()),
        genesis: head.genesis.map(|hash| hash.to_vec()),
    }
}

pub fn head_from_row(row: &HeadRow) -> Result<Head, RowError> {
    let block = BlockRef { number: unsigned("head number", row.number)?, hash: hash("head hash", &row.hash)? };
    let newest = BlockLink { block, parent_hash: hash("parent hash", &row.parent_hash)? };
    let finalized = match (row.final_number, &row.final_hash) {
        (Some(number), Some(bytes)) => {
            Some(BlockRef { number: unsigned("final number", number)?, hash: hash("final hash", bytes)? })
        }
        (None, None) => None,
        _ => return Err(RowError::new("final block", "half of it is missing")),
    };
    let tail = match (row.tail_first, &row.tail) {
        (Some(first), Some(bytes)) => Some(tail(first, bytes)?),
        (None, None) => None,
        _ => return Err(RowError::new("tail", "half of it is missing")),
    };
    // While a release is rolled out, a node of an older release may write the newest block and leave the tail as it
    // was.
    let tail = tail.filter(|tail| tail.last() == block).unwrap_or_else(|| Tail::new(newest));
    let genesis = row.genesis.as_deref().map(|bytes| hash("genesis", bytes)).transpose()?;
    Ok(Head { tail, finalized, genesis })
}

fn tail(first: i64, bytes: &[u8]) -> Result<Tail, RowError> {
    let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
    let whole = if rest.is_empty() { Some(hashes.iter().map(B256::from).collect()) } else { None };
    let tail = whole.and_then(|hashes| Tail::restore(unsigned("tail_first", first).ok()?, hashes));
    tail.ok_or_else(|| RowError::new("tail", format!("{} bytes from block {first}", bytes.len())))
}

fn hash(what: &'static str, bytes: &[u8]) -> Result<B256, RowError> {
    B256::try_from(bytes).map_err(|error| RowError::new(what, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> BlockRef {
        BlockRef { number, hash: B256::with_last_byte(number as u8) }
    }

    fn tail(numbers: std::ops::RangeInclusive<u64>) -> Tail {
        let link = |number| BlockLink { block: block(number), parent_hash: block(number - 1).hash };
        Tail::of(numbers.map(link)).unwrap()
    }

    fn full() -> HeadRow {
        head_to_row(&Head { tail: tail(3..=9), finalized: Some(block(4)), genesis: Some(B256::repeat_byte(7)) })
    }

    #[test]
    fn heads_round_trip() {
        for (tail, finalized, genesis) in [
            (tail(3..=102), Some(block(4)), Some(B256::repeat_byte(7))),
            (tail(3..=3), None, None),
            (tail(8..=9), Some(block(4)), None),
        ] {
            let head = Head { tail, finalized, genesis };
            assert_eq!(head_from_row(&head_to_row(&head)), Ok(head));
        }
        assert_eq!(full().tail.map(|tail| tail.len()), Some(8 * 32));
    }

    #[test]
    fn head_of_an_older_release_is_a_tail_of_one_block() {
        let one = Head { tail: tail(9..=9), finalized: Some(block(4)), genesis: None };
        let old = HeadRow { tail_first: None, tail: None, genesis: None, ..full() };
        assert_eq!(head_from_row(&old), Ok(one.clone()));
        let behind = head_to_row(&Head { tail: tail(3..=8), ..one.clone() });
        let newer = HeadRow { genesis: None, tail_first: behind.tail_first, tail: behind.tail, ..full() };
        assert_eq!(head_from_row(&newer), Ok(one));
    }

    #[test]
    fn damaged_head_is_an_error() {
        for damaged in [
            HeadRow { number: -1, ..full() },
            HeadRow { hash: vec![1; 31], ..full() },
            HeadRow { parent_hash: Vec::new(), ..full() },
            HeadRow { final_number: None, ..full() },
            HeadRow { final_hash: None, ..full() },
            HeadRow { final_number: Some(-1), ..full() },
            HeadRow { tail_first: None, ..full() },
            HeadRow { tail: None, ..full() },
            HeadRow { tail_first: Some(-3), ..full() },
            HeadRow { tail: Some(vec![1; 32]), ..full() },
            HeadRow { tail: Some(vec![1; 65]), ..full() },
            HeadRow { tail: Some(Vec::new()), ..full() },
            HeadRow { genesis: Some(vec![1; 33]), ..full() },
        ] {
            assert!(head_from_row(&damaged).is_err(), "{damaged:?}");
        }
    }
}
