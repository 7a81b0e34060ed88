//! Families do not match texts of other families, and without a family nothing is guessed.

use crate::rows::{classifier, rows};
use gapless_chain::{Source, Verdict};
use gapless_chain_evm::{Family, Method, NodeFailure};

/// The verdicts that are final for the lane. A wrong one costs money; any other wrong verdict costs time.
fn is_final(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Accepted | Verdict::AlreadyKnown | Verdict::Rejected)
}

/// proves C01
#[test]
fn wrong_family_never_gives_a_wrong_final_verdict() {
    let classifier = classifier();
    let mut wrong = Vec::new();
    for row in rows() {
        for family in Family::ALL {
            let classified = row.classify_as(&classifier, Some(*family), &row.text);
            if is_final(classified.verdict) && !row.allows(&classified) {
                wrong.push(format!(
                    "line {} {:?} of {} as {}: {:?}, wanted {:?}, {:?}",
                    row.line,
                    row.text,
                    row.family,
                    family.as_str(),
                    classified.verdict,
                    row.outcomes,
                    classified.source
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// proves C01
#[test]
fn text_without_family_is_right_or_unknown() {
    let classifier = classifier();
    let rows = rows();
    let (mut wrong, mut right) = (Vec::new(), 0);
    for row in &rows {
        let classified = row.classify_as(&classifier, None, &row.text);
        if row.allows(&classified) {
            right += 1;
        } else if classified.verdict != Verdict::Unknown {
            wrong.push(format!("line {} {:?}: {:?} {:?}", row.line, row.text, classified.verdict, classified.source));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right * 100 >= rows.len() * 99, "only {right} of {} are known without a family", rows.len());
}

/// proves C01
#[test]
fn family_uses_its_own_tables_only() {
    let classifier = classifier();
    // Texts of one family, and families that do not share them.
    for (text, of, others) in [
        ("OldNonce", "nethermind", ["geth", "besu", "erigon", "zksync", "filecoin"]),
        ("spammer", "erigon", ["geth", "besu", "nethermind", "openethereum", "monad"]),
        ("Upfront cost exceeds account balance", "besu", ["geth", "reth", "erigon", "nethermind", "zksync"]),
        ("message with nonce already exists", "filecoin", ["geth", "besu", "erigon", "kaia", "sei"]),
        ("Supplied gas is beyond limit.", "openethereum", ["geth", "besu", "erigon", "hedera", "bsc"]),
        ("An existing transaction had higher priority", "monad", ["geth", "besu", "reth", "nethermind", "optimism"]),
    ] {
        let answer = |name: &str| {
            let failure = NodeFailure::from_code(Some(-32000), text);
            classifier.classify(Some(Family::parse(name).unwrap()), Method::Send, &failure)
        };
        assert_ne!(answer(of).verdict, Verdict::Unknown, "{text} of {of}");
        for other in others {
            assert_eq!(answer(other).source, Source::NoRule, "{text} as {other}");
        }
    }
}
