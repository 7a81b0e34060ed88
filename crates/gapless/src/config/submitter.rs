//! The section `[[submitter]]`: the signing accounts, and the source of each key. A key itself is never in the config.

use std::path::PathBuf;

use gapless_domain::{Address, ChainId, SubmitterId, SubmitterPolicy};
use gapless_engine::Finality;

use super::chain::ChainConfig;
use super::policy;
use super::problem::ProblemKind;
use super::section::{Section, words};
use super::tree::Value;
use super::value::{Setting, text_of};

pub(crate) const MAX_SUBMITTERS: usize = 100_000;
const DEFAULT_PATH: &str = "m/44'/60'/0'/0/0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubmitterConfig {
    pub(crate) alias: Option<String>,
    pub(crate) chain: ChainId,
    /// If set, the key must belong to this address.
    pub(crate) address: Option<Address>,
    pub(crate) signer: SignerConfig,
    pub(crate) policy: SubmitterPolicy,
}

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignerConfig {
    /// An environment variable that holds the private key in hex.
    Env { var: String },
    /// An encrypted keystore file.
    Keystore { file: PathBuf, password: Password },
    /// An environment variable that holds the words.
    Mnemonic { var: String, path: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Password {
    Env { var: String },
    File(PathBuf),
}

pub(crate) fn submitters(
    file: &mut Section<'_>,
    chains: &[ChainConfig],
    base: &SubmitterPolicy,
) -> Vec<SubmitterConfig> {
    let mut submitters: Vec<SubmitterConfig> = Vec::new();
    for found in file.each("submitter", MAX_SUBMITTERS, |item| submitter(item, chains, base)).into_iter().flatten() {
        submitters.push(found);
    }
    let mut aliases: Vec<&str> = submitters.iter().filter_map(|submitter| submitter.alias.as_deref()).collect();
    aliases.sort_unstable();
    let twice: Vec<String> =
        aliases.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].to_owned()).collect();
    for alias in twice {
        file.refuse(
            "submitter",
            ProblemKind::Twice { other: format!("another [[submitter]] with the alias {alias:?}") },
        );
    }
    submitters
}

fn submitter(item: &mut Section<'_>, chains: &[ChainConfig], base: &SubmitterPolicy) -> Option<SubmitterConfig> {
    let alias = item.find::<Alias>("alias");
    let chain_id = item.need::<ChainId>("chain");
    let chain = chain_id.as_ref().and_then(|id| chains.iter().find(|chain| chain.id == *id));
    if chain_id.is_some() && chain.is_none() {
        let known: Vec<&str> = chains.iter().map(|chain| chain.id.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        item.refuse("chain", ProblemKind::NoSuchChain { known });
    }
    let address = item.find::<EvmAddress>("address").map(|address| address.0);
    if !item.has("signer") {
        item.refuse("signer", ProblemKind::Missing);
    }
    let signer = item.within("signer", signer);
    let base = chain.map_or(base, |chain| &chain.policy);
    let finality = chain.map_or_else(Finality::default, |chain| chain.watcher.finality);
    let (policy, own_finality) = policy::overrides(item, base.clone(), finality);
    if policy.confirmations != base.confirmations || own_finality != finality {
        // The watcher of a chain applies one rule to all submitters.
        let feature = "a submitter with other confirmations than its chain".to_owned();
        item.refuse("confirmations", ProblemKind::NotSupported { feature });
    }
    Some(SubmitterConfig {
        alias: alias.map(|alias| alias.0),
        chain: chain?.id.clone(),
        address,
        signer: signer?,
        policy,
    })
}

/// The types of signers. The planned types are listed too, so that their message differs from that of a typing error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignerKind {
    Env,
    Keystore,
    Mnemonic,
    AwsKms,
    GcpKms,
    Http,
}

words!(SignerKind {
    SignerKind::Env => "env",
    SignerKind::Keystore => "keystore",
    SignerKind::Mnemonic => "mnemonic",
    SignerKind::AwsKms => "aws_kms",
    SignerKind::GcpKms => "gcp_kms",
    SignerKind::Http => "http",
});

fn signer(table: &mut Section<'_>) -> Option<SignerConfig> {
    // A missing signer is already reported.
    let kind = if table.is_empty() { table.find::<SignerKind>("type") } else { table.need::<SignerKind>("type") };
    if kind.is_none() {
        table.ignore_unknown_keys();
    }
    match kind? {
        SignerKind::Env => Some(SignerConfig::Env { var: table.need::<VariableName>("var")?.0 }),
        SignerKind::Mnemonic => {
            let var = table.need::<VariableName>("var");
            let path = table.read("path", DerivationPath(DEFAULT_PATH.to_owned()));
            Some(SignerConfig::Mnemonic { var: var?.0, path: path.0 })
        }
        SignerKind::Keystore => {
            let file = table.need::<String>("file");
            let password = password(table);
            Some(SignerConfig::Keystore { file: file?.into(), password: password? })
        }
        SignerKind::AwsKms | SignerKind::GcpKms | SignerKind::Http => {
            let feature = format!("a signer of type {}", kind?.show());
            // The keys of a planned signer are not unknown keys.
            table.ignore_unknown_keys();
            table.refuse("type", ProblemKind::NotSupported { feature });
            None
        }
    }
}

fn password(table: &mut Section<'_>) -> Option<Password> {
    let (one, other) = ("password_var", "password_file");
    let var = table.find::<VariableName>("password_var").map(|name| Password::Env { var: name.0 });
    let path = table.find::<String>("password_file").map(|path| Password::File(path.into()));
    match (table.has(one), table.has(other)) {
        (true, true) => table.refuse(one, ProblemKind::Either { one, other }),
        (false, false) => table.refuse("", ProblemKind::Neither { one, other }),
        _ => return var.or(path),
    }
    None
}

/// A short name that cannot be mistaken for a CAIP-10 id.
struct Alias(String);

impl Setting for Alias {
    fn wanted() -> String {
        "1 to 64 letters, digits, \"-\", \"_\" or \".\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        ((1..=64).contains(&text.len()) && text.bytes().all(plain)).then(|| Alias(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The name of an environment variable. A private key that was written here by mistake is rejected, so it is never
/// shown.
struct VariableName(String);

impl Setting for VariableName {
    fn wanted() -> String {
        "the name of an environment variable that holds the secret, not the secret itself".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let looks_like_a_key = text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_name = (1..=128).contains(&text.len())
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(plain)
            && !looks_like_a_key;
        is_name.then(|| VariableName(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A BIP-32 derivation path, as in `m/44'/60'/0'/0/0`. Words that were written here by mistake are rejected.
struct DerivationPath(String);

impl Setting for DerivationPath {
    fn wanted() -> String {
        format!("a derivation path such as \"{DEFAULT_PATH}\"")
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        let mut steps = text.split('/');
        let is_step = |step: &str| step.strip_suffix('\'').unwrap_or(step).parse::<u32>().is_ok_and(|n| n < 1 << 31);
        (steps.next() == Some("m") && text.len() <= 128 && steps.all(is_step)).then(|| DerivationPath(text.to_owned()))
    }

    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

struct EvmAddress(Address);

impl Setting for EvmAddress {
    fn wanted() -> String {
        "an address: 0x and 40 hex digits with a valid checksum".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        // The domain checks the address as part of a submitter id; the chain of the id does not matter.
        let id: SubmitterId = format!("eip155:1:{}", text_of(value)?).parse().ok()?;
        id.evm_address().map(EvmAddress)
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.0)
    }
}
