//! `gapless audit`: shows the audit log.

use clap::Args;
use gapless_wire::{AuditQuery, AuditView, PageQuery};

use super::server::ServerArgs;
use super::{CliError, Exit, block_on};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Show only entries about this submitter (CAIP-10 id or alias), this chain (CAIP-2 id) or the database (`store`)
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Entries per page; by default the server decides
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Start of the page: the cursor that the page before printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

impl AuditArgs {
    pub(super) fn run(self, output: &Output) -> Result<Exit, CliError> {
        let page = PageQuery { limit: self.limit, cursor: self.cursor };
        let query = AuditQuery { subject: self.subject, page };
        let page = block_on(async { Ok(self.server.client()?.audit(&query).await?) })?;
        output.result(&page, page.items.iter().map(entry).collect::<String>())?;
        if let Some(cursor) = &page.next_cursor {
            output.note(format_args!("more entries: --cursor {cursor}"));
        }
        Ok(Exit::Success)
    }
}

/// A line with time, actor, action and subject, and below it the indented details.
fn entry(entry: &AuditView) -> String {
    let AuditView { at, subject, actor, action, detail, .. } = entry;
    let detail: String = detail.lines().map(|line| format!("    {line}\n")).collect();
    format!("{at}  {actor}  {action}  {subject}\n{detail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_indents_each_line_of_its_detail() {
        let text = |text: &str| text.to_owned();
        let view = AuditView {
            id: 1,
            at: text("t"),
            subject: text("eip155:1:0x1"),
            actor: text("api"),
            action: text("resync"),
            detail: text("one\ntwo"),
        };
        assert_eq!(entry(&view), "t  api  resync  eip155:1:0x1\n    one\n    two\n");
        assert_eq!(entry(&AuditView { detail: String::new(), ..view }), "t  api  resync  eip155:1:0x1\n");
    }
}
