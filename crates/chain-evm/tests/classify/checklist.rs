//! The statements about single texts (C02 to C07, S06, S08).

use std::sync::LazyLock;

use gapless_chain::{Classified, Reason, Source, Verdict};
use gapless_chain_evm::{
    Classifier, Family, Method, NodeFailure, OverrideError, OverrideRule, Overrides, UnknownTexts,
};
use gapless_domain::SendOutcome;

static PLAIN: LazyLock<Classifier> = LazyLock::new(|| classifier(&[]));

fn send(family: Option<Family>, text: &str) -> Classified {
    PLAIN.classify(family, Method::Send, &NodeFailure::from_code(Some(-32000), text))
}

fn classifier(overrides: &[OverrideRule]) -> Classifier {
    Classifier::new(Overrides::new(overrides).unwrap()).unwrap()
}

fn rule(family: Option<&str>, pattern: &str, verdict: &str) -> OverrideRule {
    OverrideRule { family: family.map(str::to_owned), pattern: pattern.to_owned(), verdict: verdict.to_owned() }
}

/// proves C02
#[test]
fn suffix_does_not_change_the_reason() {
    for (bare, suffixed) in [
        ("intrinsic gas too low", "intrinsic gas too low: gas 0, minimum needed 21000"),
        ("nonce too low", "nonce too low: address 0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c, tx: 5 state: 9"),
        ("already known", "already known: 0x7f657507aee0511e36d2d1972a6b22e917cc89f92b6c12c4dbd57eaabb236960"),
        ("oversized data", "oversized data: transaction size 138074, limit 131072"),
    ] {
        for family in [None, Some(Family::Geth), Some(Family::Bsc), Some(Family::Reth)] {
            assert_eq!(send(family, bare).reason, send(family, suffixed).reason, "{suffixed} of {family:?}");
            assert_ne!(send(family, bare).verdict, Verdict::Unknown);
        }
    }
}

/// proves C03
#[test]
fn unknown_transaction_is_not_already_known() {
    for family in Family::ALL.iter().copied().map(Some).chain([None]) {
        for text in ["unknown transaction", "Unknown transaction status", "err: unknown transaction 0xab"] {
            assert_eq!(send(family, text).verdict, Verdict::Unknown, "{text} of {family:?}");
        }
    }
    assert_eq!(send(Some(Family::Geth), "known transaction: 0xab").verdict, Verdict::AlreadyKnown);
}

