use std::sync::Arc;

use alloy_primitives::{Address, address, b256, bytes};
use gapless_domain::{AccessListItem as Item, Amount, Authorization as Signed, ChainId, EvmRules, Nonce, Work};
use gapless_secret::Secret;
use gapless_signer::{KeyLocation, PublicKey, Signer, SigningInput, TxEncoder as _, sign_plans};
use proptest::prelude::*;

use super::*;
use crate::encoder::EvmEncoder;
use crate::signer::LocalSigner;

const CHAIN: u64 = 31337;
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const OTHER_KEY: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";

fn local(key: &str) -> Arc<LocalSigner> {
    Arc::new(LocalSigner::from_hex(&Secret::new(key.to_owned())).unwrap())
}

fn item() -> Item {
    Item { address: Address::repeat_byte(3), storage_keys: vec![B256::repeat_byte(4), B256::ZERO] }
}

fn authorization() -> Signed {
    let (r, s) = (U256::from(7), U256::from(8));
    Signed { chain_id: U256::from(CHAIN), address: Address::repeat_byte(5), nonce: 6, y_parity: true, r, s }
}

fn plan() -> TxPlan {
    let call = EvmCall {
        to: Some(address!("70997970C51812dc3A010C7d01b50e0d17dc79C8")),
        value: Amount::from(5_u64),
        data: bytes!("c0ffee"),
        ..EvmCall::default()
    };
    TxPlan {
        submitter: "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap(),
        nonce: Nonce::new(9).unwrap(),
        action: call.into(),
        work: Work::new(50_000),
        fees: Fees::Eip1559 { max_fee: 30, max_priority_fee: 2 },
    }
}

fn call_of(plan: &mut TxPlan) -> &mut EvmCall {
    let Action::Evm(call) = &mut plan.action;
    call
}

/// One plan for each transaction type.
fn plans() -> [TxPlan; 5] {
    let legacy = TxPlan { fees: Fees::Legacy { gas_price: 11 }, ..plan() };
    let mut listed = legacy.clone();
    call_of(&mut listed).access_list = vec![item()];
    let mut delegated = plan();
    call_of(&mut delegated).access_list = vec![item()];
    call_of(&mut delegated).authorizations = vec![authorization()];
    let mut create = plan();
    call_of(&mut create).to = None;
    [legacy, listed, plan(), delegated, create]
}

fn signed_with(signer: &LocalSigner, plan: &TxPlan) -> Result<SignedTx, SignerError> {
    let unsigned = build(plan, CHAIN)?;
    verify(plan, &unsigned, signer.sign_transaction(&unsigned))
}

#[test]
fn every_transaction_type_is_signed_and_decoded() {
    let signer = local(KEY);
    let mut kinds = Vec::new();
    for plan in plans() {
        let signed = signed_with(&signer, &plan).unwrap();
        let envelope = decode(&signed.raw).unwrap();
        kinds.push(envelope.ty());
        assert_eq!(signed.hash, *envelope.tx_hash());
        assert_eq!(outline_of(&signed.raw).map(|outline| outline.cost), Some(plan.worst_cost(&EvmRules)));
    }
    assert_eq!(kinds, [0, 1, 2, 4, 2]);
}

fn here() -> ChainId {
    format!("eip155:{CHAIN}").parse().unwrap()
}

#[test]
fn signed_bytes_decode_to_plan_and_sender() {
    for plan in plans() {
        let signed = signed_with(&local(KEY), &plan).unwrap();
        let read = read_signed(&signed.raw, &here()).unwrap();
        assert_eq!((read.plan, read.signed), (plan.clone(), signed));
        // A plan that is signed by another key belongs to another account.
        let raw = local(OTHER_KEY).sign_transaction(&build(&plan, CHAIN).unwrap());
        let other = read_signed(&raw, &here()).unwrap().plan.submitter;
        assert_eq!(other.evm_address(), Some(local(OTHER_KEY).address()));
    }
}

