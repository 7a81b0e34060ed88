//! Cases about batches, concurrent calls and dropped calls.

use std::task::Poll;

use super::{Harness, input, verify};
use crate::port::SigningInput;

fn inputs(name: &str, count: usize) -> Vec<SigningInput> {
    (0..count).map(|number| input(&format!("{name} {number}"))).collect()
}

pub(super) async fn batch_is_answered_in_order(harness: &dyn Harness) {
    let signer = harness.open().await;
    for count in [1, 2, 100] {
        let inputs = inputs("batch", count);
        let answers = signer.sign_many(&inputs).await;
        assert_eq!(answers.len(), count);
        for (input, answer) in inputs.iter().zip(answers) {
            assert!(verify(signer.public_key(), input, &answer.unwrap()), "{input:?}");
        }
    }
}

pub(super) async fn equal_inputs_are_signed_each(harness: &dyn Harness) {
    let signer = harness.open().await;
    let twice = [input("twice"), input("twice")];
    let answers = signer.sign_many(&twice).await;
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| verify(signer.public_key(), &twice[0], answer.as_ref().unwrap())));
}

pub(super) async fn concurrent_calls_get_own_answers(harness: &dyn Harness) {
    let signer = harness.open().await;
    let call = async |name: &str| {
        let inputs = inputs(name, 10);
        for (input, answer) in inputs.iter().zip(signer.sign_many(&inputs).await) {
            assert!(verify(signer.public_key(), input, &answer.unwrap()), "{input:?}");
        }
    };
    tokio::join!(call("a"), call("b"), call("c"), call("d"));
}

pub(super) async fn dropped_call_leaves_signer_usable(harness: &dyn Harness) {
    let signer = harness.open().await;
    let dropped = inputs("dropped", 3);
    let mut call = signer.sign_many(&dropped);
    std::future::poll_fn(|cx| {
        let _ = call.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    drop(call);
    let next = input("next");
    let answers = signer.sign_many(std::slice::from_ref(&next)).await;
    assert_eq!(answers.len(), 1);
    assert!(verify(signer.public_key(), &next, answers[0].as_ref().unwrap()));
}
