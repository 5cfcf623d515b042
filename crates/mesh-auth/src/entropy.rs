//! The operating system's randomness: the one place it enters.

use zeroize::Zeroizing;

/// The operating system gave no randomness; nothing secret may be made without it.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the operating system gave no random bytes ({0}); nothing secret can be made until it does"
)]
pub struct EntropyError(#[from] getrandom::Error);

/// `N` bytes nobody can guess, wiped when dropped.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, EntropyError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice())?;
    Ok(bytes)
}

/// `N` bytes nobody else has, for what must be one of its kind and is no secret.
pub fn unique<const N: usize>() -> Result<[u8; N], EntropyError> {
    random().map(|bytes| *bytes)
}
