mod check;
mod connection;
mod gemini;
mod play;
mod record;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use harness_types::{ModelError, ModelErrorKind};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::{DEADLINE, Error};
use connection::{Connection, HttpRequest};
use play::Next;

pub use check::check_gemini_request;
pub use record::{Outcome, RecordedRequest};
pub use turn::ServerTurn;

/// An HTTP server on a loopback port that answers `streamGenerateContent` as a script says.
///
/// Every request is recorded and checked with [`check_gemini_request`] and with what its turn
/// expects. A violation is answered with status 400, kept, and makes [`FakeModelServer::verify`]
/// panic, as it does the drop of the server: a test cannot miss one.
///
/// # Routes
///
/// A server holds one script for each route. A request belongs to the route named by the first
/// segment of its path, or else by its model, or else to the default route. The n-th request of a
/// route gets its n-th turn.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), harness_testkit::Error> {
/// use harness_testkit::FakeModelServer;
/// use harness_types::ScriptedTurn;
///
/// let server = FakeModelServer::start([ScriptedTurn::new().text("Hello.")]).await?;
/// let other = server.route("c1", [ScriptedTurn::new().text("Hello, c1.")]);
/// assert_eq!(other, format!("{}/c1", server.base_url()));
/// # server.discard_turns();
/// server.verify();
/// # Ok(())
/// # }
/// ```
///
/// # Limits
///
/// Plain HTTP/1.1; request heads up to 64 KiB and bodies up to 256 MiB. Chunks that need not wait
/// for each other are written together, up to 64 KiB at once, each still its own HTTP chunk.
pub struct FakeModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    routes: BTreeMap<String, Route>,
    requests: Vec<RecordedRequest>,
    outcomes: Vec<Outcome>,
    violations: Vec<String>,
    connections: usize,
}

enum Route {
    Script {
        turns: VecDeque<ServerTurn>,
        /// How many requests have come.
        asked: usize,
        /// How many turns they were given.
        given: usize,
    },
    Responder(Arc<dyn Fn(&RecordedRequest) -> ServerTurn + Send + Sync>),
}

impl Route {
    fn script(turns: impl IntoIterator<Item = impl Into<ServerTurn>>) -> Self {
        Self::Script {
            turns: turns.into_iter().map(Into::into).collect(),
            asked: 0,
            given: 0,
        }
    }
}

impl FakeModelServer {
    /// Starts a server with this script on its default route.
    ///
    /// The server runs as tasks of the runtime it is started on, and ends with the value.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when no port can be had.
    pub async fn start(
        turns: impl IntoIterator<Item = impl Into<ServerTurn>>,
    ) -> Result<Self, Error> {
        let bound = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = bound.map_err(Error::io("binding a loopback port"))?;
        let address = listener
            .local_addr()
            .map_err(Error::io("asking for the bound port"))?;
        let mut state = State::default();
        state.routes.insert(String::new(), Route::script(turns));
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of the default route, without a slash at its end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Gives a route its script, in place of the one it had, and returns its base URL.
    pub fn route(
        &self,
        name: impl Into<String>,
        turns: impl IntoIterator<Item = impl Into<ServerTurn>>,
    ) -> String {
        self.set_route(name.into(), Route::script(turns))
    }

    /// Has a function answer every request of a route, and returns its base URL.
    pub fn respond(
        &self,
        name: impl Into<String>,
        responder: impl Fn(&RecordedRequest) -> ServerTurn + Send + Sync + 'static,
    ) -> String {
        self.set_route(name.into(), Route::Responder(Arc::new(responder)))
    }

    fn set_route(&self, name: String, route: Route) -> String {
        let url = match name.as_str() {
            "" => self.base_url(),
            name => format!("{}/{name}", self.base_url()),
        };
        self.shared.lock().routes.insert(name, route);
        url
    }

    /// Adds a turn to the script of the default route.
    pub fn push(&self, turn: impl Into<ServerTurn>) {
        if let Some(Route::Script { turns, .. }) = self.shared.lock().routes.get_mut("") {
            turns.push_back(turn.into());
        }
    }

    /// The requests so far, in the order they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().requests.clone()
    }

    /// The requests of one route so far.
    pub fn requests_of(&self, route: &str) -> Vec<RecordedRequest> {
        let state = self.shared.lock();
        let requests = state.requests.iter();
        requests.filter(|r| r.route == route).cloned().collect()
    }

    /// Waits for request number `index`, counted from 0 over all routes.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] after [`DEADLINE`].
    pub async fn request(&self, index: usize) -> Result<RecordedRequest, Error> {
        self.wait_for(&format!("model request {index}"), |state| {
            state.requests.get(index).cloned()
        })
        .await
    }

    /// Waits until the answer to request number `index` has come to its end, and says how.
    ///
    /// # Errors
    ///
    /// [`Error::Deadline`] after [`DEADLINE`].
    pub async fn outcome(&self, index: usize) -> Result<Outcome, Error> {
        self.wait_for(&format!("the end of model request {index}"), |state| {
            let outcome = state.outcomes.get(index).copied();
            outcome.filter(|outcome| *outcome != Outcome::Running)
        })
        .await
    }

    /// How many connections have been accepted.
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// How many turns no request has come for, over all routes.
    pub fn turns_left(&self) -> usize {
        let state = self.shared.lock();
        let left = |route: &Route| match route {
            Route::Script { turns, .. } => turns.len(),
            Route::Responder(_) => 0,
        };
        state.routes.values().map(left).sum()
    }

