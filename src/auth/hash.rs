//! Stored hashes of secrets: argon2id in the PHC string format.

use std::fmt;

use argon2::{
    Algorithm, Argon2, Block, Params, PasswordHasher as _, Version,
    password_hash::phc::PasswordHash,
};
use subtle::ConstantTimeEq as _;

use super::secret::Secret;

/// Least memory in KiB: the first of OWASP's recommendations.
const MEMORY_KIB_MIN: u32 = 19 * 1024;
/// Most memory in KiB: a check must not exhaust the server.
const MEMORY_KIB_MAX: u32 = 1 << 20;
/// Most passes.
const PASSES_MAX: u32 = 16;
/// Most lanes.
const LANES_MAX: u32 = 16;
/// Fewest bytes of salt and of hash.
const SALT_LEN_MIN: usize = 16;
const OUTPUT_LEN_MIN: usize = 32;

/// A hash that is strong enough, and cheap enough to verify.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyHash(String);

/// The reason why a text is not accepted as a hash. Never quotes the text: it may be a misplaced
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// The text is no hash.
    #[error("is not a hash in the PHC format, `$argon2id$v=19$m=…,t=…,p=…$salt$hash`")]
    Format,
    /// Another algorithm or version.
    #[error("is not of argon2id, version 19")]
    Algorithm,
    /// Too cheap for an attacker to try, or too expensive to verify.
    #[error("has {what} {found}; it must be {bounds}")]
    Parameter {
        /// The parameter, with its unit.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The allowed range.
        bounds: String,
    },
}

impl KeyHash {
    /// Checks a hash's format and parameters.
    ///
    /// # Errors
    /// If it is not argon2id, is weak, or is too expensive for a server.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let hash = PasswordHash::new(text).map_err(|_| HashError::Format)?;
        if hash.algorithm.as_str() != "argon2id" || hash.version != Some(0x13) {
            return Err(HashError::Algorithm);
        }
        let params = Params::try_from(&hash).map_err(|_| HashError::Format)?;
        let salt = hash.salt.ok_or(HashError::Format)?.len();
        let output = hash.hash.ok_or(HashError::Format)?.len();
        let (memory, passes) = (params.m_cost(), params.t_cost());
        // With one pass, argon2id needs more memory to cost an attacker as much.
        let memory_min = if passes == 1 {
            46 * 1024
        } else {
            MEMORY_KIB_MIN
        };
        within("memory (m, KiB)", memory, memory_min, MEMORY_KIB_MAX)?;
        within("passes (t)", passes, 1, PASSES_MAX)?;
        within("lanes (p)", params.p_cost(), 1, LANES_MAX)?;
        at_least("bytes of salt", salt, SALT_LEN_MIN)?;
        at_least("bytes of hash", output, OUTPUT_LEN_MIN)?;
        Ok(Self(text.to_owned()))
    }

    /// Hashes a secret with a new salt.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn of(secret: &Secret) -> Result<Self, argon2::password_hash::Error> {
        let hash: PasswordHash = Argon2::default().hash_password(secret.expose().as_bytes())?;
        Ok(Self(hash.to_string()))
    }

    /// Returns a hash of an unknown secret, with the parameters of new hashes.
    pub(super) fn decoy() -> Self {
        let digest = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        Self(format!(
            "$argon2id$v=19$m=19456,t=2,p=1${}${digest}",
            &digest[..22]
        ))
    }

    /// True if this is the hash of that secret. Takes as long as the parameters say.
    pub(super) fn matches(&self, secret: &Secret, workspace: &mut Workspace) -> bool {
        // A parsed hash has all parts.
        let Ok(hash) = PasswordHash::new(&self.0) else {
            return false;
        };
        let (Ok(params), Some(salt), Some(expected)) =
            (Params::try_from(&hash), hash.salt, hash.hash)
        else {
            return false;
        };
        let blocks = workspace.of(params.block_count());
        let mut found = vec![0; expected.len()];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let password = secret.expose().as_bytes();
        let computed = argon2.hash_password_into_with_memory(password, &salt, &mut found, blocks);
        computed.is_ok() && found.ct_eq(expected.as_bytes()).into()
    }

    /// The PHC string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// Memory for computing hashes, reused: allocators keep several pieces of this size otherwise.
