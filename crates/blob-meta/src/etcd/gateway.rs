//! Requests to etcd's JSON gateway: which endpoint, as whom, and what a failure means.
//!
//! ```text
//!   call ─► endpoint 1 ─► no response ─► endpoint 2 … ─► all their reasons
//!              └─ as a user: the token is missing or no longer valid ─► login, once ─► the request again
//! ```
//!
//! A token ends when it was not used for a while, when users are changed, and sometimes when etcd starts again. A request that etcd
//! refuses for its token was not carried out, so it can be repeated.
//!
//! Holds: at most three requests to an endpoint for a call, one of them a login
//! (`a_token_that_is_never_accepted_ends_the_call` in `tests/etcd_user.rs`).

use super::files::{self, EtcdFiles};
use super::login::Login;
use super::place::{Endpoint, Place};
use super::tls;
use blob::store::StoreError;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use ureq::Agent;
use ureq::http::StatusCode;
use zeroize::Zeroizing;

/// Time without a response after which an endpoint counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum length of a response, in bytes.
const ANSWER_MAX: u64 = 256 << 20;

/// Codes of gRPC.
const INVALID_ARGUMENT: u64 = 3;
const NOT_FOUND: u64 = 5;
const PERMISSION_DENIED: u64 = 7;
const FAILED_PRECONDITION: u64 = 9;
const UNAUTHENTICATED: u64 = 16;

/// Texts of etcd's errors that have no code of their own.
const NO_USER: &str = "user name is empty";
const OLD_REVISION: &str = "revision of auth store is old";

/// The members of a cluster, and the user as whom it is used.
pub(super) struct Gateway {
    agent: Agent,
    place: Place,
    files: EtcdFiles,
    /// The endpoint that responded last.
    current: usize,
    login: Option<Login>,
}

/// The response that the thing which a request names, such as a lease, does not exist. Other endpoints would give it as
/// well.
pub(super) struct NotFound(pub(super) String);

/// A failure of a request to one endpoint.
enum Failure {
    /// No response of etcd. The request may have been carried out.
    NotReached(String),
    /// An error response.
    Refused(Refusal),
}

/// An error response.
struct Refusal {
    status: StatusCode,
    code: u64,
    message: String,
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure::NotReached(reason)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gateway { place, files, login, .. } = self;
        f.debug_struct("Gateway")
            .field("place", place)
            .field("files", files)
            .field("login", login)
            .finish_non_exhaustive()
    }
}

impl Refusal {
    /// Whether a new token may help. etcd's own client asks for one in the same cases.
    fn is_about_token(&self) -> bool {
        let is_told = self.message.contains(OLD_REVISION) || self.message.contains(NO_USER);
        self.code == UNAUTHENTICATED || self.code == INVALID_ARGUMENT && is_told
    }

    /// The meaning for a request as this user, with the advice.
    fn explain(&self, user: Option<&str>) -> String {
        let Refusal { status, message, .. } = self;
        match user {
            None if self.is_about_token() => format!(
                "{message}: this etcd asks for a user: write etcds://USER@HOST:PORT, and give a file with the password ({})",
                files::PASSWORD
            ),
            Some(user) if self.code == PERMISSION_DENIED => format!(
                "{message}: user {user} needs a role that may read and write all keys under {prefix} (etcdctl role \
                 grant-permission ROLE --prefix=true readwrite {prefix})",
                prefix = super::PREFIX
            ),
            _ => format!("{status}: {message}"),
        }
    }

    /// The meaning for a login.
    fn explain_login(&self, login: &Login) -> String {
        let Refusal { status, code, message } = self;
        let (user, file) = (&login.user, login.password.display());
        match *code {
            INVALID_ARGUMENT => format!(
                "{message}: etcd does not know user {user} with the password in {file}; correct the file or the name, or set the \
                 password (etcdctl user passwd {user})"
            ),
            FAILED_PRECONDITION => format!(
                "{message}: this etcd lets everyone in; enable its users (etcdctl auth enable), or name the store without {user}@"
            ),
            _ => format!("login of user {user}: {status}: {message}"),
        }
    }
}

