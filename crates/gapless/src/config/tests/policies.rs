//! Tests of policy overrides: the file overrides the defaults, a chain the file, and a submitter its chain.

use std::time::Duration;

use gapless_chain_evm::{FeeOptions, Rollup};
use gapless_domain::{Amount, ExternalNoncePolicy, FundsPolicy, OnShortage, ReleaseRule, SubmitterPolicy};
use gapless_engine::{Finality, WatcherOptions};

use super::*;

#[test]
fn chain_overrides_confirmations_and_finality() {
    let chain = |id: u64, more: &str| format!("[[chain]]\nid = \"eip155:{id}\"\nrpc = \"http://a\"\n{more}\n");
    let file = [
        "[confirmations]\nfinality = \"safe\"\nstale_receipt_timeout = \"9s\"\n[watcher]\nsave_interval = \"1s\"\n"
            .to_owned(),
        chain(1, ""),
        chain(2, "finality = \"finalized\""),
        chain(3, "confirmations = { finality = \"depth\", stale_receipt_timeout = \"7s\" }"),
        chain(4, "confirmations = 3"),
    ];
    let config = good(&file.concat(), &[]).config;
    let watchers: Vec<_> = config.chains.iter().map(|chain| &chain.watcher).collect();
    let of =
        |watcher: &&WatcherOptions| (watcher.finality, watcher.confirmations, watcher.stale_receipt_timeout.as_secs());
    assert_eq!(
        watchers.iter().map(of).collect::<Vec<_>>(),
        [(Finality::Safe, 20, 9), (Finality::Finalized, 20, 9), (Finality::Depth, 20, 7), (Finality::Safe, 3, 9)]
    );
    assert!(watchers.iter().all(|watcher| watcher.save_interval == Duration::from_secs(1)));
    let id = "eip155:31337".parse().unwrap();
    let chain = ChainConfig::at(&id, "ws://127.0.0.1:1", &config.chain_defaults).unwrap();
    assert_eq!(of(&&chain.watcher), (Finality::Safe, 20, 9));
}

#[test]
fn submitter_overrides_chain_and_chain_overrides_file() {
    let file = format!(
        "[nonce]\nrelease = \"final\"\nmax_in_flight = 2\n{CHAIN}confirmations = 3\n\
         [chain.resubmit]\ninterval = \"9s\"\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"A\" }}\nmax_in_flight = 64\n\
         [submitter.funds]\non_shortage = \"fail\"\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"B\" }}\n\
         [submitter.gas_bump]\nmax_attempts = 7"
    );
    let config = good(&file, &[]).config;
    let [first, second] = &config.submitters[..] else { panic!("two submitters") };
    assert_eq!(first.policy.nonce.release, ReleaseRule::Final);
    assert_eq!((first.policy.nonce.max_in_flight, second.policy.nonce.max_in_flight), (64, 2));
    assert_eq!((first.policy.confirmations.required, second.policy.confirmations.required), (3, 3));
    assert_eq!((first.policy.bump.max_attempts, second.policy.bump.max_attempts), (10, 7));
    let fail = FundsPolicy { on_shortage: OnShortage::Fail, ..FundsPolicy::default() };
    assert_eq!((first.policy.funds, second.policy.funds), (fail, FundsPolicy::default()));
    assert_eq!(second.policy.resubmit.interval, Duration::from_secs(9));
    let windows = [first, second].map(|submitter| submitter.policy.nonce.narrow_max_in_flight);
    assert_eq!(windows, [1, 1], "max_in_flight does not change delegated_max_in_flight");
}

