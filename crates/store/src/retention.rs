//! Retention: the kinds of rows that are moved out or deleted when they are old.

use gapless_domain::names;

names! {
    /// One kind of row that [`apply_retention`](crate::Upkeep::apply_retention) moves or deletes.
    ///
    /// Request ids, slots, leases and the records of moved-out intents are kept for ever and have no kind.
    RetentionKind {
        /// Moves ended intents out of the working tables, with their events and with the attempts of closed nonces. An
        /// intent waits until every consumer has handled its events. The age counts from the end of the intent. The
        /// attempts of a nonce that is still open stay where the lane loads them.
        Intents = "intents",
        /// Deletes the events of moved-out intents. The age counts from the end of the intent.
        Events = "events",
        /// Deletes the events of lanes that every consumer has handled. The age counts from the event.
        LaneEvents = "lane_events",
        /// Deletes the attempts of moved-out intents whose nonces are all closed. The age counts from the end of the
        /// intent.
        Attempts = "attempts",
        /// Deletes finished commands. The age counts from the end of the command.
        Commands = "commands",
        /// Deletes the rows of dead processes. The age counts from the last sign of life. A process whose row is
        /// missing concludes that the database lost commits, so the first call only marks the row. A later call deletes
        /// the row if the process gave no sign of life for another duration of a lease since the mark. The mark is
        /// needed because a database clock that jumps ahead makes all rows look old at once. The caller's own row, and
        /// the row of a process that may hold a lease, always stay.
        Nodes = "nodes",
        /// Deletes audit entries. The age counts from the entry.
        Audit = "audit",
    }
}
