//! The audit log: an entry is written together with the change that it records.

use std::slice::from_ref;

use gapless_domain::{
    AuditEntry, ChainId, CommandKind, LaneCommit, LockOwner, NewAudit, NewCommand, NodeText, SubmitterId,
};

use super::Harness;
use super::fixtures::*;
use crate::audit::AuditRow;
use crate::roles::{AuditFilter, CommitVerdict};

/// Subject, actor, action and detail of each entry.
fn words(entries: &[AuditEntry]) -> Vec<(&str, &str, &str, &str)> {
    entries
        .iter()
        .map(|AuditEntry { subject, actor, action, detail, .. }| {
            (subject.as_str(), actor.as_str(), action.as_str(), detail.as_str())
        })
        .collect()
}

async fn all(node: &Node) -> Vec<AuditEntry> {
    node.audit_log(&AuditFilter { limit: 1000, ..AuditFilter::default() }).await.unwrap()
}

pub(super) async fn commit_of_audit_entries_alone_is_written(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let lane = lane(&a, 1).await;
    assert_eq!(all(&b).await, []);
    let before = database_now(&a).await;
    let policy = NewAudit { actor: text(NewAudit::POLICY), ..audit("adopt", "nonce 3\nnonce 4 it's \"quoted\"\\") };
    commit_done(&a, &lane, |commit| {
        commit.audit(policy.clone()).audit(audit("resync", ""));
    })
    .await;
    let found = audits(&b, &lane).await;
    let lane = lane.as_str();
    let expected =
        [(lane, "an operator", "resync", ""), (lane, "policy", "adopt", "nonce 3\nnonce 4 it's \"quoted\"\\")];
    assert_eq!(words(&found), expected);
    assert!(found[0].id > found[1].id && found[1].id > 0);
    assert!(found.iter().all(|entry| entry.at >= before) && found[0].at <= database_now(&a).await);
}

pub(super) async fn operator_command_is_audited_with_its_result(h: &dyn Harness) {
    let a = h.node("a").await;
    let lane = lane(&a, 1).await;
    let lock_owner = LockOwner::new("alice").unwrap();
    let kinds =
        [CommandKind::Pause, CommandKind::ReleaseReserved { nonce: nonce(0), lock_owner }, CommandKind::Unprotect];
    let put = kinds.map(|kind| NewCommand { submitter: lane.clone(), kind, issued_by: text("carol") });
    a.put_commands(&put).await.unwrap();
    let open = a.open_commands(from_ref(&lane)).await.unwrap().remove(0);
    commit_done(&a, &lane, |commit| {
        commit.command_done(&open[0], done("paused")).command_done(&open[1], done("released"));
        commit.command_done(&open[2], refused("the cause persists"));
    })
    .await;
    let (found, lane) = (audits(&a, &lane).await, lane.as_str());
    let expected = [(lane, "carol", "unprotect", "refused: the cause persists"), (lane, "carol", "pause", "paused")];
    assert_eq!(words(&found), expected, "commands of reservations are not audited");
}

/// proves N03, N10: neither a fenced commit nor a commit with a conflict writes an entry
pub(super) async fn rejected_commit_is_not_audited(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (good, stale, lost) = (lane(&a, 1).await, lane(&a, 2).await, lane(&a, 3).await);
    let cursor = view(&a, &stale).await.cursor;
    let observe = |commit: &mut LaneCommit| {
        commit.observe_counts(&cursor, nonce(0), nonce(0)).unwrap();
    };
    commit_done(&a, &stale, observe).await;
    let old = acquire(&a, &lost).await;
    take_over(h, &b, &lost).await;
    for _ in 0..20 {
        let leases = [acquire(&a, &stale).await, old.clone(), acquire(&a, &good).await];
        let mut commits = leases.map(|lease| LaneCommit::new(&lease));
        observe(&mut commits[0]);
        for commit in &mut commits {
            commit.audit(audit("test", "once"));
        }
        let verdicts = a.commit(&commits).await.unwrap().verdicts;
        assert_eq!(verdicts[1], CommitVerdict::Fenced);
        assert_eq!((audits(&a, &stale).await, audits(&a, &lost).await), (vec![], vec![]));
        // On a slow machine the other leases may expire too. Then no row was written, and the round is repeated.
        assert_eq!(audits(&a, &good).await.len(), usize::from(verdicts[2] == CommitVerdict::Done));
        if verdicts[2] == CommitVerdict::Done {
            assert_ne!(verdicts[0], CommitVerdict::Done);
            return;
        }
    }
    panic!("{TOO_SLOW}")
}

pub(super) async fn operator_statements_are_audited(h: &dyn Harness) {
    let a = h.node("a").await;
    let chain: ChainId = "eip155:31337".parse().unwrap();
    a.forget_head(&chain, &text("dave"), "the dev chain was started again").await.unwrap();
    a.declare_lost(&text("erin"), "restored from a backup").await.unwrap();
    a.declare_reconciled(&text("frank"), "nothing was lost").await.unwrap();
    let found = all(&a).await;
    let store = AuditRow::STORE;
    assert_eq!(
        words(&found),
        [
            (store, "frank", "declare_reconciled", "nothing was lost"),
            (store, "erin", "declare_lost", "restored from a backup"),
            (chain.as_str(), "dave", "accept_chain", "the dev chain was started again"),
        ]
    );
    let of_chain = AuditFilter { subject: Some(chain.to_string()), before: None, limit: 10 };
    assert_eq!(a.audit_log(&of_chain).await.unwrap(), found[2..]);
}

pub(super) async fn audit_log_pages_newest_first(h: &dyn Harness) {
    let (a, b) = (h.node("a").await, h.node("b").await);
    let (one, two) = (lane(&a, 1).await, lane(&a, 2).await);
    let write = async |lane: &SubmitterId, details: &[&str]| {
        commit_done(&a, lane, |commit| {
            for detail in details {
                commit.audit(audit("test", detail));
            }
        })
        .await;
    };
    write(&one, &["0", "1", "2"]).await;
    write(&two, &["3"]).await;
    write(&one, &["4", "5"]).await;
    let read = async |subject: Option<&SubmitterId>, limit: u32| {
        let subject = subject.map(ToString::to_string);
        let (mut read, mut before): (Vec<String>, _) = (Vec::new(), None);
        loop {
            let page = b.audit_log(&AuditFilter { subject: subject.clone(), before, limit }).await.unwrap();
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else { return read };
            before = Some(last.id);
            read.extend(page.iter().map(|entry| entry.detail.to_string()));
        }
    };
    for limit in [1, 2, 5, 100] {
        assert_eq!(read(None, limit).await, ["5", "4", "3", "2", "1", "0"]);
        assert_eq!(read(Some(&one), limit).await, ["5", "4", "2", "1", "0"]);
        assert_eq!(read(Some(&two), limit).await, ["3"]);
        assert_eq!(read(Some(&submitter(3)), limit).await, Vec::<String>::new());
    }
    assert_eq!(b.audit_log(&AuditFilter::default()).await.unwrap(), []);
    let odd = AuditFilter { subject: Some(NodeText::new("unknown").to_string()), before: Some(u64::MAX), limit: 9 };
    assert_eq!(b.audit_log(&odd).await.unwrap(), []);
    assert_eq!(b.audit_log(&AuditFilter { subject: None, ..odd }).await.unwrap().len(), 6);
}
