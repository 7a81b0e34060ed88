//! The protocol of lease, fence, bind and attempts (DESIGN §5 to §7) as a small model, explored exhaustively: every
//! order of all steps within the bounds of a test. The model is of the protocol, not of the code. The simulator and
//! the tests on real databases check that the code follows the protocol.
//!
//! # What is modelled
//!
//! - **The database** has the lease row, the cursor, the slots, the intents, and the attempts of one lane. A commit
//!   is an open transaction for a while: it locks the lease row and finds it valid, and its writes become visible
//!   later, or never. Meanwhile the lease may run out, and the node that waits may die or give up. The outcome is
//!   then unknown to the node, and the node loads anew. Takeovers and loads wait for the lock.
//! - **A lease** runs out at any time. A request for a lease may be granted without an answer to its node, also long
//!   after the node has gone on.
//! - **Nodes** stop at any time for any time (no rule makes a node take its next step), die, and come back as a new
//!   process. They act on the rows that they have loaded, however old these are: a node that lost its lease still
//!   wants to bind, sign, bump, cancel, finish and give up nonces, and still sends its durable transactions.
//! - **The chain** mines any hash that was ever sent, in the order of nonces. Where a test says so, a foreign
//!   transaction uses one of our nonces, or a reorg removes the newest block. Without reorgs a block is final at once.
//!
//! # What is abstracted away
//!
//! - Time. A renewal, and the extension of a lease by a commit, change nothing in a row that may run out anyway. A
//!   release is one more way to run out. The clock by which a node stops trusting its lease only removes steps.
//! - Answers from outside: send outcomes, fees, funds, lagging endpoints. A node reads the chain as it is, arbitrarily
//!   late. The pool drops nothing and has every sent transaction at once, which may be mined late or never.
//! - PROTECT and the operator are one thing: a nonce that a foreign transaction used is adopted, and its intent is
//!   queued again, in some later commit.
//! - Other lanes, batches, events, reservations, commands; a database that loses commits.
//! - The names of nodes: worlds that differ only in the names are one.
//!
//! # How to read a failure
//!
//! A broken promise is printed with the steps that lead to it. Nodes are numbered by their place in the sorted state,
//! so a number may stand for another node after each step.

mod explorations;
mod ledger;
mod mistakes;
mod promises;
mod steps;
mod witness;
mod world;
