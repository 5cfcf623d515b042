//! The surface itself: routes, and who may use them.

use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::extract::connect_info::Connected;
use axum::extract::rejection::JsonRejection;
use axum::extract::{
    ConnectInfo, DefaultBodyLimit, FromRequest, Path as PathParam, Query, Request, State,
};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use mesh_control::{Preview, SECRET_LIMIT, Status};
use mesh_model::{ModuleName, NodeName, SeatName, SecretName, TokenId};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;

use crate::error::{ApiError, Code};
use crate::form::{
    Applied, Apply, Assign, CanAnswer, CanRequest, DoctorReport, Envelope, Label, Move,
    PlanRequest, RefuseStore, ReportList, Rotate, Schedule, SecretList, SecretValue, TokenCreated,
    TokenList, TokenRequest, Verified, VerifyRequest,
};
use crate::logs::{LogQuery, LogRecords, streamed};

/// Who is at the other end of the socket, as the kernel tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    uid: Option<u32>,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.uid {
            Some(uid) => write!(f, "uid {uid}"),
            None => f.write_str("unknown"),
        }
    }
}

impl Connected<IncomingStream<'_, UnixListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        let credentials = stream.io().peer_cred();
        Self {
            uid: credentials.ok().map(|credentials| credentials.uid()),
        }
    }
}

type Answer<T> = Result<T, ApiError>;

