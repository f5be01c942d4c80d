//! Policy files: any text is a policy with at least one key, or an error with a line of the text.
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