#[test]
fn transaction_that_no_plan_expresses_is_refused() {
    let why = |raw: &Bytes| read_signed(raw, &here()).unwrap_err().0.to_string();
    let elsewhere = local(KEY).sign_transaction(&build(&plan(), 1).unwrap());
    assert_eq!(why(&elsewhere), "the transaction is for chain 1");
    let mut anywhere = build(&TxPlan { fees: Fees::Legacy { gas_price: 11 }, ..plan() }, CHAIN).unwrap();
    let UnsignedTx::Legacy(legacy) = &mut anywhere else { panic!("legacy") };
    legacy.chain_id = None;
    let anywhere = local(KEY).sign_transaction(&anywhere);
    assert_eq!(why(&anywhere), "the transaction has no chain id");
    let blobs = local(KEY).sign_transaction(&UnsignedTx::Eip4844(blob()));
    assert_eq!(why(&blobs), "transactions with blobs are not supported");
    assert_eq!(outline_of(&blobs), None);
    let [.., delegated, _] = plans();
    let mut odd = build(&delegated, CHAIN).unwrap();
    let UnsignedTx::Eip7702(tx) = &mut odd else { panic!("delegated") };
    let inner = tx.authorization_list[0].inner().clone();
    tx.authorization_list[0] = SignedAuthorization::new_unchecked(inner, 2, U256::from(7), U256::from(8));
    let odd = local(KEY).sign_transaction(&odd);
    assert!(why(&odd).contains("parity"));
    assert!(why(&Bytes::new()).contains("the type is unknown"));
}

fn blob() -> TxEip4844 {
    TxEip4844 {
        chain_id: CHAIN,
        nonce: 9,
        gas_limit: 50_000,
        max_fee_per_gas: 30,
        max_priority_fee_per_gas: 2,
        to: Address::repeat_byte(3),
        blob_versioned_hashes: vec![B256::repeat_byte(1)],
        max_fee_per_blob_gas: 1,
        ..TxEip4844::default()
    }
}

/// The JSON of a transaction as nodes return it.
fn shown(raw: &Bytes) -> String {
    serde_json::to_string(&decode(raw).unwrap()).unwrap()
}

#[test]
fn mined_transaction_of_any_type_is_decoded() {
    let sender = local(KEY).address();
    let mut unsigned: Vec<UnsignedTx> = plans().iter().map(|plan| build(plan, CHAIN).unwrap()).collect();
    let anywhere = TxLegacy { nonce: 9, gas_limit: 21_000, to: TxKind::Create, ..TxLegacy::default() };
    unsigned.extend([UnsignedTx::Legacy(anywhere), UnsignedTx::Eip4844(blob())]);
    for unsigned in unsigned {
        let raw = local(KEY).sign_transaction(&unsigned);
        let hash = keccak256(&raw);
        let read = read_mined(&shown(&raw), hash, sender, &here()).unwrap();
        assert_eq!((read.signed.hash, &read.signed.raw, read.plan.nonce.get()), (hash, &raw, 9));
    }
}

