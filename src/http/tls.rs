//! TLS certificates from files, which can be reloaded without closing connections.

use std::{
    path::PathBuf,
    sync::{Arc, RwLock},
};

use tls_listener::TlsListener;
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use crate::lock::IgnorePoison as _;

/// Paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first, in PEM.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// The reason why a certificate cannot be used; names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The server's certificate and key.
pub struct Tls {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
    acceptor: TlsAcceptor,
}

/// The certificate for new connections.
#[derive(Debug)]
struct Certificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let held = self.0.read().ignore_poison();
        Some(Arc::clone(&held))
    }
}

impl Tls {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// If one cannot be read, or they do not match.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let read = Arc::new(read(&files, &provider)?);
        let certificate = Arc::new(Certificate(RwLock::new(read)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(format!("TLS cannot be set up: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Certificate>::clone(&certificate));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            files,
            provider,
            certificate,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// Reads the files again, for new connections. If they cannot be used, nothing changes.
    ///
    /// # Errors
    /// As [`Tls::open`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = Arc::new(read(&self.files, &self.provider)?);
        let held = self.certificate.0.write();
        *held.ignore_poison() = read;
        Ok(())
    }

    /// Wraps a listener: performs the handshakes concurrently.
    pub(super) fn listen(&self, listener: TcpListener) -> TlsListener<TcpListener, TlsAcceptor> {
        TlsListener::new(self.acceptor.clone(), listener)
    }
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let failed = |path: &PathBuf, error: rustls::pki_types::pem::Error| {
        TlsError(format!("{}: {error}", path.display()))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&files.cert, error))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, error))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        let (cert, key) = (files.cert.display(), files.key.display());
        TlsError(format!("{cert} with {key}: {error}"))
    })
}
