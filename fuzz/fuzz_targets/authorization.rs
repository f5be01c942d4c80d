//! `Authorization` headers: parsing never panics, a secret is visible ASCII, and a secret with a key id has
//! the form `sk-stemma-ID-…`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stemma::auth::Secret;

fuzz_target!(|value: &[u8]| {
    let Some(secret) = Secret::of_authorization(value) else {
        return;
    };
    assert!(secret.expose().bytes().all(|byte| byte.is_ascii_graphic()));
    if let Some(id) = secret.key_id() {
        assert!(secret.expose().starts_with(&format!("sk-stemma-{id}-")));
    }
});
