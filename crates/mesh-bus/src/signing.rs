//! Signatures as the loops need them: what signs and what verifies is handed in, since keys are not the bus's business.

use std::fmt;
use std::sync::Arc;

use mesh_wire::{SignedKind, WireError, open_signed, seal_signed, to_sign};

type Sign = dyn Fn(&[u8]) -> [u8; 64] + Send + Sync;
type Verify = dyn Fn(&[u8], &[u8]) -> bool + Send + Sync;

/// Signs as the controller.
#[derive(Clone)]
pub struct Signer(Arc<Sign>);

/// Verifies against the controller's pinned key.
#[derive(Clone)]
pub struct Verifier(Arc<Verify>);

/// Why a signed message is not believed.
#[derive(Debug, thiserror::Error)]
pub enum UnsignedError {
    /// Not in a form that is known.
    #[error(transparent)]
    Form(#[from] WireError),
    /// Signed by somebody else, or changed on the way.
    #[error("the signature is not the controller's, whose key was pinned at enrolment")]
    Signature,
}

impl Signer {
    /// From what signs bytes.
    pub fn new(sign: impl Fn(&[u8]) -> [u8; 64] + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    /// The message with its signature, which holds for this kind of message only.
    pub fn seal(&self, kind: SignedKind, body: &[u8]) -> Vec<u8> {
        let signature = (self.0)(&to_sign(kind, body));
        seal_signed(body, &signature)
    }
}

impl Verifier {
    /// From what checks bytes against a signature.
    pub fn new(verify: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(verify))
    }

    /// The message, if the controller signed it as this kind.
    pub fn open(&self, kind: SignedKind, bytes: &[u8]) -> Result<Vec<u8>, UnsignedError> {
        let signed = open_signed(bytes)?;
        if (self.0)(&to_sign(kind, &signed.body), &signed.signature) {
            Ok(signed.body)
        } else {
            Err(UnsignedError::Signature)
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}