/// proves C04
#[test]
fn transport_failures_differ_from_node_errors() {
    let of = |failure| PLAIN.classify(Some(Family::Geth), Method::Send, &failure);
    let page = "<html><head><title>already known, nonce too low</title></head></html>";
    for (failure, reason) in [
        (NodeFailure::Http { status: 429, body: "" }, Reason::RateLimited),
        (NodeFailure::Http { status: 429, body: page }, Reason::RateLimited),
        (NodeFailure::Http { status: 502, body: page }, Reason::GatewayError),
        (NodeFailure::Http { status: 503, body: "" }, Reason::GatewayError),
        (NodeFailure::Http { status: 504, body: "" }, Reason::TimedOut),
        (NodeFailure::TimedOut, Reason::TimedOut),
        (NodeFailure::Unreachable { text: "something broke" }, Reason::Unreachable),
        (NodeFailure::Unreachable { text: "connection refused" }, Reason::Unreachable),
        (NodeFailure::Answer { code: Some(-32000), text: "txpool is full", data: None }, Reason::PoolFull),
        // A node error in an HTTP error is still a node error.
        (
            NodeFailure::Http { status: 500, body: r#"{"error":{"code":-32000,"message":"nonce too low"}}"# },
            Reason::NonceUsed,
        ),
        (NodeFailure::Http { status: 400, body: "no idea" }, Reason::Unrecognized),
    ] {
        assert_eq!(of(failure).reason, reason, "{failure:?}");
    }
}

/// proves C05
#[test]
fn refusals_of_recent_rules_are_classified() {
    for (family, text, verdict, reason) in [
        (
            Family::Geth,
            "in-flight transaction limit reached for delegated accounts",
            Verdict::Wait,
            Reason::DelegatedLimit,
        ),
        (Family::Geth, "gapped-nonce tx from delegated accounts", Verdict::Wait, Reason::DelegatedLimit),
        (Family::Nethermind, "FutureNonceForDelegatedAccount", Verdict::Wait, Reason::DelegatedLimit),
        (Family::Geth, "address already reserved", Verdict::Wait, Reason::Reserved),
        (Family::Reth, "authority already reserved", Verdict::Wait, Reason::Reserved),
        (
            Family::Geth,
            "max initcode size exceeded: code size 49153, limit 49152",
            Verdict::Rejected,
            Reason::InitcodeTooLarge,
        ),
        (Family::Erigon, "INVALID: initcode too large", Verdict::Rejected, Reason::InitcodeTooLarge),
        (Family::Nethermind, "ReplacementNotAllowed", Verdict::ReplacementUnderpriced, Reason::ReplacementUnderpriced),
    ] {
        let classified = send(Some(family), text);
        assert_eq!((classified.verdict, classified.reason), (verdict, reason), "{text}");
    }
}

/// proves C06
#[test]
fn unknown_text_is_counted_by_its_shape() {
    let mut unknown = UnknownTexts::default();
    for text in ["the gnome at 0xab12 says 5", "the gnome at 0xcd34 says 77", "nonce too low"] {
        let classified = send(Some(Family::Geth), text);
        assert_eq!(classified.text.as_str(), text);
        unknown.note(&classified);
    }
    assert_eq!(unknown.counts().collect::<Vec<_>>(), [("the gnome at # says #", 2)]);
    assert_eq!(send(None, "the gnome says no").send_outcome(), SendOutcome::Unknown);
}

#[test]
fn unknown_texts_are_bounded() {
    let mut unknown = UnknownTexts::default();
    for n in 0..UnknownTexts::MAX_SHAPES + 7 {
        let letters: String = n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        unknown.note(&send(Some(Family::Filecoin), &format!("gnome {letters}")));
    }
    assert_eq!((unknown.counts().count(), unknown.others()), (UnknownTexts::MAX_SHAPES, 7));
}

/// proves C07
#[test]
fn overrides_are_matched_first() {
    let classifier = classifier(&[
        rule(Some("geth"), "the gnome ... says no", "wait"),
        rule(None, "nonce too low", "unknown"),
        rule(None, "nonce too", "rejected"),
    ]);
    let of = |family, text| classifier.classify(family, Method::Send, &NodeFailure::from_code(None, text));
    let gnome = of(Some(Family::Geth), "err: The gnome (5) says no!");
    assert_eq!((gnome.verdict, gnome.reason, gnome.source), (Verdict::Wait, Reason::Override, Source::Override(0)));
    assert_eq!(of(Some(Family::Besu), "The gnome (5) says no!").verdict, Verdict::Unknown);
    assert_eq!(of(Some(Family::Besu), "nonce too low").source, Source::Override(1));
}

/// proves C07
#[test]
fn invalid_override_is_refused_with_its_reason() {
    let error = |rule: OverrideRule| Overrides::new(&[rule]).unwrap_err();
    assert_eq!(
        error(rule(None, "* #", "wait")).to_string(),
        "override 0, pattern `* #`: the pattern has no word, so it would match nearly every text"
    );
    assert!(matches!(error(rule(Some("gnome"), "no", "wait")), OverrideError::UnknownFamily { .. }));
    assert!(matches!(error(rule(None, "no", "maybe")), OverrideError::UnknownVerdict { .. }));
    assert!(matches!(error(rule(None, "no", "accepted")), OverrideError::Acceptance { .. }));
}

/// No text is a success. "nonce too low" leads to a search for our hashes, and only our own hash in the answer of a
/// node is an acceptance (S06, S08; the adapter counts the contradiction).
#[test]
fn only_our_hash_is_an_acceptance() {
    let (ours, other) = (alloy_primitives::B256::repeat_byte(1), alloy_primitives::B256::repeat_byte(2));
    assert_eq!(Classified::answered(ours, ours).send_outcome(), SendOutcome::Accepted);
    let refused = Classified::answered(ours, other);
    assert_eq!((refused.send_outcome(), refused.reason), (SendOutcome::Unknown, Reason::HashMismatch));
}

#[test]
fn contract_text_is_not_a_node_error() {
    for text in [
        "execution reverted: already known",
        r#"execution reverted: {"message":"nonce too low"}"#,
        "VM Exception while processing transaction: reverted with reason string 'replacement transaction underpriced'",
    ] {
        for family in [None, Some(Family::Geth), Some(Family::Hardhat)] {
            assert_eq!(send(family, text).verdict, Verdict::Reverted, "{text}");
            assert_eq!(send(family, text).send_outcome(), SendOutcome::Wait);
        }
    }
}

#[test]
fn revert_keeps_its_data() {
    let failure = NodeFailure::Answer { code: Some(3), text: "execution reverted", data: Some("0x82b42900") };
    let classified = PLAIN.classify(Some(Family::Geth), Method::Call, &failure);
    assert_eq!(classified.verdict, Verdict::Reverted);
    assert_eq!(classified.revert_data, Some(alloy_primitives::bytes!("82b42900")));
}

#[test]
fn nonces_in_a_text_decide() {
    for (text, verdict) in [
        ("invalid nonce; got 3, expected 5: invalid sequence", Verdict::NonceTooLow),
        ("invalid nonce; got 7, expected 5: invalid sequence", Verdict::NonceTooHigh),
        ("account sequence mismatch, expected 5, got 9: incorrect account sequence", Verdict::NonceTooHigh),
    ] {
        assert_eq!(send(Some(Family::Ethermint), text).verdict, verdict, "{text}");
    }
}
