//! Key policy files: any text parses to a policy with at least one key, or to an error whose line number is
//! within the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stemma::auth;

fuzz_target!(|text: &str| {
    match auth::parse(text) {
        Ok(policy) => {
            assert!(!policy.keys.is_empty());
            assert!(policy.keys.iter().all(|(id, key)| *id == key.id));
        }
        Err(error) => assert!((1..=text.matches('\n').count() + 1).contains(&error.line)),
    }
});
