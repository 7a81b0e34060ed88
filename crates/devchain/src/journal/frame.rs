//! Framing of records in a file: length, checksum, payload.

use crate::error::ChainError;

const LENGTH_BYTES: usize = 4;
const HEADER_BYTES: usize = LENGTH_BYTES + 4;
/// Search window for a valid record after an invalid one. Torn writes are shorter.
const SEARCH_BYTES: usize = 1024 * 1024;

/// Appends a record. Payloads are shorter than 4 GiB, because the largest record is a block.
pub(super) fn push(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_be_bytes());
    out.extend_from_slice(payload);
}

/// Length of a record with this payload.
pub(super) fn framed_len(payload: &[u8]) -> usize {
    HEADER_BYTES + payload.len()
}

/// Reads records until the end of the file or a torn tail.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    name: &'a str,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn of(name: &'a str, bytes: &'a [u8]) -> Self {
        Self { name, bytes, offset: 0 }
    }

    /// Length of the valid part of the file that was read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// The next payload. An unreadable record is a torn tail, unless a valid record follows: then records in the middle
    /// are lost. Continuing would lose acknowledged sends, so that case is an error.
    pub(super) fn next(&mut self) -> Result<Option<&'a [u8]>, ChainError> {
        match record_at(self.bytes, self.offset) {
            ReadRecord::Valid { payload, end } => {
                self.offset = end;
                Ok(Some(payload))
            }
            ReadRecord::Invalid if self.has_valid_after() => {
                Err(self.damaged("a record cannot be read, but valid records follow".to_owned()))
            }
            ReadRecord::Invalid => Ok(None),
        }
    }

    /// Tries every byte offset, because the length field may be the damaged part.
    fn has_valid_after(&self) -> bool {
        let window = self.offset + 1..self.bytes.len().min(self.offset + SEARCH_BYTES);
        window.into_iter().any(|offset| matches!(record_at(self.bytes, offset), ReadRecord::Valid { .. }))
    }

    pub(super) fn damaged(&self, why: String) -> ChainError {
        ChainError::Damaged { file: self.name.to_owned(), offset: self.offset as u64, why }
    }
}

enum ReadRecord<'a> {
    Valid {
        payload: &'a [u8],
        end: usize,
    },
    /// The file ends within the record, or the checksum is wrong.
    Invalid,
}

fn record_at(bytes: &[u8], offset: usize) -> ReadRecord<'_> {
    let Some(header) = bytes.get(offset..offset + HEADER_BYTES) else { return ReadRecord::Invalid };
    let number = |from: usize| u32::from_be_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let (length, checksum) = (number(0) as usize, number(LENGTH_BYTES));
    let start = offset + HEADER_BYTES;
    match bytes.get(start..start.saturating_add(length)) {
        // No written record is empty, but a tail of zeros would decode as empty records.
        Some(payload) if length > 0 && crc32fast::hash(payload) == checksum => {
            ReadRecord::Valid { payload, end: start + length }
        }
        _ => ReadRecord::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, u64, bool) {
        let mut frames = Frames::of("file", bytes);
        let mut found = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(payload)) => found.push(payload.to_vec()),
                Ok(None) => return (found, frames.offset(), true),
                Err(_) => return (found, frames.offset(), false),
            }
        }
    }

    #[test]
    fn torn_tail_ends_the_records_at_any_byte() {
        let mut bytes = Vec::new();
        push(&mut bytes, b"one");
        let first = bytes.len();
        push(&mut bytes, b"two");
        for cut in first..bytes.len() {
            assert_eq!(read(&bytes[..cut]), (vec![b"one".to_vec()], first as u64, true), "cut at {cut}");
        }
        assert_eq!(read(&bytes).0.len(), 2);
    }

    #[test]
    fn trailing_zeros_and_garbage_are_a_torn_tail() {
        let mut bytes = Vec::new();
        push(&mut bytes, b"one");
        let good = bytes.len() as u64;
        let zeros = [bytes.clone(), vec![0; 64]].concat();
        assert_eq!(read(&zeros), (vec![b"one".to_vec()], good, true));
        let garbage = [bytes.clone(), vec![0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(read(&garbage), (vec![b"one".to_vec()], good, true));
    }

    #[test]
    fn damage_before_a_valid_record_is_an_error() {
        let mut bytes = Vec::new();
        push(&mut bytes, b"one");
        push(&mut bytes, b"two");
        for byte in 0..HEADER_BYTES + 3 {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1;
            assert!(!read(&damaged).2, "byte {byte}");
        }
    }
}