/// What stands behind the surface.
pub trait Control: Clone + Send + Sync + 'static {
    /// The mesh as it is.
    fn status(&self) -> impl Future<Output = Answer<Status>> + Send;
    /// What an apply would change.
    fn plan(&self, request: PlanRequest) -> impl Future<Output = Answer<Preview>> + Send;
    /// Declares.
    fn apply(&self, request: Apply, who: Caller) -> impl Future<Output = Answer<Applied>> + Send;
    /// Gives a seat to a module, or takes it away.
    fn assign(
        &self,
        seat: SeatName,
        request: Assign,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Sets a node's labels.
    fn label(
        &self,
        node: NodeName,
        request: Label,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Says whether modules are placed on a node.
    fn schedule(
        &self,
        node: NodeName,
        request: Schedule,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Has a node go to another bus, once it has proven that it works there; or stay where it is.
    fn move_node(
        &self,
        node: NodeName,
        request: Move,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Ends a node's membership.
    fn remove_node(
        &self,
        node: NodeName,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Makes a token.
    fn create_token(
        &self,
        request: TokenRequest,
        who: Caller,
    ) -> impl Future<Output = Answer<TokenCreated>> + Send;
    /// Tokens that may still be used.
    fn tokens(&self) -> impl Future<Output = Answer<TokenList>> + Send;
    /// Ends a token.
    fn revoke_token(
        &self,
        id: TokenId,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Replaces a module's credentials.
    fn rotate(
        &self,
        module: ModuleName,
        request: Rotate,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Sets a secret.
    fn set_secret(
        &self,
        secret: SecretName,
        value: SecretValue,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Secrets that are set, without their values.
    fn secrets(&self) -> impl Future<Output = Answer<SecretList>> + Send;
    /// Forgets a secret.
    fn remove_secret(
        &self,
        secret: SecretName,
        who: Caller,
    ) -> impl Future<Output = Answer<Applied>> + Send;
    /// Reports as they stand in the store, of one node or of all.
    fn reports(&self, node: Option<NodeName>) -> impl Future<Output = Answer<ReportList>> + Send;
    /// Reads a module's log where it runs.
    fn logs(
        &self,
        module: ModuleName,
        query: LogQuery,
    ) -> impl Future<Output = Answer<LogRecords>> + Send;
    /// Looks at itself.
    fn doctor(&self) -> impl Future<Output = Answer<DoctorReport>> + Send;
    /// Tries on the live bus what each principal may do, and what it may not.
    fn verify(
        &self,
        request: VerifyRequest,
        who: Caller,
    ) -> impl Future<Output = Answer<Verified>> + Send;
    /// Whether a principal may do one thing, by what was derived and by the live bus.
    fn can(
        &self,
        request: CanRequest,
        who: Caller,
    ) -> impl Future<Output = Answer<CanAnswer>> + Send;
    /// Makes the store refuse for a while.
    fn refuse_store(&self, request: RefuseStore) -> impl Future<Output = Answer<()>> + Send;
}

/// Why the surface cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody answers there.
    #[error("{} is answered by another controller; stop it first", .0.display())]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("socket {}: {error}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Serves on a unix socket, for the user the controller runs as and for root, until `stop` is ready.
pub async fn serve<C: Control>(
    path: &Path,
    control: C,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let fault = |error| ServeError::Socket {
        path: path.to_owned(),
        error,
    };
    if path.exists() {
        if tokio::net::UnixStream::connect(path).await.is_ok() {
            return Err(ServeError::InUse(path.to_owned()));
        }
        std::fs::remove_file(path).map_err(fault)?;
    }
    let listener = UnixListener::bind(path).map_err(fault)?;
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, owner_only).map_err(fault)?;
    let service = router(control).into_make_service_with_connect_info::<Caller>();
    let result = axum::serve(listener, service)
        .with_graceful_shutdown(stop)
        .await;
    // It may be gone already; what matters is that nobody finds a socket nobody serves.
    let _gone = std::fs::remove_file(path);
    result.map_err(fault)
}

/// Bytes a request may have: a mesh of thousands of modules.
const BODY_LIMIT: usize = 32 << 20;

fn router<C: Control>(control: C) -> Router {
    let v1 = Router::new()
        .route("/status", get(status::<C>))
        .route("/plan", post(plan::<C>))
        .route("/apply", post(apply::<C>))
        .route("/seats/{seat}/holder", put(assign::<C>))
        .route("/nodes/{node}", delete(remove_node::<C>))
        .route("/nodes/{node}/labels", put(label::<C>))
        .route("/nodes/{node}/scheduling", put(schedule::<C>))
        .route("/nodes/{node}/bus", put(move_node::<C>))
        .route("/tokens", get(tokens::<C>).post(create_token::<C>))
        .route("/tokens/{id}", delete(revoke_token::<C>))
        .route("/modules/{module}/credentials", post(rotate::<C>))
        .route("/secrets", get(secrets::<C>))
        .route(
            "/secrets/{secret}",
            put(set_secret::<C>).delete(remove_secret::<C>),
        )
        .route("/reports", get(reports::<C>))
        .route("/logs/{module}", get(logs::<C>))
        .route("/doctor", get(doctor::<C>))
        .route("/verify", post(verify::<C>))
        .route("/can", post(can::<C>))
        .route("/faults/store", post(refuse_store::<C>))
        .layer(middleware::from_fn(owner_or_root))
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    Router::new()
        .nest("/v1", v1)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready::<C>))
        .fallback(unknown)
        .with_state(control)
}

/// The socket's mode keeps others out already; this says so in words, should the mode be changed.
async fn owner_or_root(
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let own = rustix::process::geteuid().as_raw();
    if caller.uid.is_some_and(|uid| uid == 0 || uid == own) {
        return next.run(request).await;
    }
    let message = format!("{caller} may not use this controller; it answers uid {own} and root");
    ApiError::new(Code::Denied, message).into_response()
}

async fn unknown(request: Request) -> ApiError {
    let (method, path) = (request.method(), request.uri().path());
    ApiError::new(Code::NotFound, format!("nothing answers {method} {path}"))
}

async fn ready<C: Control>(State(control): State<C>) -> Response {
    match control.status().await {
        Ok(status) if status.store_up && status.settled => "ready\n".into_response(),
        Ok(status) => {
            let waiting = status.waiting_for.join("\n") + "\n";
            (StatusCode::SERVICE_UNAVAILABLE, waiting).into_response()
        }
        Err(error) => error.into_response(),
    }
}

/// A JSON body; a wrong one is refused in the surface's own form.
struct Body<T>(T);

impl<T: for<'de> Deserialize<'de>, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        body.map(|Json(body)| Self(body))
            .map_err(|error| ApiError::new(Code::Invalid, error.body_text()))
    }
}

fn named<T: std::str::FromStr>(name: &str) -> Answer<T>
where
    T::Err: std::fmt::Display,
{
    name.parse()
        .map_err(|error: T::Err| ApiError::new(Code::Invalid, error.to_string()))
}

fn answer<T: Serialize>(kind: &str, body: Answer<T>) -> Response {
    match body {
        Ok(body) => Json(Envelope::new(kind, body)).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn status<C: Control>(State(control): State<C>) -> Response {
    answer("Status", control.status().await)
}

async fn plan<C: Control>(State(control): State<C>, Body(request): Body<PlanRequest>) -> Response {
    answer("Plan", control.plan(request).await)
}

async fn apply<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Body(request): Body<Apply>,
) -> Response {
    answer("Applied", control.apply(request, caller).await)
}

async fn assign<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(seat): PathParam<String>,
    Body(request): Body<Assign>,
) -> Response {
    let assigned = match named(&seat) {
        Ok(seat) => control.assign(seat, request, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", assigned)
}

async fn label<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(node): PathParam<String>,
    Body(request): Body<Label>,
) -> Response {
    let labelled = match named(&node) {
        Ok(node) => control.label(node, request, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", labelled)
}

async fn schedule<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(node): PathParam<String>,
    Body(request): Body<Schedule>,
) -> Response {
    let scheduled = match named(&node) {
        Ok(node) => control.schedule(node, request, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", scheduled)
}

async fn move_node<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(node): PathParam<String>,
    Body(request): Body<Move>,
) -> Response {
    let moved = match named(&node) {
        Ok(node) => control.move_node(node, request, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", moved)
}

async fn remove_node<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(node): PathParam<String>,
) -> Response {
    let removed = match named(&node) {
        Ok(node) => control.remove_node(node, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", removed)
}

async fn create_token<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Body(request): Body<TokenRequest>,
) -> Response {
    answer("Token", control.create_token(request, caller).await)
}

async fn tokens<C: Control>(State(control): State<C>) -> Response {
    answer("TokenList", control.tokens().await)
}

async fn revoke_token<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(id): PathParam<String>,
) -> Response {
    let revoked = match named(&id) {
        Ok(id) => control.revoke_token(id, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", revoked)
}

async fn rotate<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(module): PathParam<String>,
    Body(request): Body<Rotate>,
) -> Response {
    let rotated = match named(&module) {
        Ok(module) => control.rotate(module, request, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", rotated)
}

async fn secrets<C: Control>(State(control): State<C>) -> Response {
    answer("SecretList", control.secrets().await)
}

async fn set_secret<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(secret): PathParam<String>,
    body: axum::body::Body,
) -> Response {
    let set = async {
        let (secret, value) = (named(&secret)?, secret_value(body).await?);
        control.set_secret(secret, value, caller).await
    };
    answer("Applied", set.await)
}

/// What is wrong with a value is said without any part of it.
async fn secret_value(body: axum::body::Body) -> Answer<SecretValue> {
    let refused = |message: String| ApiError::new(Code::Invalid, message);
    let bytes = axum::body::to_bytes(body, SECRET_LIMIT).await;
    let bytes = bytes.map_err(|_| {
        refused(format!(
            "a secret has at most {SECRET_LIMIT} bytes; hand the module a file by other means"
        ))
    })?;
    if bytes.is_empty() {
        return Err(refused("a secret has at least one byte".to_owned()));
    }
    Ok(SecretValue::new(bytes.to_vec()))
}

async fn remove_secret<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    PathParam(secret): PathParam<String>,
) -> Response {
    let removed = match named(&secret) {
        Ok(secret) => control.remove_secret(secret, caller).await,
        Err(error) => Err(error),
    };
    answer("Applied", removed)
}

#[derive(Deserialize)]
struct ReportQuery {
    node: Option<String>,
}

async fn reports<C: Control>(
    State(control): State<C>,
    Query(query): Query<ReportQuery>,
) -> Response {
    let node = query.node.as_deref().map(named).transpose();
    let reports = match node {
        Ok(node) => control.reports(node).await,
        Err(error) => Err(error),
    };
    answer("ReportList", reports)
}

async fn logs<C: Control>(
    State(control): State<C>,
    PathParam(module): PathParam<String>,
    Query(query): Query<LogQuery>,
) -> Response {
    let records = match named(&module) {
        Ok(module) => control.logs(module, query).await,
        Err(error) => Err(error),
    };
    match records {
        Ok(records) => streamed(records),
        Err(error) => error.into_response(),
    }
}

async fn doctor<C: Control>(State(control): State<C>) -> Response {
    answer("Doctor", control.doctor().await)
}

async fn verify<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Body(request): Body<VerifyRequest>,
) -> Response {
    answer("Verified", control.verify(request, caller).await)
}

async fn can<C: Control>(
    State(control): State<C>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Body(request): Body<CanRequest>,
) -> Response {
    answer("Can", control.can(request, caller).await)
}

async fn refuse_store<C: Control>(
    State(control): State<C>,
    Body(request): Body<RefuseStore>,
) -> Response {
    let refused = control.refuse_store(request).await;
    answer("StoreRefuses", refused.map(|()| request))
}