impl Gateway {
    /// Sends nothing yet.
    ///
    /// # Errors
    /// A description of the problem of the files.
    pub(super) fn new(place: Place, files: &EtcdFiles) -> Result<Gateway, String> {
        files.fit(&place)?;
        // A redirection could lead the token and the password to another server.
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .https_only(place.is_tls)
            .proxy(None);
        let config = if place.is_tls { config.tls_config(tls::config(files)?) } else { config };
        let login = match (&place.user, &files.password) {
            (Some(user), Some(password)) => Some(Login::new(user.clone(), password.clone())?),
            _ => None,
        };
        Ok(Gateway { agent: config.build().into(), place, files: files.clone(), current: 0, login })
    }

    /// Sends a request, to another endpoint if one does not carry it out.
    pub(super) fn call(
        &mut self,
        path: &str,
        request: &Value,
    ) -> Result<Result<Value, NotFound>, StoreError> {
        let mut reasons = Vec::new();
        let body = request.to_string();
        for step in 0..self.place.endpoints.len() {
            let index = (self.current + step) % self.place.endpoints.len();
            let endpoint = self.place.endpoints[index].clone();
            let reason = match self.call_one(&endpoint, path, &body) {
                Ok(answer) => {
                    self.current = index;
                    return Ok(Ok(answer));
                }
                Err(Failure::Refused(Refusal { code: NOT_FOUND, message, .. })) => {
                    self.current = index;
                    return Ok(Err(NotFound(message)));
                }
                Err(Failure::Refused(refusal)) => refusal.explain(self.place.user.as_deref()),
                Err(Failure::NotReached(reason)) => reason,
            };
            reasons.push(format!("{endpoint}: {reason}"));
        }
        Err(StoreError::Unavailable(reasons.join("; ")))
    }

    fn call_one(&mut self, endpoint: &Endpoint, path: &str, body: &str) -> Result<Value, Failure> {
        let mut is_new = false;
        if self.login.as_ref().is_some_and(|login| login.token.is_none()) {
            self.log_in(endpoint)?;
            is_new = true;
        }
        match self.send(endpoint, path, body) {
            Err(Failure::Refused(refusal)) if refusal.is_about_token() && self.login.is_some() && !is_new => {
                self.log_in(endpoint)?;
                self.send(endpoint, path, body)
            }
            result => result,
        }
    }

    /// Gets a token for the user.
    fn log_in(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let Some(login) = &mut self.login else { return Ok(()) };
        login.token = None;
        let request = login.request()?;
        let answer = self.send(endpoint, "auth/authenticate", &request);
        let login = self.login.as_mut().expect("it was there");
        let answer = answer.map_err(|failure| match failure {
            Failure::Refused(refusal) => Failure::NotReached(refusal.explain_login(login)),
            failure => failure,
        })?;
        let token = answer["token"].as_str().ok_or_else(|| "etcd gave no token for a login".to_owned())?;
        login.token = Some(Zeroizing::new(token.to_owned()));
        Ok(())
    }

    fn send(&self, endpoint: &Endpoint, path: &str, body: &str) -> Result<Value, Failure> {
        let is_tls = self.place.is_tls;
        let explain = |error: &ureq::Error| tls::explain(error, is_tls, &self.files);
        let url = format!("{}://{endpoint}/v3/{path}", self.place.scheme());
        let mut post = self.agent.post(&url).content_type("application/json");
        if let Some(token) = self.login.as_ref().and_then(|login| login.token.as_ref()) {
            post = post.header("Authorization", token.as_str());
        }
        let mut response = post.send(body).map_err(|error| explain(&error))?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(ANSWER_MAX).read_to_string();
        let body = body.map_err(|error| explain(&error))?;
        let answer: Value = serde_json::from_str(&body).map_err(|_| {
            let advice = if is_tls { "is this an etcd, 3.4 or newer?" } else { tls::plain_to_tls() };
            format!("{status}: not JSON; {advice}")
        })?;
        if status.is_success() && answer.get("error").is_none() {
            return Ok(answer);
        }
        // The response of a streaming call contains its error.
        let error = if answer["error"].is_object() { &answer["error"] } else { &answer };
        let code = error["code"].as_u64().or_else(|| error["grpc_code"].as_u64()).unwrap_or(0);
        let message = error["message"].as_str().or_else(|| error["error"].as_str());
        let message = message.unwrap_or("no reason given").to_owned();
        Err(Failure::Refused(Refusal { status, code, message }))
    }
}