/// Hash, sender and fields of a node are all verified.
#[test]
fn forged_transaction_is_refused() {
    let sender = local(KEY).address();
    for plan in plans() {
        let raw = signed_with(&local(KEY), &plan).unwrap().raw;
        let (fields, hash) = (shown(&raw), keccak256(&raw));
        assert!(read_mined(&fields, hash, sender, &here()).is_some());
        assert_eq!(read_mined(&fields, B256::repeat_byte(1), sender, &here()), None);
        assert_eq!(read_mined(&fields, hash, Address::repeat_byte(1), &here()), None);
        // A changed field with the right hash beside it.
        let bent = fields.replace("c0ffee", "c0ffef").replace(r#""nonce":"0x9""#, r#""nonce":"0x8""#);
        assert_ne!(bent, fields);
        assert_eq!(read_mined(&bent, hash, sender, &here()), None);
    }
    assert_eq!(read_mined(r#"{"type":"0x7e"}"#, B256::ZERO, sender, &here()), None);
}

/// The example transaction of EIP-155, which is also in the tests of go-ethereum.
#[test]
fn eip_155_example_is_encoded_exactly() {
    let key = "46".repeat(32);
    let signer = local(&key);
    let plan = TxPlan {
        submitter: format!("eip155:1:{}", signer.address()).parse().unwrap(),
        nonce: Nonce::new(9).unwrap(),
        action: EvmCall {
            to: Some(Address::repeat_byte(0x35)),
            value: Amount::from(1_000_000_000_000_000_000_u64),
            ..EvmCall::default()
        }
        .into(),
        work: Work::new(21_000),
        fees: Fees::Legacy { gas_price: 20_000_000_000 },
    };
    let unsigned = build(&plan, 1).unwrap();
    let hash = b256!("daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53");
    assert_eq!(signing_hash(&unsigned), hash);
    let raw = signer.sign_transaction(&unsigned);
    let expected = bytes!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080"
        "25a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
        "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    );
    assert_eq!(raw, expected);
    assert!(verify(&plan, &unsigned, raw).is_ok());
}

/// The right key signs a changed transaction.
fn forged(plan: &TxPlan, forge: fn(&mut UnsignedTx)) -> Result<SignedTx, SignerError> {
    let unsigned = build(plan, CHAIN)?;
    let mut other = unsigned.clone();
    forge(&mut other);
    verify(plan, &unsigned, local(KEY).sign_transaction(&other))
}

macro_rules! in_any {
    ($tx:expr, $field:ident = $value:expr) => {
        match $tx {
            UnsignedTx::Legacy(tx) => tx.$field = $value,
            UnsignedTx::Eip2930(tx) => tx.$field = $value,
            UnsignedTx::Eip1559(tx) => tx.$field = $value,
            UnsignedTx::Eip7702(tx) => tx.$field = $value,
            UnsignedTx::Eip4844(_) => unreachable!(),
        }
    };
}

type Forgery = fn(&mut UnsignedTx);

const FORGERIES: &[(&str, Forgery)] = &[
    ("chain id", |tx| tx.set_chain_id(1)),
    ("nonce", |tx| in_any!(tx, nonce = 10)),
    ("gas limit", |tx| in_any!(tx, gas_limit = 50_001)),
    ("value", |tx| in_any!(tx, value = U256::from(6))),
    ("data", |tx| in_any!(tx, input = bytes!("c0ffef"))),
    ("fees", |tx| match tx {
        UnsignedTx::Legacy(tx) => tx.gas_price += 1,
        UnsignedTx::Eip2930(tx) => tx.gas_price += 1,
        UnsignedTx::Eip1559(tx) => tx.max_fee_per_gas += 1,
        UnsignedTx::Eip7702(tx) => tx.max_priority_fee_per_gas += 1,
        UnsignedTx::Eip4844(_) => unreachable!(),
    }),
    ("recipient", |tx| match tx {
        UnsignedTx::Legacy(tx) => tx.to = TxKind::Create,
        UnsignedTx::Eip2930(tx) => tx.to = TxKind::Call(Address::ZERO),
        UnsignedTx::Eip1559(tx) => tx.to = TxKind::Call(Address::ZERO),
        UnsignedTx::Eip7702(tx) => tx.to = Address::ZERO,
        UnsignedTx::Eip4844(_) => unreachable!(),
    }),
    ("type", |tx| {
        let legacy =
            TxLegacy { chain_id: Some(CHAIN), nonce: 9, gas_limit: 50_000, gas_price: 30, ..TxLegacy::default() };
        let listed = TxEip2930 { chain_id: CHAIN, nonce: 9, gas_limit: 50_000, gas_price: 30, ..TxEip2930::default() };
        *tx =
            if matches!(tx, UnsignedTx::Legacy(_)) { UnsignedTx::Eip2930(listed) } else { UnsignedTx::Legacy(legacy) };
    }),
];

/// proves S09
#[test]
fn signer_that_changes_a_field_is_refused() {
    for plan in plans() {
        for (field, forge) in FORGERIES {
            assert_eq!(forged(&plan, *forge), Err(SignerError::Mismatch(field)), "{plan:?}");
        }
    }
}

/// proves S09
#[test]
fn signer_that_changes_a_list_is_refused() {
    fn no_keys(tx: &mut UnsignedTx) {
        let list = AccessList(vec![AccessListItem { address: Address::repeat_byte(3), storage_keys: Vec::new() }]);
        match tx {
            UnsignedTx::Eip2930(tx) => tx.access_list = list,
            UnsignedTx::Eip7702(tx) => tx.access_list = list,
            _ => unreachable!(),
        }
    }
    fn other_delegate(tx: &mut UnsignedTx) {
        let UnsignedTx::Eip7702(tx) = tx else { unreachable!() };
        let inner = Authorization { chain_id: U256::from(CHAIN), address: Address::repeat_byte(6), nonce: 6 };
        tx.authorization_list = vec![SignedAuthorization::new_unchecked(inner, 1, U256::from(7), U256::from(8))];
    }
    let [_, listed, _, delegated, _] = plans();
    for (plan, forge, field) in [
        (&listed, no_keys as fn(&mut UnsignedTx), "access list"),
        (&delegated, no_keys, "access list"),
        (&delegated, other_delegate, "authorizations"),
    ] {
        assert_eq!(forged(plan, forge), Err(SignerError::Mismatch(field)));
    }
}

/// proves S09
#[test]
fn wrong_key_and_malformed_signature_are_refused() {
    for plan in plans() {
        assert_eq!(signed_with(&local(OTHER_KEY), &plan), Err(SignerError::Mismatch("sender")));
        let unsigned = build(&plan, CHAIN).unwrap();
        let good = local(KEY).sign_hash(signing_hash(&unsigned));
        let order =
            U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).unwrap();
        let high = Signature::new(good.r(), order - good.s(), !good.v());
        let answer = verify(&plan, &unsigned, with_signature(&unsigned, high));
        assert_eq!(answer, Err(SignerError::Mismatch("signature")), "the right key, but an s in the upper half");
        let raw = with_signature(&unsigned, good);
        for bent in [Bytes::new(), raw.slice(..raw.len() - 1), [raw.as_ref(), &[0]].concat().into()] {
            assert_eq!(verify(&plan, &unsigned, bent.clone()), Err(SignerError::Mismatch("encoding")));
            assert_eq!(outline_of(&bent), None);
        }
    }
}

/// A service with the right key, or with another key, that signs another digest than the one it was given.
#[derive(Debug)]
struct WrongService {
    key: Arc<LocalSigner>,
    digest: Option<B256>,
}

#[async_trait::async_trait]
impl Signer for WrongService {
    fn public_key(&self) -> PublicKey {
        self.key.public_key()
    }

    fn location(&self) -> KeyLocation {
        KeyLocation::Service("test".into())
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<gapless_signer::Signature, SignerError>> {
        let digest = |input: &SigningInput| self.digest.unwrap_or(input.digest);
        let changed = |input: &SigningInput| SigningInput { digest: digest(input), ..input.clone() };
        self.key.sign_many(&inputs.iter().map(changed).collect::<Vec<_>>()).await
    }
}

fn permit() -> gapless_domain::Permit {
    use gapless_domain::{FencingToken, Lease, LeaseTerms, OwnerId, Term, Tick};
    let lease = Lease::granted(plan().submitter, OwnerId::new("test", 1), FencingToken::new(1));
    let start = Tick::since_start(std::time::Duration::ZERO);
    Term::begin(lease, start, &LeaseTerms::default()).permit(start).unwrap()
}

async fn signed_by(signer: &dyn Signer, plans: &[TxPlan]) -> Vec<Result<SignedTx, SignerError>> {
    sign_plans(&permit(), &EvmEncoder::new(here()).unwrap(), signer, plans).await
}

#[tokio::test]
async fn encoder_and_signer_make_the_same_bytes_as_the_key() {
    let encoder = EvmEncoder::new(here()).unwrap();
    for signer in [local(KEY) as Arc<dyn Signer>, Arc::new(WrongService { key: local(KEY), digest: None })] {
        for (plan, signed) in plans().iter().zip(signed_by(signer.as_ref(), &plans()).await) {
            assert_eq!(signed, signed_with(&local(KEY), plan));
            let input = encoder.signing_input(plan).unwrap();
            assert_eq!(input.digest, signing_hash(&build(plan, CHAIN).unwrap()));
        }
    }
}

/// proves S09
#[tokio::test]
async fn service_with_wrong_key_or_digest_is_refused() {
    let wrong_digest = WrongService { key: local(KEY), digest: Some(B256::repeat_byte(1)) };
    let wrong_key = WrongService { key: local(OTHER_KEY), digest: None };
    let wrong_own_key = local(OTHER_KEY);
    for signer in [&wrong_digest as &dyn Signer, &wrong_key, wrong_own_key.as_ref()] {
        for answer in signed_by(signer, &plans()).await {
            assert_eq!(answer, Err(SignerError::Mismatch("sender")));
        }
    }
}

#[tokio::test]
async fn plan_that_cannot_be_signed_fails_alone() {
    let tip = TxPlan { fees: Fees::Eip1559 { max_fee: 1, max_priority_fee: 2 }, ..plan() };
    let elsewhere: gapless_domain::SubmitterId = format!("eip155:1:{}", local(KEY).address()).parse().unwrap();
    let other = TxPlan { submitter: elsewhere, ..plan() };
    let answers = signed_by(local(KEY).as_ref(), &[plan(), tip, other, plan()]).await;
    assert!(answers[0].is_ok() && answers[0] == answers[3]);
    assert!(matches!(answers[1], Err(SignerError::Refused(_))));
    assert!(matches!(answers[2], Err(SignerError::Mismatch(_))));
}

#[test]
fn plan_that_no_transaction_expresses_is_refused() {
    let mut legacy = plan();
    call_of(&mut legacy).authorizations = vec![authorization()];
    let mut create = legacy.clone();
    call_of(&mut create).to = None;
    legacy.fees = Fees::Legacy { gas_price: 1 };
    let tip = TxPlan { fees: Fees::Eip1559 { max_fee: 1, max_priority_fee: 2 }, ..plan() };
    for plan in [legacy, create, tip] {
        assert!(matches!(build(&plan, CHAIN), Err(SignerError::Refused(_))), "{plan:?}");
    }
}

#[test]
fn unsigned_size_is_an_upper_bound() {
    let widest = |plan: &TxPlan| {
        let fees = match plan.fees {
            Fees::Legacy { .. } => Fees::Legacy { gas_price: u128::MAX },
            Fees::Eip1559 { .. } => Fees::Eip1559 { max_fee: u128::MAX, max_priority_fee: u128::MAX },
        };
        TxPlan { nonce: Nonce::MAX, work: Work::new(u64::MAX), fees, ..plan.clone() }
    };
    for plan in plans() {
        let size = |plan: &TxPlan| build(plan, CHAIN).unwrap().encoded_for_signing().len();
        let Action::Evm(call) = &plan.action;
        let estimate = unsigned_size(call, CHAIN);
        assert!(size(&widest(&plan)) <= estimate, "{plan:?}");
        assert!(estimate <= size(&plan) + 80, "{plan:?}: {estimate} for {}", size(&plan));
    }
}

#[test]
fn estimate_has_every_field_but_a_price() {
    let [.., delegated, _] = plans();
    let Action::Evm(call) = &delegated.action;
    let object = call_object(Address::ZERO, call);
    let names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["accessList", "authorizationList", "data", "from", "to", "value"]);
    assert_eq!(object["value"], "0x5");
    assert_eq!(object["authorizationList"][0]["yParity"], "0x1");
    assert_eq!(object["accessList"][0]["storageKeys"][1], format!("0x{}", "0".repeat(64)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = outline_of(&raw.into());
    }
}
