//! The shared part of the SQL stores: how rows hold domain values, statements that are the same text, and the plan of
//! migrations.
//!
//! - `codec` turns single values into what a column holds, and back.
//! - `rows` has one type for each kind of row, with its conversions. A store fills it by its own driver.
//! - `statements` has the SQL that is the same for both databases.
//! - `template` fills named parameters into SQL.
//! - `migration` compares the migrations that a database has with those that the program knows.
//! - `conformance` (a feature) has the cases that load a database of an older schema.
//!
//! Architecture invariant: this crate knows rows, not connections. No SQL driver, no transaction and no rule about what
//! a commit may do is in here.

mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
mod migration;
mod rows;
mod statements;
mod template;

pub use codec::{
    HeadRow, StateRow, above, command_from_json, command_status, command_to_json, fees_from_json, fees_to_json,
    head_from_row, head_to_row, nonce, notice_from_json, notice_to_json, payload_from_json, payload_to_json,
    sends_from_json, sends_to_json, signed, state_from_row, state_to_row, submitter, token, tries, unsigned, word,
};
pub use migration::{Migration, missing_migrations};
pub use rows::{
    AttemptRow, AuditEntryRow, CommandRow, CursorRow, EventRow, IntentRow, ReservationRow, SlotRow, protection,
    slot_kind_columns,
};
pub use statements::{AUDIT_LOG, AUDIT_LOG_OF_SUBJECT, FIND_REQUEST, MIGRATIONS_APPLIED, RESERVATION_USER, SUBMITTERS};
pub use template::fill_template;
