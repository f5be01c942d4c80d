//! Flags about who may use the server, and `stemma keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::auth::{KeyId, Secret};

/// Access control.
#[derive(Debug, Clone, Args)]
pub struct AccessArgs {
    /// Secret that opens everything, repeatable; all who have one share all responses.
    #[arg(
        long = "api-key",
        env = "STEMMA_API_KEY",
        value_name = "SECRET",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub api_keys: Vec<Secret>,
    /// File with such secrets, one a line.
    #[arg(long, env = "STEMMA_API_KEY_FILE", value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// TOML file with a key for everybody who uses the server; each sees what it created. See
    /// `stemma keys`.
    #[arg(
        long,
        env = "STEMMA_KEY_POLICY",
        value_name = "FILE",
        conflicts_with_all = ["api_keys", "api_key_file", "share_owned"]
    )]
    pub key_policy: Option<PathBuf>,
    /// Without a key policy: show everybody what was created under one.
    #[arg(long, env = "STEMMA_SHARE_OWNED")]
    pub share_owned: bool,
    /// Listen beyond loopback without any keys.
    #[arg(long, env = "STEMMA_ALLOW_UNAUTHENTICATED")]
    pub allow_unauthenticated: bool,
    /// Name, beside those of this machine, under which a server on loopback may be called;
    /// repeatable. For proxies that pass the Host header on.
    #[arg(
        long = "allowed-host",
        env = "STEMMA_ALLOWED_HOST",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub allowed_hosts: Vec<String>,
    /// Origin whose web pages may call the server, such as https://chat.example; repeatable; `*`
    /// for all.
    #[arg(
        long = "cors-origin",
        env = "STEMMA_CORS_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    pub cors_origins: Vec<String>,
    /// Certificate chain in PEM; the server then speaks TLS only. Read again on SIGHUP.
    #[arg(
        long,
        env = "STEMMA_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM.
    #[arg(
        long,
        env = "STEMMA_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
}

/// `stemma keys`.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a secret, and print it once with the entry for the policy file.
    New {
        /// Stable name of the key, which owns what is created with it.
        #[arg(long, value_parser = KeyId::new)]
        id: KeyId,
        /// Display name [default: the id].
        #[arg(long)]
        name: Option<String>,
        /// Let it read, list and delete what other keys create.
        #[arg(long)]
        admin: bool,
        /// Make another secret for an id that is known already.
        #[arg(long)]
        rotate: bool,
        /// Folder of the session log, which knows what ids were used.
        #[arg(
            long,
            env = "STEMMA_SESSIONS",
            value_name = "FOLDER",
            default_value = "sessions"
        )]
        sessions: PathBuf,
    },
    /// Hash a secret from standard input, and print the hash.
    Hash {
        /// The key's id, which the secret must name.
        #[arg(long, value_parser = KeyId::new)]
        id: KeyId,
    },
    /// Check a policy file.
    Check {
        /// The file.
        file: PathBuf,
    },
}
