//! `gapless chain classify`: classifies error texts of endpoints.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use gapless_chain::{Classified, Source};
use gapless_chain_evm::{Classifier, Family, Method, NodeFailure, Overrides};
use serde_json::{Value, json};

use crate::cli::{CliError, ConfigArgs, Exit};
use crate::config::Config;
use crate::output::Output;

/// The largest table of texts that the command reads.
const MAX_TSV_BYTES: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct ClassifyArgs {
    /// Client family of the endpoint (see `gapless chain families`); without it, only the rules for all families apply
    #[arg(long, value_name = "FAMILY", conflicts_with = "tsv")]
    family: Option<String>,
    /// JSON-RPC error code or HTTP status of the answer
    #[arg(long, value_name = "CODE", allow_negative_numbers = true, conflicts_with = "tsv")]
    code: Option<i64>,
    /// JSON-RPC method of the call
    #[arg(long, value_name = "METHOD", default_value = "eth_sendRawTransaction", conflicts_with = "tsv")]
    method: String,
    /// Classify a table of texts instead of one: tab-separated columns family, method, code and text, with the escapes
    /// \\ \n \r \t; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    tsv: Option<PathBuf>,
    /// Error text of the endpoint
    #[arg(required_unless_present = "tsv", allow_hyphen_values = true)]
    text: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// One error answer to classify.
struct ErrorAnswer {
    family: Option<Family>,
    method: String,
    code: Option<i64>,
    text: String,
}

impl ClassifyArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let config = Config::load(self.config.config.as_deref())?;
        let classifier = Classifier::new(Overrides::new(&config.classify)?)?;
        if let Some(path) = &self.tsv {
            let rows = read_rows(&read_text(path)?)?;
            for row in rows {
                let classified = row.classify(&classifier);
                output.result(&to_json(&classified), to_row(&classified))?;
            }
            return Ok(Exit::Success);
        }
        let unknown = |name: &String| CliError::UnknownFamily(name.clone());
        let family = self.family.as_ref().map(|name| Family::parse(name).ok_or_else(|| unknown(name))).transpose()?;
        let text = self.text.unwrap_or_default();
        let classified = ErrorAnswer { family, method: self.method, code: self.code, text }.classify(&classifier);
        output.result(&to_json(&classified), to_text(&classified))?;
        Ok(Exit::Success)
    }
}

impl ErrorAnswer {
    fn classify(&self, classifier: &Classifier) -> Classified {
        classifier.classify(self.family, Method::of(&self.method), &NodeFailure::from_code(self.code, &self.text))
    }
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let wrong = |source| CliError::File { path: path.to_owned(), source };
    let input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(std::fs::File::open(path).map_err(wrong)?),
    };
    let mut text = String::new();
    input.take(MAX_TSV_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > MAX_TSV_BYTES {
        return Err(wrong(std::io::Error::other(format!("larger than {MAX_TSV_BYTES} bytes; split the table"))));
    }
    Ok(text)
}

/// Reads the table. A first line of column names is skipped. An unknown family counts as no family, because the table
/// may come from a newer version.
fn read_rows(text: &str) -> Result<Vec<ErrorAnswer>, CliError> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let is_heading = |line, text: &str| line == 1 && text.starts_with("family\tmethod\t");
    let rows = lines.filter(|(line, text)| !text.is_empty() && !is_heading(*line, text));
    rows.map(|(line, text)| read_row(text).map_err(|message| CliError::Row { line, message })).collect()
}

fn read_row(line: &str) -> Result<ErrorAnswer, String> {
    let mut cells = line.split('\t');
    let mut cell =
        |name| cells.next().ok_or_else(|| format!("the column {name} is missing; columns are separated by tabs"));
    let (family, method, code, text) = (cell("family")?, cell("method")?, cell("code")?, cell("text")?);
    let code = match code {
        "" => None,
        digits => Some(digits.parse().map_err(|_| "the code is not a number".to_owned())?),
    };
    Ok(ErrorAnswer { family: Family::parse(family), method: method.to_owned(), code, text: unescape(text) })
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some('t') => plain.push('\t'),
                Some('\\') | None => plain.push('\\'),
                Some(other) => plain.extend(['\\', other]),
            },
            c => plain.push(c),
        }
    }
    plain
}

fn to_json(classified: &Classified) -> Value {
    json!({
        "outcome": outcome(classified),
        "verdict": classified.verdict.as_str(),
        "reason": classified.reason.as_str(),
        "source": source(&classified.source),
        "revertData": classified.revert_data.as_ref().map(ToString::to_string),
    })
}

/// The outcome by the name that the table of known texts uses.
fn outcome(classified: &Classified) -> String {
    format!("{:?}", classified.verdict)
}

fn to_row(classified: &Classified) -> String {
    format!("{}\t{}\t{}", outcome(classified), classified.reason.as_str(), source(&classified.source))
}

fn to_text(classified: &Classified) -> String {
    let mut text = format!(
        "outcome  {} ({})\nreason   {}\nrule     {}\n",
        outcome(classified),
        classified.verdict.as_str(),
        classified.reason.as_str(),
        source(&classified.source)
    );
    if let Some(data) = &classified.revert_data {
        text.push_str(&format!("data     {data}\n"));
    }
    text
}

fn source(source: &Source) -> String {
    match source {
        Source::Override(position) => format!("the config's [[classify]] {position}"),
        Source::Table { table, pattern } => format!("table {table}, pattern `{pattern}`"),
        Source::HttpStatus(status) => format!("HTTP status {status}"),
        Source::Code(code) => format!("code {code}"),
        Source::Transport => "the transport".to_owned(),
        Source::Hash(hash) => format!("the returned hash {hash}"),
        Source::NoRule => "no rule matched".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescape_keeps_unknown_escapes() {
        assert_eq!(unescape(r"a\\n\n\t\r\x\"), "a\\n\n\t\r\\x\\");
    }

    #[test]
    fn rows_need_four_columns_and_a_numeric_code() {
        assert_eq!(read_rows("family\tmethod\tcode\ttext\ngeth\teth_call\t\tx\toutcome\n\n").unwrap().len(), 1);
        let wrong = |text| read_rows(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            wrong("geth\tx\t1\ta\ngeth\tx\t1"),
            "line 2: the column text is missing; columns are separated by tabs"
        );
        assert_eq!(wrong("geth\tx\tx\ta"), "line 1: the code is not a number");
    }
}
