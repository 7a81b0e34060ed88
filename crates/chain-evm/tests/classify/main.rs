//! The classifier of node errors.
//!
//! - `table`: the outcome of every known text
//! - `families`: texts under another family or without one
//! - `variations`: known texts in other forms, and garbage
//! - `checklist`: the rules of the classifier, one by one
#![allow(clippy::unwrap_used, reason = "a test")]

mod checklist;
mod families;
mod rows;
mod table;
mod variations;
