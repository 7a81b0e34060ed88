//! Versioned migrations: which a database has, which it lacks, and whether they are the ones that this program knows.

use gapless_domain::keccak256;
use gapless_store::StoreError;

/// One step of a schema. A step that has landed never changes; a change of the schema is another step.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

impl Migration {
    /// The database keeps it beside the version, so that a database with another step of the same version is found out.
    pub fn checksum(&self) -> i64 {
        let mut first = [0; 8];
        first.copy_from_slice(&keccak256(self.sql)[..8]);
        i64::from_be_bytes(first)
    }
}

/// The steps that a database lacks, in order. `applied` is what the database has, as (version, checksum) in order.
///
/// A step that is not in `known`, or differs, is an error. So is a missing one, if the caller may not migrate.
pub fn missing_migrations<'a>(
    known: &'a [Migration],
    applied: &[(i64, i64)],
    may_migrate: bool,
) -> Result<&'a [Migration], StoreError> {
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
    let missing = known.get(applied.len()..).unwrap_or(&[]);
    if !missing.is_empty() && !may_migrate {
        let found = applied.last().map_or(0, |(version, _)| *version);
        return Err(StoreError::SchemaIsOlder { found, known: newest });
    }
    Ok(missing)
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
    fn missing_steps_are_returned_in_order() {
        assert_eq!(missing_migrations(&KNOWN, &applied(0), true).unwrap().len(), 2);
        assert_eq!(missing_migrations(&KNOWN, &applied(1), true).unwrap()[0].version, 2);
        assert!(missing_migrations(&KNOWN, &applied(2), true).unwrap().is_empty());
    }

    #[test]
    fn older_schema_is_refused_without_leave_to_migrate() {
        for (count, version) in [(0, 0), (1, 1)] {
            let older = missing_migrations(&KNOWN, &applied(count), false);
            assert!(matches!(older, Err(StoreError::SchemaIsOlder { found, known: 2 }) if found == version));
        }
        assert!(missing_migrations(&KNOWN, &applied(2), false).unwrap().is_empty());
    }

    #[test]
    fn newer_or_different_schema_is_refused() {
        let mut newer = applied(2);
        newer.push((3, 0));
        for may_migrate in [false, true] {
            let refused = missing_migrations(&KNOWN, &newer, may_migrate);
            assert!(matches!(refused, Err(StoreError::SchemaIsNewer { found: 3, known: 2 })));
            let refused = missing_migrations(&KNOWN, &[(1, 0)], may_migrate);
            assert!(matches!(refused, Err(StoreError::MigrationDiffers { version: 1 })));
        }
    }
}
