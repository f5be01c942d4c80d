//! `Authorization` headers: any bytes are a secret or none, and a secret that names a key is one.
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
