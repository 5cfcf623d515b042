//! How a running controller is spoken to.

use mesh_control::{Command, CommandError, Controller, Mint};
use mesh_model::{Revision, Timestamp};
use tokio::sync::{mpsc, oneshot};

/// Speaks to a running controller. Clones speak to the same one.
pub struct ControllerHandle<M> {
    requests: mpsc::Sender<Request<M>>,
}

/// The controller has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the controller has stopped")]
pub struct Gone;

type Look<M> = Box<dyn FnOnce(&Controller<M>, Timestamp) + Send>;

pub(super) enum Request<M> {
    Command {
        command: Command,
        who: String,
        answer: oneshot::Sender<Result<Revision, CommandError>>,
    },
    Look(Look<M>),
}

/// Requests that wait before the next asker waits for them.
const WAITING: usize = 64;

pub(super) fn pair<M>() -> (ControllerHandle<M>, mpsc::Receiver<Request<M>>) {
    let (requests, received) = mpsc::channel(WAITING);
    (ControllerHandle { requests }, received)
}

impl<M: Mint + Send + 'static> ControllerHandle<M> {
    /// Gives a command, and waits until it is stored and true on the bus. `who` is kept with it.
    pub async fn command(
        &self,
        command: Command,
        who: String,
    ) -> Result<Result<Revision, CommandError>, Gone> {
        let (answer, answered) = oneshot::channel();
        let request = Request::Command {
            command,
            who,
            answer,
        };
        self.requests.send(request).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }

    /// Looks at the controller's state between two steps.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Controller<M>, Timestamp) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        let (answer, answered) = oneshot::channel();
        let look = move |core: &Controller<M>, now| {
            // The asker may have gone; then nobody wants to know.
            let _unheard = answer.send(look(core, now));
        };
        let request = Request::Look(Box::new(look));
        self.requests.send(request).await.map_err(|_| Gone)?;
        answered.await.map_err(|_| Gone)
    }
}

impl<M> Clone for ControllerHandle<M> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
        }
    }
}

impl<M> std::fmt::Debug for ControllerHandle<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControllerHandle")
    }
}
