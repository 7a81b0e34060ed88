//! Counts the texts without a pattern (C06), so that an operator sees which overrides are needed.

use std::collections::BTreeMap;

use gapless_chain::{Classified, Verdict};

use super::words::words;

/// Counters by shape. The shape of a text is its words with each number as `#`, so that nonces and addresses make no
/// new entries.
#[derive(Clone, Debug, Default)]
pub struct UnknownTexts {
    counts: BTreeMap<String, u64>,
    others: u64,
}

impl UnknownTexts {
    /// Shapes beyond this number are counted together, so that a node with ever new texts does not exhaust memory.
    pub const MAX_SHAPES: usize = 500;
    const MAX_SHAPE_BYTES: usize = 200;

    /// Counts `classified` if its verdict is unknown.
    pub fn note(&mut self, classified: &Classified) {
        if classified.verdict != Verdict::Unknown {
            return;
        }
        let shape = Self::shape(classified.text.as_str());
        if self.counts.len() >= Self::MAX_SHAPES && !self.counts.contains_key(&shape) {
            self.others += 1;
        } else {
            *self.counts.entry(shape).or_default() += 1;
        }
    }

    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(shape, count)| (shape.as_str(), *count))
    }

    /// The number of texts beyond [`Self::MAX_SHAPES`].
    pub fn others(&self) -> u64 {
        self.others
    }

    pub fn shape(text: &str) -> String {
        let mut shape = String::new();
        for word in words(text) {
            let word = if word.starts_with(|c: char| c.is_ascii_digit()) { "#" } else { word.as_str() };
            if shape.len() + word.len() + 1 > Self::MAX_SHAPE_BYTES {
                break;
            }
            if !shape.is_empty() {
                shape.push(' ');
            }
            shape.push_str(word);
        }
        shape
    }
}
