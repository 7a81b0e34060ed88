//! The operator's own patterns (C07).

use gapless_chain::Verdict;

use super::family::Family;
use super::pattern::{Pattern, PatternError};

/// One override as the config gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRule {
    /// The family of the answers. `None` is for all families and for endpoints of an unknown family.
    pub family: Option<String>,
    /// A pattern in the grammar of the tables: words, `#`, `*`, `...`, `^`, `$`.
    pub pattern: String,
    /// The name of a verdict: `wait`, `rejected`, …
    pub verdict: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    #[error("override {position}, pattern `{pattern}`: {cause}")]
    Pattern { position: usize, pattern: String, cause: PatternError },
    #[error("override {position}: the family `{family}` is unknown")]
    UnknownFamily { position: usize, family: String },
    #[error("override {position}: the outcome `{verdict}` is unknown")]
    UnknownVerdict { position: usize, verdict: String },
    #[error("override {position}: `accepted` is not allowed, because only a returned hash proves acceptance")]
    Acceptance { position: usize },
    #[error("there are more than {} overrides", Overrides::MAX)]
    TooMany,
}

/// Validated overrides. The first match wins, before every table.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    rules: Vec<ValidRule>,
}

#[derive(Clone, Debug)]
struct ValidRule {
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
        let applies = |rule: &ValidRule| rule.family.is_none() || rule.family == family;
        let mut rules = self.rules.iter().enumerate();
        let (position, rule) = rules.find(|(_, rule)| applies(rule) && rule.pattern.find(words, start).is_some())?;
        Some((position, rule.verdict))
    }
}

fn check(position: usize, rule: &OverrideRule) -> Result<ValidRule, OverrideError> {
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
    Ok(ValidRule { family, pattern, verdict })
}
