use std::path::PathBuf;

/// The reason why a server could not be started or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no PostgreSQL binaries (initdb and postgres) found. Tried:\n{}\nInstall PostgreSQL, or set GAPLESS_PG_BIN \
         to the folder of its binaries",
        tried.join("\n")
    )]
    NoBinaries { tried: Vec<String> },

    #[error("GAPLESS_PG_SOURCE is `{0}`; it can be `system`, `npm` or `apt`")]
    UnknownSource(String),

    #[error("{} is needed, but this distribution does not have it", tool.display())]
    MissingTool { tool: PathBuf },

    #[error("PostgreSQL does not run as root, and /etc/passwd has neither a user `postgres` nor `nobody`")]
    NoUnprivilegedAccount,

    #[error(
        "the unprivileged account cannot run {}, and its folder is no PostgreSQL tree that could be copied",
        bin_dir.display()
    )]
    BinariesNotReadable { bin_dir: PathBuf },

    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },

    #[error("`{command}` failed ({status}):\n{output}")]
    Command { command: String, status: String, output: String },

    #[error("the {server} server stopped while starting:\n{log}")]
    StoppedWhileStarting { server: &'static str, log: String },

    #[error("the {server} server was not ready after {seconds} s:\n{log}")]
    NotReady { server: &'static str, seconds: u64, log: String },

    #[error("the process that watches over the server is gone")]
    SupervisorGone,

    #[error(
        "GAPLESS_TEST_POSTGRES_URL is not set: run `cargo xtask test` (or `cargo xtask with-postgres -- cargo test …`)"
    )]
    NoSharedServer,
}

impl Error {
    /// Wraps an I/O error with the action that failed; for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
