//! The protocol of lease, fence, bind and attempts (DESIGN §5 to §7) as a small model, explored exhaustively: every order of
//! everything that can happen within the bounds of a test, not a sample of them. It is about the protocol, not about our code:
//! that the code follows the protocol is what the simulator and the tests on real databases are for.
//!
//! # What is modelled
//!
//! - **The database** has the lease row, the cursor, the slots, the intents, and the attempts of one lane. A commit is an open
//!   transaction for a while: it locks the lease row and finds it valid, and its writes become visible later, or never. Meanwhile
//!   the lease may run out, and the node that waits may die or give up; then the outcome is unknown to it, and it loads anew.
//!   Takeovers and loads wait for the lock.
//! - **A lease** runs out at any time whatever. A request for it may be granted without its node learning so, also long after
//!   the node has gone on.
//! - **Nodes** stop at any time for any time (nothing forces a node to take its next step), die, and come back as a new
//!   process. They act on what they have loaded, however old it is: a node that lost its lease still wants to bind, sign, bump,
//!   cancel, finish and give up nonces, and still sends what it knows to be durable.
//! - **The chain** mines any hash that was ever sent, in the order of nonces. Where a test says so, a stranger uses one of our
//!   nonces, or the newest block is taken back; else a block is final at once.
//!
//! # What is abstracted away
//!
//! - Time. Renewing, and the extension of a lease by a commit, change nothing in a row that may run out anyway; giving a lease
//!   back is one more way to run out; the clock by which a node stops trusting its lease only takes steps away.
//! - What the outside says: send outcomes, fees, funds, lagging endpoints. A node reads the chain as it is, only arbitrarily
//!   late. The pool drops nothing, and what is sent is there at once: it may be mined late or never.
//! - PROTECT and the operator are one thing: what a stranger used up is adopted, and its intent requeued, in some later commit.
//! - Other lanes, batches, events, reservations, commands; a database that loses commits.
//! - Which node is which: worlds that differ only in that are one.
//!
//! # How to read a failure
//!
//! A broken promise is printed with the steps that lead to it. Nodes are numbered by their place in the sorted state, so a
//! number may stand for another node after each step.

mod explorations;
mod ledger;
mod mistakes;
mod promises;
mod steps;
mod witness;
mod world;
