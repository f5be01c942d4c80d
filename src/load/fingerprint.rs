//! Fingerprint of a model's files.

use sha2::{Digest as _, Sha256};

use super::{LoadError, ModelFiles};

/// A digest of the configuration and of every byte of the weights. Two models of the same answer alike
/// in all that they compute.
///
/// # Errors
/// Names the tensor and file that cannot be read.
pub(super) fn fingerprint(files: &ModelFiles) -> Result<[u8; 32], LoadError> {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    let config = serde_json::to_string(&files.config);
    part(&config.map_err(|error| LoadError(format!("the configuration: {error}")))?);
    let tensors = &*files.tensors;
    for name in tensors.names() {
        part(name);
        part(&format!("{:?}", tensors.info(name)));
        part(&format!("{:?}", tensors.quantization(name)));
        // Collisions on purpose are no concern: anyone who can change weights is trusted.
        part(&crc32c::crc32c(&tensors.bytes(name)?).to_string());
    }
    Ok(hasher.finalize().into())
}
