//! Tests of the config: defaults, overrides, problems and secrets.

mod policies;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use gapless_chain_evm::FeeOptions;
use gapless_domain::{Limits, StartFrom, SubmitterPolicy};
use gapless_engine::{RetentionOptions, ShareOptions, WatcherOptions};
use gapless_store_postgres::PgOptions;

use super::chain::{GasConfig, RpcConfig};
use super::file::TextSource;
use super::section::{ConfigReport, Section};
use super::tree::{ConfigNode, ConfigTable, Value};
use super::*;

/// Replaces positions by `*`: `chain.0.rpc` becomes `chain.*.rpc`.
pub(super) fn without_positions(key: &str) -> String {
    let parts = key.split('.').map(|part| if tree::position(part).is_some() { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

fn check(file: &str, environment: &[(&str, &str)]) -> CheckedConfig {
    let variables = environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    from_sources(&[(TextSource::file(Path::new("gapless.toml")), file)], variables.collect::<Vec<_>>())
}

fn problems(file: &str, environment: &[(&str, &str)]) -> Vec<String> {
    check(file, environment).problems.iter().map(ConfigProblem::to_string).collect()
}

fn good(file: &str, environment: &[(&str, &str)]) -> CheckedConfig {
    let checked = check(file, environment);
    assert_eq!(checked.problems, []);
    checked
}

fn origin(checked: &CheckedConfig, key: &str) -> String {
    let found: Vec<&EffectiveSetting> = checked.settings.iter().filter(|shown| shown.key == key).collect();
    assert_eq!(found.len(), 1, "{key}: {found:?}");
    format!("{} ({})", found[0].value, found[0].origin)
}

const CHAIN: &str = "[[chain]]\nid = \"eip155:31337\"\nrpc = \"http://127.0.0.1:8545\"\n";

/// The default file with its commented examples switched on.
fn everything() -> String {
    let on = |line: &'static str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
        _ => line,
    };
    DEFAULT_FILE.lines().map(on).collect::<Vec<_>>().join("\n")
}

#[test]
fn default_file_equals_defaults_in_code() {
    let config = good("", &[]).config;
    assert_eq!(config.node, NodeConfig::default());
    assert_eq!(config.lease, LeaseTerms::default());
    assert_eq!(config.policy, SubmitterPolicy::default());
    assert_eq!(config.stuck_webhook, WebhookConfig::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.calls, ApiLimits::default());
    assert_eq!(config.lane, LaneLimits::default());
    assert_eq!(config.log, LogConfig::default());
    assert_eq!(config.auth, AuthMode::ApiKey);
    assert_eq!(format!("{:?}", config.store.postgres), format!("{:?}", PgOptions::default()));
    assert_eq!(format!("{:?}", config.store), format!("{:?}", StoreConfig::default()));
    assert_eq!(format!("{:?}", config.engine), format!("{:?}", EngineOptions::default()));
    let chain = &good(CHAIN, &[]).config.chains[0];
    assert_eq!((chain.gas, &chain.watcher), (GasConfig::default(), &WatcherOptions::default()));
    assert_eq!((chain.rpc, &chain.policy), (RpcConfig::default(), &SubmitterPolicy::default()));
    assert_eq!(chain.oracle, FeeOptions::default());
    assert!(config.chains.is_empty() && config.submitters.is_empty() && config.classify.is_empty());
}

/// No setting has a default that is only in the code.
#[test]
fn default_file_sets_every_key() {
    let (mut report, table) = (ConfigReport::default(), file::parse(DEFAULT_FILE, &TextSource::Default).unwrap());
    Section::whole(&table, &mut report, read);
    let shown: BTreeSet<String> = report.settings.into_iter().map(|shown| shown.key).collect();
    let tables = ["store.postgres", "store.sqlite"];
    let missing: Vec<&String> = report
        .read_keys
        .iter()
        .filter(|key| key.contains('.') && !tables.contains(&key.as_str()) && !shown.contains(*key))
        .collect();
    assert_eq!(missing, ["node.id"]);
}

#[test]
fn documented_keys_and_known_keys_are_equal() {
    let text = everything();
    let table = file::parse(&text, &TextSource::Default).unwrap();
    let mut report = ConfigReport::default();
    let config = Section::whole(&table, &mut report, read);
    assert_eq!(report.problems, []);
    assert_eq!((config.chains.len(), config.submitters.len(), config.classify.len()), (1, 4, 1));

    let mut documented = BTreeSet::new();
    leaves(&table, "", &mut documented);
    // The policies of a chain and a submitter are documented once, in the sections of the file.
    let repeated = |key: &str| {
        ["chain.*.", "submitter.*."]
            .iter()
            .any(|item| key.strip_prefix(item).is_some_and(|key| documented.contains(key)))
    };
    let is_table = |key: &str| documented.iter().any(|other| other.starts_with(&format!("{key}.")));
    let missing: Vec<&String> =
        report.read_keys.iter().filter(|key| !documented.contains(*key) && !repeated(key) && !is_table(key)).collect();
    let tables = ["chain.*.confirmations", "chain.*.nonce", "submitter.*.confirmations"];
    let missing: Vec<&&String> = missing.iter().filter(|key| !tables.contains(&key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn leaves(table: &ConfigTable, prefix: &str, found: &mut BTreeSet<String>) {
    for (key, ConfigNode { value, .. }) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(table) => leaves(table, &format!("{key}."), found),
            Value::List(items) if items.iter().all(ConfigNode::is_table) => {
                for item in items {
                    if let Value::Table(table) = &item.value {
                        leaves(table, &format!("{key}.*."), found);
                    }
                }
            }
            _ => {
                found.insert(key);
            }
        }
    }
}

/// The config of the design document is valid.
#[test]
fn config_of_the_design_is_valid() {
    let frame = r#"
        [node]
        id = "node-a"
        listen = "127.0.0.1:8080"
        [store]
        url = "postgres://gapless@db/gapless"
        [auth]
        mode = "api_key"
        [lease]
        duration = "10s"
        renew_interval = "3s"
        clock_skew = "1s"
        [nonce]
        max_in_flight = 1
        release = "mined"
        start_from = 0
        on_external_nonce = "protect"
        [resubmit]
        enabled = true
        interval = "60s"
        [gas_bump]
        enabled = false
        min_interval = "60s"
        max_attempts = 10
        multiplier = 1.125
        [mempool]
        diagnose = false
        [confirmations]
        required = 20
        stale_receipt_timeout = "60s"
        [events]
        mode = "poll"
        [[chain]]
        id = "eip155:31337"
        rpc = ["http://127.0.0.1:8545"]
        rpc_timeout = "10s"
        rpc_max_in_flight = 100
        confirmations = 3
        [[submitter]]
        alias = "treasury"
        chain = "eip155:31337"
        signer = { type = "env", var = "TREASURY_KEY" }
        max_in_flight = 64
    "#;
    let config = good(frame, &[]).config;
    let submitter = &config.submitters[0];
    assert_eq!((submitter.policy.nonce.max_in_flight, submitter.policy.confirmations.required), (64, 3));
    assert_eq!(submitter.signer, SignerConfig::Env { var: "TREASURY_KEY".to_owned() });
    assert_eq!(config.chains[0].rpc, RpcConfig::default());
}

#[cfg(feature = "tools")]
#[test]
fn dev_config_is_valid() {
    let checked = from_sources(&[(TextSource::Default, dev::DEV_FILE)], Vec::new());
    assert_eq!(checked.problems, []);
    assert_eq!(checked.config.policy.confirmations.required, 2);
    let id = "eip155:31337".parse().unwrap();
    let chain = ChainConfig::at(&id, "ws://127.0.0.1:1", &checked.config.chain_defaults).unwrap();
    assert_eq!(chain.watcher.confirmations, 2);
}

#[test]
fn environment_overrides_file_and_file_overrides_default() {
    let file = "[lease]\nrenew_interval = \"2s\"\n\n[confirmations]\nrequired = 7";
    let checked = good(file, &[("GAPLESS__LEASE__RENEW_INTERVAL", "1500ms"), ("GAPLESS_API", "x"), ("HOME", "y")]);
    assert_eq!(checked.config.lease.renew_interval, Duration::from_millis(1500));
    assert_eq!(origin(&checked, "lease.renew_interval"), "\"1500ms\" (GAPLESS__LEASE__RENEW_INTERVAL)");
    assert_eq!(origin(&checked, "confirmations.required"), "7 (gapless.toml:5)");
    assert_eq!(origin(&checked, "lease.duration"), "\"10s\" (default)");
}

#[test]
fn environment_sets_lists_and_tables() {
    let environment = [
        ("GAPLESS__NONCE__START_FROM", "chain"),
        ("GAPLESS__GAS_BUMP__ENABLED", "true"),
        ("GAPLESS__GAS_BUMP__MULTIPLIER", "1.3"),
        ("GAPLESS__CHAIN__0__ID", "eip155:1"),
        ("GAPLESS__CHAIN__0__RPC", "http://a:1"),
        ("GAPLESS__CHAIN__1__ID", "eip155:5"),
        ("GAPLESS__CHAIN__1__RPC__0", "http://b:1"),
        ("GAPLESS__CHAIN__1__RPC__1", "ws://c:1"),
        ("GAPLESS__CHAIN__1__CONFIRMATIONS", "2"),
        ("GAPLESS__CHAIN__2", "{ id = \"eip155:7\", rpc = [\"http://d:1\", \"http://e:1\"] }"),
        ("GAPLESS__SUBMITTER__0__CHAIN", "eip155:5"),
        ("GAPLESS__SUBMITTER__0__SIGNER__TYPE", "env"),
        ("GAPLESS__SUBMITTER__0__SIGNER__VAR", "KEY"),
    ];
    let checked = good("", &environment);
    let config = &checked.config;
    assert_eq!(config.policy.nonce.start_from, StartFrom::Chain);
    assert_eq!(config.policy.bump.multiplier_permille, 1300);
    let endpoints: Vec<usize> = config.chains.iter().map(|chain| chain.endpoints.len()).collect();
    assert_eq!(endpoints, [1, 2, 2]);
    assert_eq!(config.submitters[0].policy.confirmations.required, 2);
    assert_eq!(origin(&checked, "chain.2.rpc.1"), "\"http://e:1\" (GAPLESS__CHAIN__2)");
}

#[test]
fn environment_changes_one_item_of_a_list() {
    let file = format!("{CHAIN}[[chain]]\nid = \"eip155:1\"\nrpc = [\"http://a:1\", \"http://b:1\"]");
    let checked = good(&file, &[("GAPLESS__CHAIN__1__RPC__1", "http://c:1"), ("GAPLESS__CHAIN__0__RPC_TIMEOUT", "3s")]);
    assert_eq!(checked.config.chains[0].rpc.timeout, Duration::from_secs(3));
    let shown: Vec<String> =
        checked.config.chains[1].endpoints.iter().map(|endpoint| endpoint.url.to_string()).collect();
    assert_eq!(shown, ["http://a:1", "http://c:1"]);
    let hole = problems(&file, &[("GAPLESS__CHAIN__3__ID", "eip155:5"), ("GAPLESS__CHAIN__3__RPC", "http://d:1")]);
    let expected = "GAPLESS__CHAIN__3__ID: chain: item 2 of the list is missing; number the items from 0 without a gap";
    assert_eq!(hole, [expected]);
}

#[test]
fn unknown_key_problem_names_the_most_similar_key() {
    let file = format!("lese = 1\n[lease]\nduraton = \"10s\"\n{CHAIN}rcp_timeout = \"1s\"");
    assert_eq!(
        problems(&file, &[("GAPLESS__STORE__URI", "s3cret"), ("GAPLESS__LEASE", "s3cret")]),
        [
            "GAPLESS__LEASE: lease: must be a table",
            "GAPLESS__STORE__URI: store.uri: unknown key; the most similar key is `store.url`",
            "gapless.toml:7: chain.0.rcp_timeout: unknown key; the most similar key is `chain.0.rpc_timeout`",
            "gapless.toml:1: lese: unknown key; the most similar key is `lease`",
        ]
    );
    assert_eq!(
        problems("[lease]\nduraton = \"10s\"", &[]),
        ["gapless.toml:2: lease.duraton: unknown key; the most similar key is `lease.duration`"]
    );
}

#[test]
fn retention_periods_are_durations_or_never() {
    let retention = |file: &str| good(&format!("[retention]\n{file}"), &[]).config.engine.retention;
    let never = retention(
        "after = \"never\"\nevents_after = \"never\"\nattempts_after = \"never\"\ncommands_after = \"never\"\n\
         nodes_after = \"never\"",
    );
    assert_eq!(never, RetentionOptions::never());
    let years = retention("after = \"1h\"\nevents_after = \"1h\"\nattempts_after = \"3650d\"\naudit_after = \"2555d\"");
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    assert_eq!((years.attempts_after, years.audit_after), (days(3650), days(2555)));
    let period = "must be a duration such as \"12h\", \"30d\" or \"3650d\", or \"never\"";
    for (line, problem) in [
        ("after = \"forever\"", period),
        ("audit_after = 30", period),
        ("nodes_after = \"59m\"", "must be from \"1h\" to \"never\""),
        ("batch = 0", "must be from 1 to 100000"),
        ("interval = \"0s\"", "must be from \"1ms\" to \"1d\""),
        ("afterwards = \"1d\"", "unknown key; the most similar key is `retention.after`"),
    ] {
        let found = problems(&format!("[retention]\n{line}"), &[]);
        assert!(found.len() == 1 && found[0].ends_with(problem), "{line}: {found:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let file = "[lease]\nduration = \"soon\"\n[log]\nformat = \"xml\"\n[gas_bump]\nmultiplier = 1.05\n\
                [nonce]\nmax_in_flight = 0";
    let found = problems(file, &[("GAPLESS__", "x"), ("GAPLESS__LEASE____DURATION", "x")]);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(found.iter().any(|text| text.starts_with("gapless.toml:2: lease.duration: must be a duration such as")));
    assert!(found.iter().any(|text| text == "gapless.toml:4: log.format: must be \"text\" or \"json\""));
    assert!(found.iter().any(|text| text == "max_in_flight is at least 1"), "{found:#?}");
}

#[test]
fn invalid_values_are_rejected_with_their_rule() {
    for (file, expected) in [
        ("[lease]\nrenew_interval = \"5s\"", "renew_interval must be above zero and must fit twice"),
        ("[confirmations]\nrequired = 0", "confirmations.required is at least 1"),
        ("[resubmit]\ninterval = \"1ms\"", "resubmit.interval is at least a second"),
        ("[limits]\npage_size_default = 201", "page_size_default is larger than page_size_max"),
        ("[signing]\nconcurrency = 0", "signing.concurrency: must be from 1 to 10000"),
        ("[signing]\nbatch_max = 10001", "signing.batch_max: must be from 1 to 10000"),
        ("[signing]\ntimeout = \"0s\"", "signing.timeout: must be from \"1ms\" to \"1d\""),
        ("[signing]\nhandover_first = \"0s\"", "signing.handover_first: must be from \"1ms\" to \"1d\""),
        ("[signing]\nhandover_longest = \"2d\"", "signing.handover_longest: must be from \"1ms\" to \"1d\""),
        ("[limits]\nbody_bytes = \"0B\"", "must be from \"1B\" to \"1GiB\""),
        (
            "[auth]\nmode = \"none\"\n[node]\nlisten = \"0.0.0.0:80\"",
            "auth.mode: \"none\" needs node.listen on a loopback",
        ),
        ("[events]\nmode = \"kafka\"", "events.mode: the mode \"kafka\" is not supported yet"),
        ("[gas_bump]\nmax_market = 0.9", "gas_bump.max_market is at least 1"),
        ("[gas_bump]\nmax_market = 1.0001", "gas_bump.max_market: must be a factor"),
        ("[gas_bump]\nmin_blocks = 10001", "gas_bump.min_blocks: must be from 0 to 10000"),
        ("[gas_bump]\nonly_lowest = \"yes\"", "gas_bump.only_lowest: must be true or false"),
        ("[fees]\nmax_price = \"-1\"", "fees.max_price: must be a price in wei"),
        (
            "[fees]\nmax_price = \"0x100000000000000000000000000000000\"",
            "fees.max_price: must be a price in wei for one unit of gas",
        ),
        ("[oracle]\nmin_fee = \"1000000000000000001\"", "oracle.min_fee: must be from 0 to 1000000000000000000"),
        ("[oracle]\nmin_priority_fee = \"x\"", "oracle.min_priority_fee: must be a price in wei"),
        ("[oracle]\nbase_fee_factor = 0.9", "oracle.base_fee_factor: must be from 1.0 to 100.0"),
        ("[oracle]\nrollup = \"zksync\"", "oracle.rollup: must be \"none\" or \"optimism\" or \"arbitrum\""),
        ("[fees]\nmin_price = \"1\"", "fees.min_price: unknown key; the most similar key is `fees.max_price`"),
        ("[stuck]\nafter_tries = 0", "stuck.after_tries is at least 1"),
        ("[stuck]\nask_interval = \"999ms\"", "stuck.ask_interval is at least a second"),
        ("[stuck]\nwebhook = \"ftp://s3cret\"", "stuck.webhook: must be a URL"),
        ("[stuck]\nwebhook = \"http://h:99999/s3cret\"", "stuck.webhook: must be a URL"),
        ("[stuck]\nwebhook_timeout = \"0s\"", "stuck.webhook_timeout: must be from \"1ms\" to \"1m\""),
        ("[stuck]\nwebhook_timeout = \"61s\"", "stuck.webhook_timeout: must be from \"1ms\" to \"1m\""),
        ("[mempool]\ndiagnose = 1", "mempool.diagnose: must be true or false"),
        ("[store]\nurl = \"sqlite::memory:\"", "store.url: must be"),
        ("[store]\nurl = 1979-05-27", "store.url: must be"),
        ("[[classify]]\npattern = \"* #\"\nverdict = \"wait\"", "classify: override 0"),
        (
            "[[classify]]\npattern = \"nonce\"\nverdict = \"accepted\"",
            "classify: override 0: `accepted` is not allowed",
        ),
        ("[node]\nid = \"a b\"", "node.id: must be 1 to 64 letters"),
        ("[watcher]\npoll_min = \"3s\"", "watcher.poll_min: poll_min is longer than poll_max"),
        ("[funds]\nlow_balance = \"1.5\"", "funds.low_balance: must be an amount of wei"),
        ("[funds]\nlow_balance = -1", "funds.low_balance: must be an amount of wei"),
        ("[nonce]\ndelegated_max_in_flight = 0", "max_in_flight is at least 1"),
        ("[watcher]\nsurvey_blocks = 0", "watcher.survey_blocks: must be from 1 to"),
        ("[gas]\nfactor = 0.5", "gas.factor: must be from 1.0 to 100.0"),
        ("[log]\nfilter = \"a=b=c\"", "log.filter: must be a filter"),
        ("[nonce]\nstart_from = -1", "nonce.start_from: must be a nonce or \"chain\""),
        ("a = ", "gapless.toml:1: "),
        ("chain = 1", "chain: must be a list of tables, [[chain]]"),
    ] {
        let found = problems(file, &[]);
        assert_eq!(found.len(), 1, "{file}: {found:#?}");
        assert!(found[0].contains(expected), "{file}: {found:#?}");
    }
    good("[auth]\nmode = \"none\"\n[node]\nlisten = \"[::1]:0\"", &[]);
    good("[auth]\nmode = \"none\"\n[node]\nlisten = \"localhost:0\"", &[]);
}

#[test]
fn invalid_chains_and_submitters_are_rejected() {
    let submitter = "[[submitter]]\nchain = \"eip155:31337\"\n";
    let signer = "signer = { type = \"env\", var = \"KEY\" }\n";
    let endpoint = |endpoint: &str| format!("[[chain]]\nid = \"eip155:1\"\nrpc = [{endpoint}]");
    for (file, expected) in [
        (format!("{CHAIN}{CHAIN}"), "chain: set twice, also by another [[chain]] eip155:31337"),
        ("[[chain]]\nid = \"eip155:1\"".to_owned(), "chain.0.rpc: must be set"),
        ("[[chain]]\nid = \"eip155:01\"\nrpc = \"http://a\"".to_owned(), "chain.0.id: "),
        (
            "[[chain]]\nid = \"stellar:testnet\"\nrpc = \"http://a\"".to_owned(),
            "a chain of another namespace than eip155 is not supported yet",
        ),
        (format!("{CHAIN}rpc_send_to = 0"), "chain.0.rpc_send_to: must be \"all\" or"),
        (format!("{CHAIN}confirmations = 0"), "chain.0: confirmations.required is at least 1"),
        (format!("{CHAIN}confirmations = 10001"), "chain.0.confirmations: must be from 1 to 10000"),
        (format!("{CHAIN}max_in_flight = 2\nnonce = {{ max_in_flight = 3 }}"), "chain.0.max_in_flight: set twice"),
        (format!("{submitter}{signer}"), "submitter.0.chain: no [[chain]] has this id; the known ids are: none"),
        (format!("{CHAIN}{submitter}"), "submitter.0.signer: must be set"),
        (
            format!("{CHAIN}{submitter}signer = {{ type = \"aws_kms\", key = \"x\" }}"),
            "a signer of type \"aws_kms\" is not supported yet",
        ),
        (
            format!("{CHAIN}{submitter}signer = {{ type = \"enf\", var = \"x\" }}"),
            "signer.type: must be \"env\" or \"keystore\"",
        ),
        (
            format!("{CHAIN}{submitter}signer = {{ type = \"keystore\", file = \"a\" }}"),
            "set either `password_var` or `password_file`",
        ),
        (format!("{CHAIN}{submitter}{signer}alias = \"a:b\""), "submitter.0.alias: must be 1 to 64"),
        (
            format!("{CHAIN}{submitter}{signer}address = \"0xF39fd6e51aad88F6F4ce6aB8827279cffFb92266\""),
            "submitter.0.address: must be an address",
        ),
        (
            format!("{CHAIN}{submitter}{signer}confirmations = 3"),
            "submitter.0.confirmations: a submitter with other confirmations than its chain is not supported yet",
        ),
        (
            format!("{CHAIN}{submitter}{signer}confirmations = {{ finality = \"safe\" }}"),
            "submitter.0.confirmations: a submitter with other confirmations than its chain is not supported yet",
        ),
        (
            format!("{CHAIN}finality = \"safe\"\nconfirmations = {{ finality = \"safe\" }}"),
            "chain.0.finality: set twice, also by the table `confirmations`",
        ),
        (
            format!("{CHAIN}stuck = {{ webhook = \"http://s3cr3t\" }}"),
            "chain.0.stuck.webhook: unknown key; the most similar key is",
        ),
        (
            format!("{CHAIN}{submitter}{signer}stuck = {{ webhook_timeout = \"1s\" }}"),
            "submitter.0.stuck.webhook_timeout: unknown key; the most similar key is",
        ),
        (
            format!("{CHAIN}{submitter}{signer}oracle = {{ min_fee = \"7\" }}"),
            "submitter.0.oracle: unknown key; the most similar key is",
        ),
        (format!("{CHAIN}gas_bump = {{ max_market = 0.5 }}"), "chain.0: gas_bump.max_market is at least 1"),
        (
            format!("{CHAIN}{submitter}{signer}stuck = {{ after_tries = 0 }}"),
            "submitter.0: stuck.after_tries is at least 1",
        ),
        (format!("{CHAIN}finality = \"latest\""), "chain.0.finality: must be \"depth\" or \"safe\" or \"finalized\""),
        (endpoint("{ url = \"http://a\", weight = 1001 }"), "with a weight up to 1000"),
        (endpoint("{ url = \"http://a\", wait = 1 }"), "chain.0.rpc.0: must be a URL"),
        (endpoint("{ weight = 1 }"), "chain.0.rpc.0: must be a URL"),
        (endpoint("{ url = \"ftp://s3cr3t\" }"), "chain.0.rpc.0: must be a URL"),
        (
            format!("{CHAIN}{submitter}{signer}alias = \"a\"\n{submitter}{signer}alias = \"a\""),
            "another [[submitter]] with the alias \"a\"",
        ),
    ] {
        let found = problems(&file, &[]);
        assert_eq!(found.len(), 1, "{file}: {found:#?}");
        assert!(found[0].contains(expected), "{file}: {found:#?}");
    }
}

#[test]
fn endpoints_have_weights_and_hide_their_secrets() {
    let file = "[[chain]]\nid = \"eip155:1\"\n\
                rpc = [\"http://a/s3cr3t\", { url = \"wss://u:s3cr3t@b/s3cr3t\", weight = 3 }]\n\
                [[chain]]\nid = \"eip155:2\"\nrpc = { url = \"http://c\", weight = 0 }\nrpc_lag_max = 9";
    let checked = good(file, &[("GAPLESS__CHAIN__1__RPC_HEAD_AGE_MAX", "1m")]);
    let weights = |chain: &ChainConfig| chain.endpoints.iter().map(|endpoint| endpoint.weight).collect::<Vec<_>>();
    assert_eq!(checked.config.chains.iter().map(weights).collect::<Vec<_>>(), [vec![1, 3], vec![0]]);
    assert_eq!(origin(&checked, "chain.0.rpc.1"), "{ url = \"wss://***@b/***\", weight = 3 } (gapless.toml:3)");
    let rpc = checked.config.chains[1].rpc;
    assert_eq!((rpc.lag_max, rpc.head_age_max), (9, Duration::from_secs(60)));
    let shown = format!("{:?} {:?}", checked.settings, checked.config);
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn rebalancing_and_scan_limits_are_read() {
    let file = "[dispatch]\nrebalance_interval = \"3s\"\nrebalance_slack = 0\nrebalance_slack_percent = 5\n\
                rebalance_max = 7\nhanded_over_pause = \"4s\"\nyield_pause = \"0s\"\nreturned_pause = \"2h\"\n\
                chain_away_after = \"9s\"\n\
                [watcher]\nsurvey_blocks = 99\n[lane]\nwindow_bytes = \"1KiB\"\nadopt = 5\n[rpc]\nblocks_max = 2\n";
    let config = good(&format!("{file}{CHAIN}[chain.watcher]\nsurvey_blocks = 5\n"), &[]).config;
    let seconds = Duration::from_secs;
    let share = ShareOptions {
        interval: seconds(3),
        slack: 0,
        slack_percent: 5,
        round_max: 7,
        pause: seconds(4),
        yield_pause: Duration::ZERO,
        returned_pause: seconds(7200),
        away_after: seconds(9),
    };
    assert_eq!(config.engine.dispatch.share, share);
    assert_eq!((config.lane.window_bytes, config.lane.adopt), (1024, 5));
    assert_eq!((config.chains[0].watcher.survey_blocks, config.chains[0].rpc.blocks_max), (5, 2));
    let other = ChainConfig::at(&"eip155:5".parse().unwrap(), "http://127.0.0.1:1", &config.chain_defaults).unwrap();
    assert_eq!(other.watcher.survey_blocks, 99);
}

/// No value that may be a secret is in settings, problems or debug output, whether the config is valid or not.
///
/// proves X03
#[test]
fn secrets_are_never_shown() {
    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let file = format!(
        "{CHAIN}[[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"0x{KEY}\" }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", var = \"{KEY}\" }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"env\", key = \"{KEY}\" }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\nsigner = {{ type = \"{KEY}\" }}\n\
         [[submitter]]\nchain = \"eip155:31337\"\n\
         signer = {{ type = \"mnemonic\", var = \"a b c\", path = \"{KEY}\" }}\n\
         [[submitter]]\nchain = \"{KEY}\"\naddress = \"{KEY}\"\nsigner = \"{KEY}\"\n"
    );
    let environment = [
        ("GAPLESS__STORE__URL", "postgres://u:s3cret@db/g?password=s3cret"),
        ("GAPLESS__CHAIN__0__RPC", "[\"https://s3cret:s3cret@host/v2/s3cret?k=s3cret\", \"wss://host/s3cret\"]"),
        ("GAPLESS__STUCK__WEBHOOK", "https://u:s3cret@host/s3cret"),
        ("GAPLESS__LEASE__DURATION", "s3cret"),
        ("GAPLESS__LOG__FORMAT", "s3cret"),
        ("GAPLESS__NODE__LISTEN", "s3cret"),
        ("GAPLESS__NODE__ID", "s3cret!"),
        ("GAPLESS__NO__SUCH__KEY", "s3cret"),
    ];
    let bad_urls = [
        ("GAPLESS__STORE__URL", "host=db password=s3cret"),
        ("GAPLESS__CHAIN__0__RPC", "[\"host/s3cret\", \"http://u:s3cret/x@h\"]"),
        ("GAPLESS__STUCK__WEBHOOK", "host/s3cret"),
    ];
    let broken = "[store]\nurl = \"postgres://u:s3cret@db/g\ns3cret";
    let mut output = String::new();
    for checked in [check(&file, &environment), check(&file, &bad_urls), check(broken, &[])] {
        assert!(!checked.problems.is_empty());
        let error = ConfigError::Invalid { problems: checked.problems.clone() };
        output += &format!("{:?}{:?}{:?}{error}{error:?}", checked.config, checked.settings, checked.problems);
    }
    assert!(output.contains("postgres://***@db/***") && output.contains("https://***@host/***"), "{output}");
    assert!(!output.contains("s3cret"), "{output}");
    assert!(!output.contains("ac0974be"), "{output}");
}
