//! Reading a module's log: where it runs, whom to ask, and in what words an end is told.

use futures_util::stream::{self, BoxStream, StreamExt};
use mesh_api::{ApiError, Code, Control, LogQuery, LogRecord, LogRecords};
use mesh_bus::{ControllerBus, Read, ReadEnd, Reading};
use mesh_control::{NodeState, NodeStatus, Status};
use mesh_model::{ModuleName, NodeName};
use mesh_wire::{LogEnd, LogSaid};

use super::Surface;

impl<B: ControllerBus> Surface<B> {
    /// Every node that is to be read at once; one that is away has ended before it began.
    pub(super) async fn read_logs(
        &self,
        module: ModuleName,
        query: LogQuery,
    ) -> Result<LogRecords, ApiError> {
        let status = self.status().await?;
        let mut all: Vec<LogRecords> = Vec::new();
        let mut refused = None;
        let nodes = chosen(&status, &module, query.node.as_ref())?;
        let names: Vec<NodeName> = nodes.iter().map(|seen| seen.node.clone()).collect();
        for node in nodes {
            let said_of = SaidOf {
                module: module.clone(),
                node: node.node.clone(),
                version: node.version.clone(),
            };
            if let Some(error) = away(node) {
                refused = Some(error.clone());
                all.push(ended(said_of.node, Some(error)));
                continue;
            }
            let (node, module) = (node.node.clone(), module.clone());
            let reading = self
                .shared
                .logs
                .read(node, module, query.tail, query.follow);
            let reading =
                reading.map_err(|error| ApiError::new(Code::Unavailable, error.to_string()))?;
            all.push(records(reading, said_of));
        }
        match refused {
            Some(error) if names.len() == 1 => Err(error),
            _ => {
                let first = stream::iter([LogRecord::Nodes { nodes: names }]);
                Ok(first.chain(stream::select_all(all)).boxed())
            }
        }
    }
}

/// Where a log is read: on the node that was asked for, or wherever the module is placed.
fn chosen<'a>(
    status: &'a Status,
    module: &ModuleName,
    node: Option<&NodeName>,
) -> Result<Vec<&'a NodeStatus>, ApiError> {
    let not_found = |message: String| Err(ApiError::new(Code::NotFound, message));
    let found = |node: &NodeName| status.nodes.iter().find(|seen| seen.node == *node);
    if let Some(node) = node {
        // Of a module that was taken from it, it still has the last words.
        return match found(node) {
            Some(seen) => Ok(vec![seen]),
            None => not_found(format!("there is no node {node}; see `meshctl node ls`")),
        };
    }
    let Some(declared) = status.modules.iter().find(|seen| seen.module == *module) else {
        return not_found(format!(
            "there is no module {module}; see `meshctl module ls`, and of one that was removed name the node it ran on: \
             --node NODE"
        ));
    };
    let nodes: Vec<&NodeStatus> = declared.nodes.iter().filter_map(found).collect();
    if nodes.is_empty() {
        return not_found(format!("module {module} is placed on no node"));
    }
    Ok(nodes)
}

/// Why a node is not asked at all.
fn away(node: &NodeStatus) -> Option<ApiError> {
    let since = match (node.state, node.heard_ago) {
        (NodeState::Lost, Some(ago)) => format!("was last heard {} s ago", ago / 1000),
        (NodeState::Lost | NodeState::Unheard, _) => {
            "was not heard since this controller started".to_owned()
        }
        _ => return None,
    };
    let node = &node.node;
    let message = format!(
        "node {node} is away: it {since}; what it runs may run on, and its log is on the host"
    );
    Some(ApiError::new(Code::Unreachable, message))
}

/// Whose log it is.
struct SaidOf {
    module: ModuleName,
    node: NodeName,
    version: Option<String>,
}

fn records(reading: Reading, of: SaidOf) -> BoxStream<'static, LogRecord> {
    let next = |(mut reading, of): (Reading, SaidOf)| async move {
        let read = reading.next().await?;
        Some((of.record(read), (reading, of)))
    };
    stream::unfold((reading, of), next).boxed()
}

fn ended(node: NodeName, error: Option<ApiError>) -> BoxStream<'static, LogRecord> {
    stream::iter([LogRecord::Ended { node, error }]).boxed()
}

impl SaidOf {
    fn record(&self, read: Read) -> LogRecord {
        let node = self.node.clone();
        match read {
            Read::Said(LogSaid::Line { bytes, cut }) => LogRecord::Line { node, bytes, cut },
            Read::Said(LogSaid::Dropped(lines)) => LogRecord::Dropped { node, lines },
            Read::Lost => LogRecord::Lost { node },
            Read::End(end) => LogRecord::Ended {
                node,
                error: self.error(end),
            },
        }
    }

    /// What an end is to whoever reads; nothing when that was all there is.
    fn error(&self, end: ReadEnd) -> Option<ApiError> {
        let Self {
            module,
            node,
            version,
        } = self;
        let (code, message) = match end {
            ReadEnd::Said(LogEnd::Whole) => return None,
            ReadEnd::Said(LogEnd::NotHere) => (
                Code::NotFound,
                format!("module {module} has no log on node {node}: it was never started there"),
            ),
            ReadEnd::Said(LogEnd::TooMany) => (
                Code::Unavailable,
                format!("node {node} shows as many logs as it does at once; end one of them first"),
            ),
            ReadEnd::Said(LogEnd::Unknown) => (
                Code::Unavailable,
                format!("the agent of node {node} was started anew meanwhile; ask again"),
            ),
            ReadEnd::Said(LogEnd::Failed(why)) => (
                Code::Failed,
                format!("the log of module {module} on node {node} cannot be read: {why}"),
            ),
            ReadEnd::NoAnswer => {
                let version = version.as_deref().unwrap_or("unknown");
                let message = format!(
                    "node {node} is there and does not answer: its agent is of version {version}, and one of an earlier \
                     release knows nothing of logs; update it. On a NATS server you run yourself its accounts have to let \
                     logs cross: see `meshctl doctor`"
                );
                (Code::Unreachable, message)
            }
            ReadEnd::Silent => (
                Code::Unreachable,
                format!("node {node} does not answer any more; see `meshctl node ls`"),
            ),
            ReadEnd::Bus(error) => (
                Code::Unreachable,
                format!("node {node} could not be asked: {error}"),
            ),
            ReadEnd::Stopping => (
                Code::Unreachable,
                "the controller stops; ask again once it is back".to_owned(),
            ),
        };
        Some(ApiError::new(code, message))
    }
}
