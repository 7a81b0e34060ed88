//! Versioned migrations: which are there, which are missing, and whether they are the ones that this program knows.

use gapless_domain::keccak256;

use crate::error::StoreError;

/// One step of a schema. Once it has landed it never changes; what comes after is another step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

/// What has to be done to bring a database up to date.
#[derive(Clone, Debug)]
pub struct Pending<'a> {
    pub steps: &'a [Migration],
}

impl Migration {
    /// Kept beside the version, so that a database which went another way is noticed.
    pub fn checksum(&self) -> i64 {
        let mut first = [0; 8];
        first.copy_from_slice(&keccak256(self.sql)[..8]);
        i64::from_be_bytes(first)
    }
}

/// Compares what a database says it has, as (version, checksum) in order, with what this program knows.
pub fn pending<'a>(known: &'a [Migration], applied: &[(i64, i64)]) -> Result<Pending<'a>, StoreError> {
    let newest = known.last().map_or(0, |migration| migration.version);
    for (index, (version, checksum)) in applied.iter().enumerate() {
        match known.get(index) {
            None => return Err(StoreError::SchemaIsNewer { found: *version, known: newest }),
            Some(migration) if migration.version != *version || migration.checksum() != *checksum => {
                return Err(StoreError::MigrationDiffers { version: *version });
            }
            Some(_) => {}
        }
    }
    Ok(Pending { steps: known.get(applied.len()..).unwrap_or(&[]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] =
        [Migration { version: 1, name: "one", sql: "a" }, Migration { version: 2, name: "two", sql: "b" }];

    fn applied(count: usize) -> Vec<(i64, i64)> {
        KNOWN.iter().take(count).map(|migration| (migration.version, migration.checksum())).collect()
    }

    #[test]
    fn only_what_is_missing_is_pending() {
        assert_eq!(pending(&KNOWN, &applied(0)).unwrap().steps.len(), 2);
        assert_eq!(pending(&KNOWN, &applied(1)).unwrap().steps[0].version, 2);
        assert!(pending(&KNOWN, &applied(2)).unwrap().steps.is_empty());
    }

    #[test]
    fn a_newer_or_another_schema_is_refused() {
        let mut newer = applied(2);
        newer.push((3, 0));
        assert!(matches!(pending(&KNOWN, &newer), Err(StoreError::SchemaIsNewer { found: 3, known: 2 })));
        let other = [(1, 0)];
        assert!(matches!(pending(&KNOWN, &other), Err(StoreError::MigrationDiffers { version: 1 })));
    }
}