    /// Forgets the turns no request has come for, for a test that ends early on purpose.
    pub fn discard_turns(&self) {
        for route in self.shared.lock().routes.values_mut() {
            if let Route::Script { turns, .. } = route {
                turns.clear();
            }
        }
    }

    /// Takes the violations so far, for a test that causes some on purpose.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().violations)
    }

    /// Ends the test's part of the work: there has been no violation, and every turn was asked
    /// for.
    ///
    /// # Panics
    ///
    /// With the violations, or the number of turns left.
    pub fn verify(&self) {
        let violations = self.take_violations();
        assert!(violations.is_empty(), "the model saw {violations:#?}");
        let left = self.turns_left();
        assert!(left == 0, "{left} turns of the model were not asked for");
    }

    async fn wait_for<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Result<T, Error> {
        let mut changed = self.shared.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = look(&self.shared.lock()) {
                    return found;
                }
                // The sender lives as long as `self`.
                let _ = changed.changed().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.map_err(|_| {
            let state = self.shared.lock();
            Error::Deadline {
                what: what.to_owned(),
                after: DEADLINE,
                so_far: format!(
                    "the model has seen {} requests, which ended as {:?}; violations: {:?}",
                    state.requests.len(),
                    state.outcomes,
                    state.violations,
                ),
            }
        })
    }
}

impl fmt::Debug for FakeModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeModelServer")
            .field("address", &self.address)
            .field("turns_left", &self.turns_left())
            .finish_non_exhaustive()
    }
}

impl Drop for FakeModelServer {
    fn drop(&mut self) {
        self.task.abort();
        let violations = self.take_violations();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "the model saw {violations:#?}");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.send_replace(());
        changed
    }

    fn violate(&self, problem: &str) -> ServerTurn {
        self.change(|state| state.violations.push(problem.to_owned()));
        let error = ModelError::new(ModelErrorKind::Status { code: 400 }, problem);
        ServerTurn::status(400, gemini::error_json(&error).to_string())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let number = shared.change(|state| {
            state.connections += 1;
            state.connections - 1
        });
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            if let Ok(connection) = Connection::new(stream) {
                serve(connection, number, &shared).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut connection: Connection, number: usize, shared: &Shared) {
    loop {
        let http = match connection.request().await {
            Ok(Some(http)) => http,
            Ok(None) => return,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::InvalidData {
                    shared.violate(&format!("an unreadable HTTP request: {error}"));
                }
                return;
            }
        };
        let keeps_alive = http.keeps_alive();
        let (index, turn) = receive(http, number, shared);
        let played = play::play(&mut connection, turn).await;
        let (outcome, next) = played.unwrap_or((Outcome::ClientGone, Next::Close));
        shared.change(|state| state.outcomes[index] = outcome);
        if next == Next::Close || !keeps_alive {
            return;
        }
    }
}

/// Records a request and decides how it is answered.
fn receive(http: HttpRequest, connection: usize, shared: &Shared) -> (usize, ServerTurn) {
    let at = Instant::now();
    let (path, query) = http.target.split_once('?').unwrap_or((&http.target, ""));
    let model = path.rsplit_once("models/").map_or("", |(_, rest)| rest);
    let (model, method) = model.split_once(':').unwrap_or((model, ""));
    let understood = http.method == "POST"
        && method == "streamGenerateContent"
        && query.split('&').any(|pair| pair == "alt=sse");
    let body: Value = serde_json::from_slice(&http.body).unwrap_or(Value::Null);

    let (request, turn) = shared.change(|state| {
        let first = path.trim_start_matches('/').split('/').next();
        let route = [first.unwrap_or_default(), model]
            .into_iter()
            .find(|name| state.routes.contains_key(*name))
            .unwrap_or_default();
        let request = RecordedRequest {
            index: state.requests.len(),
            route: route.to_owned(),
            model: model.to_owned(),
            target: http.target.clone(),
            headers: http.headers,
            body_bytes: http.body.len(),
            body,
            at,
            connection,
        };
        let turn = if understood {
            next_turn(state.routes.get_mut(route))
        } else {
            Err(format!(
                "{} {} is not served here",
                http.method, http.target
            ))
        };
        state.requests.push(request.clone());
        state.outcomes.push(Outcome::Running);
        (request, turn)
    });

    let index = request.index;
    let turn = turn.and_then(|turn| {
        let turn = match turn {
            NextTurn::Turn(turn) => turn,
            // Without the lock: the function may ask the server.
            NextTurn::Ask(responder) => responder(&request),
        };
        check_gemini_request(&request.body)?;
        if let turn::Reply::Scripted(script) = &turn.reply {
            check::check_expectation(&script.expect, &request.body)?;
        }
        turn.check
            .as_ref()
            .map_or(Ok(()), |check| check(&request))?;
        Ok(turn)
    });
    let turn = turn.unwrap_or_else(|problem| {
        shared.violate(&format!(
            "request {index} of route {:?}: {problem}",
            request.route
        ))
    });
    (index, turn)
}

enum NextTurn {
    Turn(ServerTurn),
    Ask(Arc<dyn Fn(&RecordedRequest) -> ServerTurn + Send + Sync>),
}

fn next_turn(route: Option<&mut Route>) -> Result<NextTurn, String> {
    match route {
        Some(Route::Script {
            turns,
            asked,
            given,
        }) => {
            *asked += 1;
            let Some(turn) = turns.pop_front() else {
                return Err(format!(
                    "its route has {given} turns; this is request {asked}"
                ));
            };
            *given += 1;
            Ok(NextTurn::Turn(turn))
        }
        Some(Route::Responder(responder)) => Ok(NextTurn::Ask(Arc::clone(responder))),
        None => Err("it has no route".to_owned()),
    }
}
