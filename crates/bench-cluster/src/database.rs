//! A PostgreSQL database of its own on an existing server, and the server's CPU time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use crate::{LoadError, accounting};

const SERVER_NAME: &str = "postgres";

/// A database that [`Database::remove`] drops. Dropping this value leaves it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
    admin: Client,
    /// Process id of the server, if it runs on this machine.
    postmaster: Option<u32>,
}

impl Database {
    pub(crate) fn check_url(url: &str) -> Result<(), LoadError> {
        with_database(url, "any").map(|_| ()).ok_or_else(|| LoadError::StoreUrl(without_secrets(url)))
    }

    /// Creates a new database on the server of the URL.
    pub(crate) async fn create(server: &str, prefix: &str) -> Result<Self, LoadError> {
        let admin = connect(server).await?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{prefix}_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let url = with_database(server, &name).ok_or_else(|| LoadError::StoreUrl(without_secrets(server)))?;
        let postmaster = postmaster(server, &connect(&url).await?, &name).await?;
        Ok(Database { url, name, admin, postmaster })
    }

    /// CPU time of the server and all its processes; `None` if it runs on another machine.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        accounting::cpu_of_family(self.postmaster?)
    }

    pub(crate) async fn connect(&self) -> Result<Client, LoadError> {
        connect(&self.url).await
    }

    /// Drops all databases whose names begin with the prefix.
    pub(crate) async fn remove_all(server: &str, prefix: &str) -> Result<(), LoadError> {
        let admin = connect(server).await?;
        let sql = "SELECT datname FROM pg_database WHERE starts_with(datname, $1)";
        for row in admin.query(sql, &[&prefix]).await? {
            let name: String = row.get(0);
            admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove(self) -> Result<(), LoadError> {
        let name = &self.name;
        Ok(self.admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?)
    }
}

async fn connect(url: &str) -> Result<Client, LoadError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // The connection ends with its client, and the client's calls report its errors.
    tokio::spawn(connection);
    Ok(client)
}

/// A remote server's process id may belong to another process here, so the process must also carry the name of the
/// database.
async fn postmaster(server: &str, client: &Client, database: &str) -> Result<Option<u32>, LoadError> {
    let config: Config = server.parse()?;
    let is_near = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        Host::Unix(_) => true,
    });
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let pid = u32::try_from(pid).ok().filter(|_| is_near);
    let ours = pid.filter(|pid| accounting::command_line(*pid).is_some_and(|line| line.contains(database)));
    Ok(ours.and_then(|pid| accounting::parent_named(pid, SERVER_NAME)))
}

/// The URL with another database name.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "postgres" | "postgresql"))?;
    let (rest, options) =
        rest.split_once('?').map_or((rest, String::new()), |(rest, options)| (rest, format!("?{options}")));
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    Some(format!("{scheme}://{authority}/{name}{options}"))
}

/// The part before the host may hold a password.
fn without_secrets(url: &str) -> String {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_name_in_url_is_replaced() {
        let named = |url| with_database(url, "b");
        assert_eq!(
            named("postgres://u:p@h:5432/a?sslmode=disable").unwrap(),
            "postgres://u:p@h:5432/b?sslmode=disable"
        );
        assert_eq!(named("postgresql://h").unwrap(), "postgresql://h/b");
        assert_eq!(named("postgres://h?x=1").unwrap(), "postgres://h/b?x=1");
        assert_eq!(named("sqlite:file.db"), None);
        assert_eq!(named("host=h user=u"), None);
    }
}
