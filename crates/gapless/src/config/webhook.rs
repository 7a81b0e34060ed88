//! The webhook keys of `[stuck]`. The whole node has one webhook, so no chain and no submitter can set it.

use std::time::Duration;

use gapless_secret::SecretUrl;

use super::section::Section;
use super::tree::Value;
use super::value::{Setting, text_of};

const SCHEMES: [&str; 2] = ["http", "https"];
/// The longest time limit. While the webhook is asked, the stuck intent waits.
const LONGEST: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookConfig {
    /// Without a URL, stuck intents wait for an operator.
    pub(crate) url: Option<SecretUrl>,
    pub(crate) timeout: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        WebhookConfig { url: None, timeout: Duration::from_secs(5) }
    }
}

/// Reads the webhook keys of `[stuck]`.
pub(crate) fn webhook(section: &mut Section<'_>) -> WebhookConfig {
    let base = WebhookConfig::default();
    WebhookConfig {
        url: section.read("webhook", WebhookUrl(base.url)).0,
        timeout: section.read_in("webhook_timeout", base.timeout, SHORTEST..=LONGEST),
    }
}

/// A URL, or an empty text for no webhook.
struct WebhookUrl(Option<SecretUrl>);

impl Setting for WebhookUrl {
    fn wanted() -> String {
        "a URL such as \"https://decide.example.com/stuck\" (http or https), or \"\" for none".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        if text.is_empty() {
            return Some(WebhookUrl(None));
        }
        SecretUrl::with_scheme(text, &SCHEMES).ok().map(|url| WebhookUrl(Some(url)))
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| "\"\"".to_owned(), |url| format!("\"{url}\""))
    }
}
