//! Weighted round robin.

/// Smooth weighted round robin. In any stretch of turns each endpoint has a share by its weight, and the turns of a
/// heavy one are spread. The order is deterministic.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    credits: Vec<i64>,
}

impl Rotation {
    /// The index whose turn it is, among these indexes with their weights. Without any weight it is the first one.
    pub(super) fn turn(&mut self, endpoints: &[(usize, u32)]) -> Option<usize> {
        let all: i64 = endpoints.iter().map(|(_, weight)| i64::from(*weight)).sum();
        let size = endpoints.iter().map(|(index, _)| index + 1).max()?;
        if self.credits.len() < size {
            self.credits.resize(size, 0);
        }
        let mut best: Option<(i64, usize)> = None;
        for (index, weight) in endpoints {
            let credit = self.credits.get_mut(*index)?;
            // The clamp keeps an endpoint that was absent from saving up or losing turns.
            *credit = credit.saturating_add(i64::from(*weight)).clamp(-all, all);
            if best.is_none_or(|(most, _)| *credit > most) {
                best = Some((*credit, *index));
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

    fn turns(rotation: &mut Rotation, endpoints: &[(usize, u32)], count: usize) -> Vec<usize> {
        (0..count).filter_map(|_| rotation.turn(endpoints)).collect()
    }

    #[test]
    fn turns_are_shared_by_weight() {
        let mut rotation = Rotation::default();
        assert_eq!(turns(&mut rotation, &[(0, 1), (1, 3)], 8), [1, 0, 1, 1, 1, 0, 1, 1]);
        assert_eq!(turns(&mut Rotation::default(), &[(2, 1), (5, 1)], 4), [2, 5, 2, 5]);
        let many = turns(&mut Rotation::default(), &[(0, 5), (1, 2), (2, 3)], 1_000);
        assert_eq!([0, 1, 2].map(|index| many.iter().filter(|turn| **turn == index).count()), [500, 200, 300]);
    }

    #[test]
    fn empty_list_has_no_turn_and_zero_weights_have_the_first() {
        let mut rotation = Rotation::default();
        assert_eq!(rotation.turn(&[]), None);
        assert_eq!(turns(&mut rotation, &[(1, 0), (0, 0)], 3), [1, 1, 1]);
    }

    #[test]
    fn returning_endpoint_gets_no_more_than_its_share() {
        let mut rotation = Rotation::default();
        turns(&mut rotation, &[(0, 1), (1, 1)], 7);
        turns(&mut rotation, &[(0, 1)], 1_000);
        let after = turns(&mut rotation, &[(0, 1), (1, 1)], 20);
        assert!((9..=11).contains(&after.iter().filter(|turn| **turn == 1).count()), "{after:?}");
    }
}
