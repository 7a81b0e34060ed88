//! Parameters of reads.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::names::TxStateName;
use crate::tx::TxExpand;

/// Parameters of a read of one transaction.
#[derive(Clone, Debug, Default)]
pub struct TxQuery {
    /// Wait for the next change. A final transaction is answered at once.
    pub wait: Option<Duration>,
    /// The version that the caller knows; a newer version is answered at once.
    pub version: Option<u32>,
    pub expand: Vec<TxExpand>,
}

#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// CAIP-10 id or alias.
    pub submitter: Option<String>,
    pub state: Option<TxStateName>,
    pub page: PageQuery,
}

#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Only entries about this submitter (CAIP-10 or alias), chain (CAIP-2), or the database (`store`).
    pub subject: Option<String>,
    pub page: PageQuery,
}

type Pairs = Vec<(&'static str, String)>;

impl TxQuery {
    pub(super) fn pairs(&self) -> Pairs {
        let mut pairs = wait_text(self.wait);
        pairs.extend(self.version.map(|version| ("version", version.to_string())));
        pairs.extend(expand_text(self.expand.iter().map(|word| word.as_str())));
        pairs
    }
}

impl ListQuery {
    pub(super) fn pairs(&self) -> Pairs {
        let mut pairs = self.page.pairs();
        pairs.extend(self.submitter.as_ref().map(|name| ("submitter", name.clone())));
        pairs.extend(self.state.map(|state| ("state", state.as_str().to_owned())));
        pairs
    }
}

impl AuditQuery {
    pub(super) fn pairs(&self) -> Pairs {
        let mut pairs = self.page.pairs();
        pairs.extend(self.subject.as_ref().map(|subject| ("subject", subject.clone())));
        pairs
    }
}

impl PageQuery {
    pub(super) fn pairs(&self) -> Pairs {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let cursor = self.cursor.as_ref().map(|cursor| ("cursor", cursor.clone()));
        limit.into_iter().chain(cursor).collect()
    }
}

pub(super) fn wait_text(wait: Option<Duration>) -> Pairs {
    wait.map(|wait| ("wait", format!("{}ms", wait.as_millis().min(999_999)))).into_iter().collect()
}

pub(super) fn expand_text<'a>(words: impl Iterator<Item = &'a str>) -> Pairs {
    let words: Vec<&str> = words.collect();
    if words.is_empty() { Vec::new() } else { vec![("expand", words.join(","))] }
}

/// Encodes one part of a path. Colons are kept, so that addresses stay readable in logs.
pub(super) fn segment(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');
    utf8_percent_encode(text, KEPT).to_string()
}
