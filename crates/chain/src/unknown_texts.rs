//! Counts the texts that nobody has a pattern for (C06), so that an operator sees what to write an override for.

use std::collections::BTreeMap;

use crate::classified::Classified;
use crate::verdict::Verdict;
use crate::words::words;

/// Counts by shape: the text's words with every number as `#`, so that a nonce or an address in it makes no new entry.
#[derive(Clone, Debug, Default)]
pub struct UnknownTexts {
    counts: BTreeMap<String, u64>,
    others: u64,
}

impl UnknownTexts {
    /// Shapes beyond this many are counted together: a node that says something new every time must not fill the memory.
    pub const MAX_SHAPES: usize = 500;
    const MAX_SHAPE_BYTES: usize = 200;

    /// Counts `classified` when it is unknown.
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

    /// How many did not fit.
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
