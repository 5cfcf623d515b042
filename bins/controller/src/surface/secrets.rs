//! Secrets on the surface: sealed as they come, and shown to nobody.

use mesh_api::{ApiError, Applied, Caller, SecretLine, SecretList, SecretValue};
use mesh_bus::ControllerBus;
use mesh_control::Command;
use mesh_model::{Sealed, SecretName};

use super::{Surface, failed, gone};

impl<B: ControllerBus> Surface<B> {
    /// From here on there is the sealed value alone, and in clear only on the nodes whose modules need it.
    pub(super) async fn seal_and_set(
        &self,
        secret: SecretName,
        value: SecretValue,
        who: &Caller,
    ) -> Result<Applied, ApiError> {
        let sealed = mesh_auth::seal::seal(&self.shared.sealer, value.expose()).map_err(failed)?;
        drop(value);
        let sealed = Sealed(sealed.into_bytes());
        self.command(Command::SetSecret { secret, sealed }, who)
            .await
    }

    pub(super) async fn list_secrets(&self) -> Result<SecretList, ApiError> {
        let look = self.shared.handle.look(|controller, _| {
            let records = controller.records();
            let uses = mesh_control::uses_of_secrets(&records.declared);
            let line = |(secret, record): (&SecretName, &mesh_model::SecretRecord)| SecretLine {
                secret: secret.clone(),
                version: record.version,
                set: record.set,
                modules: uses
                    .get(secret)
                    .into_iter()
                    .flatten()
                    .map(|it| (*it).clone())
                    .collect(),
            };
            records.secrets.iter().map(line).collect()
        });
        Ok(SecretList {
            items: look.await.map_err(gone)?,
        })
    }
}
