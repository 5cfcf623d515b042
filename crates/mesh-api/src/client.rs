//! The typed client: what `meshctl` speaks with.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use mesh_control::{Preview, Status};
use mesh_model::{ModuleName, NodeName, SeatName, SecretName, TokenId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::error::ApiError;
use crate::form::{
    Applied, Apply, Assign, CanAnswer, CanRequest, DoctorReport, Envelope, Label, Move,
    PlanRequest, RefuseStore, ReportList, Rotate, Schedule, SecretList, SecretValue, TokenCreated,
    TokenList, TokenRequest, Verified, VerifyRequest,
};
use crate::logs::{LogQuery, LogReader};

/// What drives a connection, for as long as it is kept.
pub(crate) type Driver = JoinSet<Result<(), hyper::Error>>;

/// Speaks to one controller.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    patience: Duration,
}

/// Why a call has no answer, or not the one hoped for.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody answers.
    #[error("no controller answers on {}: {error}; is it running, with this --state-dir?", socket.display())]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No answer came in time.
    #[error("no answer from the controller within {} s; what was asked may be done yet: look at `meshctl status`", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The connection broke.
    #[error("the controller broke off: {0}; look at its log")]
    Broken(String),
    /// The answer is none this client knows.
    #[error("the controller's answer is not understood: {0}; are both of one release?")]
    NotUnderstood(String),
    /// The controller says no.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

impl Client {
    /// For the controller that serves this socket, waiting so long for each answer.
    pub fn new(socket: impl AsRef<Path>, patience: Duration) -> Self {
        Self {
            socket: socket.as_ref().to_owned(),
            patience,
        }
    }

    /// The mesh as it is.
    pub async fn status(&self) -> Result<Status, CallError> {
        self.get("/v1/status").await
    }

    /// What an apply would change.
    pub async fn plan(&self, request: &PlanRequest) -> Result<Preview, CallError> {
        self.call(Method::POST, "/v1/plan", Some(request)).await
    }

    /// Declares.
    pub async fn apply(&self, request: &Apply) -> Result<Applied, CallError> {
        self.call(Method::POST, "/v1/apply", Some(request)).await
    }

    /// Gives a seat to a module, or takes it away.
    pub async fn assign(&self, seat: &SeatName, request: &Assign) -> Result<Applied, CallError> {
        let path = format!("/v1/seats/{seat}/holder");
        self.call(Method::PUT, &path, Some(request)).await
    }

    /// Sets a node's labels.
    pub async fn label(&self, node: &NodeName, request: &Label) -> Result<Applied, CallError> {
        let path = format!("/v1/nodes/{node}/labels");
        self.call(Method::PUT, &path, Some(request)).await
    }

    /// Says whether modules are placed on a node.
    pub async fn schedule(&self, node: &NodeName, request: Schedule) -> Result<Applied, CallError> {
        let path = format!("/v1/nodes/{node}/scheduling");
        self.call(Method::PUT, &path, Some(&request)).await
    }

    /// Has a node go to another bus, once it has proven that it works there; or stay where it is.
    pub async fn move_node(&self, node: &NodeName, request: Move) -> Result<Applied, CallError> {
        let path = format!("/v1/nodes/{node}/bus");
        self.call(Method::PUT, &path, Some(&request)).await
    }

    /// Ends a node's membership.
    pub async fn remove_node(&self, node: &NodeName) -> Result<Applied, CallError> {
        let path = format!("/v1/nodes/{node}");
        self.call::<(), _>(Method::DELETE, &path, None).await
    }

    /// Makes a token.
    pub async fn create_token(&self, request: &TokenRequest) -> Result<TokenCreated, CallError> {
        self.call(Method::POST, "/v1/tokens", Some(request)).await
    }

    /// Tokens that may still be used.
    pub async fn tokens(&self) -> Result<TokenList, CallError> {
        self.get("/v1/tokens").await
    }

    /// Ends a token.
    pub async fn revoke_token(&self, id: &TokenId) -> Result<Applied, CallError> {
        let path = format!("/v1/tokens/{id}");
        self.call::<(), _>(Method::DELETE, &path, None).await
    }

    /// Replaces a module's credentials.
    pub async fn rotate(
        &self,
        module: &ModuleName,
        request: &Rotate,
    ) -> Result<Applied, CallError> {
        let path = format!("/v1/modules/{module}/credentials");
        self.call(Method::POST, &path, Some(request)).await
    }

