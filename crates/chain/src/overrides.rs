//! The operator's own patterns (C07).

use crate::family::Family;
use crate::pattern::{Pattern, PatternError};
use crate::verdict::Verdict;

/// One override as the config gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRule {
    /// Only for answers of this family; `None` is for all, and for endpoints whose family is unknown.
    pub family: Option<String>,
    /// In the grammar of the tables: words, `#`, `*`, `...`, `^`, `$`.
    pub pattern: String,
    /// The name of a verdict: `wait`, `rejected`, …
    pub verdict: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    #[error("override {position}, pattern `{pattern}`: {cause}")]
    Pattern { position: usize, pattern: String, cause: PatternError },
    #[error("override {position}: there is no family `{family}`")]
    UnknownFamily { position: usize, family: String },
    #[error("override {position}: there is no outcome `{verdict}`")]
    UnknownVerdict { position: usize, verdict: String },
    #[error("override {position}: an error text is never an acceptance; only the returned hash is")]
    Acceptance { position: usize },
    #[error("there are more than {} overrides", Overrides::MAX)]
    TooMany,
}

/// Checked overrides. The first that matches wins, before every table.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    rules: Vec<Checked>,
}

#[derive(Clone, Debug)]
struct Checked {
    family: Option<Family>,
    pattern: Pattern,
    verdict: Verdict,
}

impl Overrides {
    pub const MAX: usize = 1000;

    pub fn new(rules: &[OverrideRule]) -> Result<Self, OverrideError> {
        if rules.len() > Self::MAX {
            return Err(OverrideError::TooMany);
        }
        let rules = rules.iter().enumerate().map(|(position, rule)| check(position, rule)).collect::<Result<_, _>>()?;
        Ok(Overrides { rules })
    }

    pub(crate) fn find(&self, family: Option<Family>, words: &[String], start: usize) -> Option<(usize, Verdict)> {
        let applies = |rule: &Checked| rule.family.is_none() || rule.family == family;
        let mut rules = self.rules.iter().enumerate();
        let (position, rule) = rules.find(|(_, rule)| applies(rule) && rule.pattern.find(words, start).is_some())?;
        Some((position, rule.verdict))
    }
}

fn check(position: usize, rule: &OverrideRule) -> Result<Checked, OverrideError> {
    let family = match &rule.family {
        None => None,
        Some(name) => {
            let unknown = || OverrideError::UnknownFamily { position, family: name.clone() };
            Some(Family::parse(name).ok_or_else(unknown)?)
        }
    };
    let unknown = || OverrideError::UnknownVerdict { position, verdict: rule.verdict.clone() };
    let verdict = Verdict::parse(&rule.verdict).ok_or_else(unknown)?;
    if verdict == Verdict::Accepted {
        return Err(OverrideError::Acceptance { position });
    }
    let pattern = Pattern::parse(&rule.pattern).map_err(|cause| OverrideError::Pattern {
        position,
        pattern: rule.pattern.clone(),
        cause,
    })?;
    Ok(Checked { family, pattern, verdict })
}