#[test]
fn external_nonce_delegation_and_low_balance_are_overridden() {
    let file = format!(
        "[nonce]\non_external_nonce = \"adopt\"\ndelegated_max_in_flight = 2\n[funds]\nlow_balance = \"0x10\"\n{CHAIN}\
         [chain.funds]\nlow_balance = \"1000000000000000000000\"\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"A\" }}\n\
         delegated_max_in_flight = 3\non_external_nonce = \"protect\"\n[submitter.funds]\nlow_balance = 7\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"B\" }}\nmax_in_flight = 8"
    );
    let config = good(&file, &[]).config;
    let [first, second] = &config.submitters[..] else { panic!("two submitters") };
    let external = |policy: &SubmitterPolicy| policy.nonce.on_external_nonce;
    assert_eq!(external(&first.policy), ExternalNoncePolicy::Protect);
    assert_eq!(external(&second.policy), ExternalNoncePolicy::Adopt);
    let windows = [first, second].map(|submitter| submitter.policy.nonce.narrow_max_in_flight);
    assert_eq!(windows, [3, 2]);
    let low = |policy: &SubmitterPolicy| policy.funds.low_balance.to_string();
    assert_eq!((low(&config.policy), low(&first.policy)), ("16".to_owned(), "7".to_owned()));
    assert_eq!(low(&second.policy), "1000000000000000000000");
    assert_eq!(good("", &[]).config.policy.funds.low_balance, Amount::ZERO);
}

#[test]
fn fees_bumps_stuck_rule_and_mempool_are_overridden() {
    let file = format!(
        "[gas_bump]\nenabled = true\nmax_market = 2.5\n[fees]\nmax_price = \"0x10\"\n[stuck]\nafter_tries = 3\n\
         [mempool]\ndiagnose = true\n\
         {CHAIN}gas_bump = {{ min_blocks = 5, only_lowest = false }}\n\
         fees = {{ max_price = \"340282366920938463463374607431768211455\" }}\n\
         mempool = {{ diagnose = false }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"A\" }}\n\
         gas_bump = {{ enabled = false }}\nfees = {{ max_price = 7 }}\nstuck = {{ ask_interval = \"9s\" }}\n\
         mempool = {{ diagnose = true }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"B\" }}"
    );
    let environment = [
        ("GAPLESS__STUCK__WEBHOOK", "https://u:s3cr3t@decide/s3cr3t?k=s3cr3t"),
        ("GAPLESS__STUCK__WEBHOOK_TIMEOUT", "2s"),
    ];
    let checked = good(&file, &environment);
    let config = &checked.config;
    let [first, second] = &config.submitters[..] else { panic!("two submitters") };
    let bump = |policy: &SubmitterPolicy| {
        let bump = &policy.bump;
        (bump.enabled, bump.min_blocks, bump.max_market_permille, bump.only_lowest)
    };
    assert_eq!(bump(&config.policy), (true, 2, 2500, true));
    assert_eq!((bump(&first.policy), bump(&second.policy)), ((false, 5, 2500, false), (true, 5, 2500, false)));
    let prices = [&config.policy, &first.policy, &second.policy].map(|policy| policy.fees.max_price);
    assert_eq!(prices, [16, 7, u128::MAX]);
    let stuck = |policy: &SubmitterPolicy| (policy.stuck.after_tries, policy.stuck.ask_interval.as_secs());
    assert_eq!((stuck(&first.policy), stuck(&second.policy)), ((3, 9), (3, 300)));
    assert_eq!([&first.policy, &second.policy].map(|policy| policy.mempool.diagnose), [true, false]);

    let webhook = &config.stuck_webhook;
    assert_eq!(webhook.timeout, Duration::from_secs(2));
    assert_eq!(webhook.url.as_ref().unwrap().expose(), environment[0].1);
    assert_eq!(origin(&checked, "stuck.webhook"), "\"https://***@decide/***\" (GAPLESS__STUCK__WEBHOOK)");
    let shown = format!("{:?} {:?}", checked.settings, checked.config);
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn chain_overrides_fee_oracle() {
    let file = format!(
        "[oracle]\nmin_fee = \"9\"\nbase_fee_factor = 1.5\n\
         {CHAIN}oracle = {{ rollup = \"optimism\", min_priority_fee = \"0\" }}\n"
    );
    let config = good(&file, &[]).config;
    let expected = FeeOptions { min_priority_fee: 0, min_fee: 9, base_fee_factor: 1500, rollup: Rollup::Optimism };
    assert_eq!(config.chains[0].oracle, expected);
    let other = ChainConfig::at(&"eip155:5".parse().unwrap(), "http://127.0.0.1:1", &config.chain_defaults).unwrap();
    assert_eq!(other.oracle, FeeOptions { min_priority_fee: 1, rollup: Rollup::None, ..expected });
}