    /// Sets a secret.
    pub async fn set_secret(
        &self,
        secret: &SecretName,
        value: &SecretValue,
    ) -> Result<Applied, CallError> {
        let path = format!("/v1/secrets/{secret}");
        let bytes = Bytes::copy_from_slice(value.expose());
        self.send(Method::PUT, &path, "application/octet-stream", bytes)
            .await
    }

    /// Secrets that are set, without their values.
    pub async fn secrets(&self) -> Result<SecretList, CallError> {
        self.get("/v1/secrets").await
    }

    /// Forgets a secret.
    pub async fn remove_secret(&self, secret: &SecretName) -> Result<Applied, CallError> {
        let path = format!("/v1/secrets/{secret}");
        self.call::<(), _>(Method::DELETE, &path, None).await
    }

    /// Reports as they stand in the store.
    pub async fn reports(&self, node: Option<&NodeName>) -> Result<ReportList, CallError> {
        match node {
            Some(node) => self.get(&format!("/v1/reports?node={node}")).await,
            None => self.get("/v1/reports").await,
        }
    }

    /// Reads a module's log where it runs, for as long as the reader is kept.
    pub async fn logs(
        &self,
        module: &ModuleName,
        query: &LogQuery,
    ) -> Result<LogReader, CallError> {
        let request = Request::builder()
            .method(Method::GET)
            .uri(query.path(module))
            .header("host", "mesh")
            .body(Full::new(Bytes::new()))
            .map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        let answered = tokio::time::timeout(self.patience, self.begin(request)).await;
        let (response, driver) = answered.map_err(|_| CallError::TimedOut(self.patience))??;
        if response.status().is_success() {
            return Ok(LogReader::of(response.into_body(), driver));
        }
        let broken = |error: hyper::Error| CallError::Broken(error.to_string());
        let body = response.into_body().collect().await.map_err(broken)?;
        let envelope: Envelope<ApiError> = serde_json::from_slice(&body.to_bytes())
            .map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        Err(envelope.body.into())
    }

    /// Has the controller look at itself.
    pub async fn doctor(&self) -> Result<DoctorReport, CallError> {
        self.get("/v1/doctor").await
    }

    /// Tries on the live bus what each principal may do, and what it may not.
    pub async fn verify(&self, request: &VerifyRequest) -> Result<Verified, CallError> {
        self.call(Method::POST, "/v1/verify", Some(request)).await
    }

    /// Whether a principal may do one thing.
    pub async fn can(&self, request: &CanRequest) -> Result<CanAnswer, CallError> {
        self.call(Method::POST, "/v1/can", Some(request)).await
    }

    /// Makes the store refuse for a while.
    pub async fn refuse_store(&self, request: RefuseStore) -> Result<RefuseStore, CallError> {
        self.call(Method::POST, "/v1/faults/store", Some(&request))
            .await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call::<(), T>(Method::GET, path, None).await
    }

    async fn call<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, CallError> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        let bytes = Bytes::from(body.unwrap_or_default());
        self.send(method, path, "application/json", bytes).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<T, CallError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "mesh")
            .header("content-type", kind)
            .body(Full::new(body))
            .map_err(|error| CallError::NotUnderstood(error.to_string()))?;
        let answered = tokio::time::timeout(self.patience, self.exchange(request)).await;
        let (success, bytes) = answered.map_err(|_| CallError::TimedOut(self.patience))??;
        let read = |error: serde_json::Error| CallError::NotUnderstood(error.to_string());
        if success {
            let envelope: Envelope<T> = serde_json::from_slice(&bytes).map_err(read)?;
            Ok(envelope.body)
        } else {
            let envelope: Envelope<ApiError> = serde_json::from_slice(&bytes).map_err(read)?;
            Err(envelope.body.into())
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(bool, Bytes), CallError> {
        let (response, _driver) = self.begin(request).await?;
        let success = response.status().is_success();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| CallError::Broken(error.to_string()))?;
        Ok((success, body.to_bytes()))
    }

    /// The head of the answer, and what reads the rest of it.
    async fn begin(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Driver), CallError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|error| CallError::Unreachable {
            socket: self.socket.clone(),
            error,
        })?;
        let broken = |error: hyper::Error| CallError::Broken(error.to_string());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok((response, driver))
    }
}
