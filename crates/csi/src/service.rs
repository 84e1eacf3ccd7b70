//! The way from a request of gRPC to a procedure, and back.
//!
//! A procedure is a function of a message that may wait: for the target, or for a command. It runs on a thread that may, and a failure is one line
//! of the log. [`service`] makes a service of a table of procedures, which is all that a generator would make.

use prost::Message;
use std::sync::Arc;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, http};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// A procedure of a server.
pub(crate) type Procedure<S, Q, A> = fn(&S, Q) -> Result<A, Status>;

/// A procedure with its server and its name.
struct Called<S, Q, A> {
    server: Arc<S>,
    procedure: Procedure<S, Q, A>,
    name: &'static str,
}

impl<S, Q, A> UnaryService<Q> for Called<S, Q, A>
where
    S: Send + Sync + 'static,
    Q: Message + 'static,
    A: Message + 'static,
{
    type Response = A;
    type Future = BoxFuture<Response<A>, Status>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (server, procedure, name) = (Arc::clone(&self.server), self.procedure, self.name);
        Box::pin(async move {
            let request = request.into_inner();
            let answered = tokio::task::spawn_blocking(move || procedure(&server, request)).await;
            let answered = answered
                .unwrap_or_else(|_| Err(Status::internal("the driver has a bug; its log has the place")));
            let answered = answered.inspect_err(|status| {
                tracing::warn!(procedure = name, code = ?status.code(), error = status.message(), "failed");
            });
            answered.map(Response::new)
        })
    }
}

/// Answers a request by a procedure.
pub(crate) async fn unary<S, Q, A>(
    server: Arc<S>,
    procedure: Procedure<S, Q, A>,
    name: &'static str,
    request: http::Request<Body>,
) -> http::Response<Body>
where
    S: Send + Sync + 'static,
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Called { server, procedure, name }, request).await
}

/// Makes a service of a server and the names of its procedures.
macro_rules! service {
    ($service:ident, $server:ty, $path:literal, { $($name:literal => $procedure:ident,)* }) => {
        /// The service, for a server of gRPC.
        #[derive(Clone, Debug)]
        pub struct $service(std::sync::Arc<$server>);

        impl $service {
            /// The service of this server.
            pub fn new(server: $server) -> $service {
                $service(std::sync::Arc::new(server))
            }
        }

        impl tonic::server::NamedService for $service {
            const NAME: &'static str = $path;
        }

        impl tower_service::Service<tonic::codegen::http::Request<tonic::body::Body>> for $service {
            type Response = tonic::codegen::http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = tonic::codegen::BoxFuture<Self::Response, Self::Error>;

            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: tonic::codegen::http::Request<tonic::body::Body>) -> Self::Future {
                let server = std::sync::Arc::clone(&self.0);
                let path = request.uri().path();
                match path.rsplit('/').next().unwrap_or_default() {
                    $($name => Box::pin(async move {
                        Ok(crate::service::unary(server, <$server>::$procedure, $name, request).await)
                    }),)*
                    _ => {
                        let unknown = tonic::Status::unimplemented(format!("this driver has no {path}"));
                        Box::pin(async move { Ok(unknown.into_http()) })
                    }
                }
            }
        }
    };
}
pub(crate) use service;
