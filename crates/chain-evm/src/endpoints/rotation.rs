//! Turns by weight.

/// Smooth weighted round robin: of any stretch of turns everybody has a share by its weight, and those of a heavy one do not come
/// all at once. Nothing is left to chance.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    credits: Vec<i64>,
}

impl Rotation {
    /// Whose turn it is, of these places and their weights. Without any weight it is the first one's.
    pub(super) fn turn(&mut self, places: &[(usize, u32)]) -> Option<usize> {
        let all: i64 = places.iter().map(|(_, weight)| i64::from(*weight)).sum();
        let size = places.iter().map(|(place, _)| place + 1).max()?;
        if self.credits.len() < size {
            self.credits.resize(size, 0);
        }
        let mut best: Option<(i64, usize)> = None;
        for (place, weight) in places {
            let credit = self.credits.get_mut(*place)?;
            // Who was away for long has not saved up turns for all that time, nor lost any.
            *credit = credit.saturating_add(i64::from(*weight)).clamp(-all, all);
            if best.is_none_or(|(most, _)| *credit > most) {
                best = Some((*credit, *place));
            }
        }
        let (_, chosen) = best?;
        if let Some(credit) = self.credits.get_mut(chosen) {
            *credit -= all;
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(rotation: &mut Rotation, places: &[(usize, u32)], count: usize) -> Vec<usize> {
        (0..count).filter_map(|_| rotation.turn(places)).collect()
    }

    #[test]
    fn everybody_has_a_share_by_its_weight() {
        let mut rotation = Rotation::default();
        assert_eq!(turns(&mut rotation, &[(0, 1), (1, 3)], 8), [1, 0, 1, 1, 1, 0, 1, 1]);
        assert_eq!(turns(&mut Rotation::default(), &[(2, 1), (5, 1)], 4), [2, 5, 2, 5]);
        let many = turns(&mut Rotation::default(), &[(0, 5), (1, 2), (2, 3)], 1_000);
        assert_eq!([0, 1, 2].map(|place| many.iter().filter(|turn| **turn == place).count()), [500, 200, 300]);
    }

    #[test]
    fn nobody_and_no_weight() {
        let mut rotation = Rotation::default();
        assert_eq!(rotation.turn(&[]), None);
        assert_eq!(turns(&mut rotation, &[(1, 0), (0, 0)], 3), [1, 1, 1]);
    }

    #[test]
    fn who_comes_back_gets_no_more_than_its_share() {
        let mut rotation = Rotation::default();
        turns(&mut rotation, &[(0, 1), (1, 1)], 7);
        turns(&mut rotation, &[(0, 1)], 1_000);
        let after = turns(&mut rotation, &[(0, 1), (1, 1)], 20);
        assert!((9..=11).contains(&after.iter().filter(|turn| **turn == 1).count()), "{after:?}");
    }
}
