//! Connections over TLS, and certificates that are renewed.

use std::{fs, path::Path, sync::Arc, time::Duration};

use stemma::http::{Tls, TlsFiles};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};

use crate::support::Setup;

/// Writes a certificate for `localhost` and gives it back.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.join("cert.pem"), made.cert.pem()).expect("written");
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
    made.cert.der().clone()
}

/// Returns the answer of `/health` to a client that trusts this certificate only.
async fn health(port: u16, trusted: CertificateDer<'static>) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let request = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = TlsFiles {
        cert: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    let first = certify(folder.path());
    let tls: &Tls = Box::leak(Box::new(Tls::open(files).expect("a certificate")));
    let app = Setup::default().start_with_tls(Some(tls)).await;
    let port = app
        .url
        .rsplit(':')
        .next()
        .expect("a port")
        .parse()
        .expect("a number");
    // A silent connection delays no other.
    let _silent = TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("a connection");
    let answer = tokio::time::timeout(Duration::from_secs(5), health(port, first.clone())).await;
    let answer = answer.expect("no waiting").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    let second = certify(folder.path());
    assert!(health(port, second.clone()).await.is_err(), "not read yet");
    tls.reload().expect("another certificate");
    assert!(health(port, second.clone()).await.is_ok());
    assert!(health(port, first).await.is_err());

    fs::write(folder.path().join("cert.pem"), "no certificate").expect("written");
    tls.reload().expect_err("not a certificate");
    assert!(health(port, second).await.is_ok(), "nothing has changed");
}

#[test]
fn files_that_do_not_belong_together_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    certify(folder.path());
    let cert = folder.path().join("cert.pem");
    let key = folder.path().join("other.pem");
    let open = || {
        let files = TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
        };
        Tls::open(files).err().map(|error| error.to_string())
    };
    assert!(open().is_some_and(|error| error.contains("other.pem")));
    let other = rcgen::KeyPair::generate().expect("a key");
    fs::write(&key, other.serialize_pem()).expect("written");
    assert!(open().is_some_and(|error| error.contains("cert.pem")));
}
