//! `gapless keys`: creates, imports and lists keystore files. A key or a password is never an argument, because every
//! user of the machine can read the arguments of a process.

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gapless_chain_evm::{Keystore, KeystoreEntry, Secret};
use serde_json::{Value, json};

use super::table::columns;
use super::{CliError, Exit};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a new key in an encrypted keystore file
    New(NewArgs),
    /// Import an existing key into an encrypted keystore file
    Import(ImportArgs),
    /// List the keystore files of a folder
    List(FolderArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FolderArgs {
    /// Folder of the keystore files
    #[arg(long, value_name = "DIR", default_value = "keys")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    password: PasswordArgs,
    /// Environment variable that holds the private key in hex
    #[arg(long, value_name = "NAME", conflicts_with = "key_file")]
    key_var: Option<String>,
    /// File that holds the private key in hex; without --key-var and --key-file, the key is read from standard input
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PasswordArgs {
    /// File that holds the password of the keystore file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Environment variable that holds the password of the keystore file
    #[arg(long, value_name = "NAME")]
    password_var: Option<String>,
}

impl KeysCommand {
    pub(crate) fn run(self, output: &Output) -> Result<Exit, CliError> {
        match self {
            KeysCommand::New(args) => {
                let entry = Keystore::at(args.folder.dir).create(&args.password.read()?)?;
                show(&entry, output)
            }
            KeysCommand::Import(args) => {
                let password = args.password.read()?;
                let key = match (&args.key_var, &args.key_file) {
                    (Some(name), _) => Secret::from_env(name)?,
                    (None, Some(path)) => Secret::from_file(path)?,
                    (None, None) => from_stdin()?,
                };
                let entry = Keystore::at(args.folder.dir).import(&key, &password)?;
                show(&entry, output)
            }
            KeysCommand::List(args) => {
                let entries = Keystore::at(args.dir).list()?;
                let rows: Vec<[String; 2]> = entries.iter().map(row).collect();
                output.result(&json!({ "keys": entries.iter().map(to_json).collect::<Vec<_>>() }), columns(&rows))?;
                Ok(Exit::Success)
            }
        }
    }
}

impl PasswordArgs {
    fn read(&self) -> Result<Secret, CliError> {
        match (&self.password_file, &self.password_var) {
            (Some(path), _) => Ok(Secret::from_file(path)?),
            (None, Some(name)) => Ok(Secret::from_env(name)?),
            (None, None) => Err(CliError::NoPassword),
        }
    }
}

fn from_stdin() -> Result<Secret, CliError> {
    let mut text = String::new();
    let limit = Secret::MAX_FILE_BYTES as u64;
    let read = std::io::stdin().lock().take(limit).read_to_string(&mut text);
    read.map_err(|source| CliError::File { path: "standard input".into(), source })?;
    Ok(Secret::new(text))
}

fn show(entry: &KeystoreEntry, output: &Output) -> Result<Exit, CliError> {
    output.result(&to_json(entry), columns(&[row(entry)]))?;
    Ok(Exit::Success)
}

fn row(entry: &KeystoreEntry) -> [String; 2] {
    [entry.address.to_string(), entry.file.display().to_string()]
}

fn to_json(entry: &KeystoreEntry) -> Value {
    json!({ "address": entry.address.to_string(), "file": entry.file })
}