#[derive(Default)]
pub(super) struct Workspace(Vec<Block>);

impl Workspace {
    fn of(&mut self, blocks: usize) -> &mut [Block] {
        if self.0.len() < blocks {
            self.0.resize(blocks, Block::new());
        }
        &mut self.0[..blocks]
    }
}

fn within(what: &'static str, found: u32, min: u32, max: u32) -> Result<(), HashError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(HashError::Parameter {
        what,
        found: found as usize,
        bounds: format!("{min} to {max}"),
    })
}

fn at_least(what: &'static str, found: usize, min: usize) -> Result<(), HashError> {
    if found >= min {
        return Ok(());
    }
    Err(HashError::Parameter {
        what,
        found,
        bounds: format!("at least {min}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 16 bytes of salt and 32 of hash.
    const TAIL: &str = "c29tZXNhbHRzb21lc2FsdA$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI";

    #[test]
    fn a_hash_matches_its_secret_only() {
        let secret = Secret::new("sk-stemma-ci-right".to_owned());
        let hash = KeyHash::of(&secret).expect("a hash");
        assert_eq!(KeyHash::parse(hash.as_str()), Ok(hash.clone()));
        let mut workspace = Workspace::default();
        for _ in 0..2 {
            assert!(hash.matches(&secret, &mut workspace));
            let wrong = Secret::new("sk-stemma-ci-wrong".to_owned());
            assert!(!hash.matches(&wrong, &mut workspace));
        }
    }

    #[test]
    fn the_decoy_is_as_dear_to_check_as_a_new_hash() {
        let decoy = KeyHash::decoy();
        assert_eq!(KeyHash::parse(decoy.as_str()), Ok(decoy.clone()));
        let parameters =
            |hash: &KeyHash| hash.as_str().rsplit_once('$').map(|(start, _)| start.len());
        let new = KeyHash::of(&Secret::new("x".to_owned())).expect("a hash");
        assert_eq!(parameters(&decoy), parameters(&new));
        assert!(!decoy.matches(&Secret::new(String::new()), &mut Workspace::default()));
    }

    #[test]
    fn hashes_of_other_programs_match() {
        // By the reference implementation: `echo -n secret | argon2 somesaltsomesalt -id -t 2 -k 19456 -p 1 -e`.
        let text = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$14ukWqiThj4Xz77NYv01V28GbBZHY9AaZwsFswQFO0U";
        let hash = KeyHash::parse(text).expect("a hash");
        let mut workspace = Workspace::default();
        assert!(hash.matches(&Secret::new("secret".to_owned()), &mut workspace));
        assert!(!hash.matches(&Secret::new("secreT".to_owned()), &mut workspace));
    }

    #[test]
    fn weak_and_ruinous_parameters_are_refused() {
        for (params, expected) in [
            ("m=19456,t=2,p=1", None),
            ("m=47104,t=1,p=1", None),
            ("m=19456,t=1,p=1", Some("memory (m, KiB)")),
            ("m=19455,t=2,p=1", Some("memory (m, KiB)")),
            ("m=2000000,t=2,p=1", Some("memory (m, KiB)")),
            ("m=19456,t=17,p=1", Some("passes (t)")),
            ("m=19456,t=2,p=17", Some("lanes (p)")),
        ] {
            let parsed = KeyHash::parse(&format!("$argon2id$v=19${params}${TAIL}"));
            let found = match parsed {
                Ok(_) => None,
                Err(HashError::Parameter { what, .. }) => Some(what),
                Err(other) => panic!("{params}: {other}"),
            };
            assert_eq!(found, expected, "{params}");
        }
    }

    #[test]
    fn other_texts_are_not_hashes() {
        let of = |start: &str| KeyHash::parse(&format!("{start}${TAIL}"));
        assert_eq!(KeyHash::parse("sk-stemma-ci-x"), Err(HashError::Format));
        assert_eq!(KeyHash::parse(""), Err(HashError::Format));
        assert_eq!(
            of("$argon2i$v=19$m=19456,t=2,p=1"),
            Err(HashError::Algorithm)
        );
        assert_eq!(
            of("$argon2id$v=16$m=19456,t=2,p=1"),
            Err(HashError::Algorithm)
        );
        let no_hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA";
        assert_eq!(KeyHash::parse(no_hash), Err(HashError::Format));
    }
}
