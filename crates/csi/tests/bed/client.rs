//! A client of a driver.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use csi::messages::*;
use hyper_util::rt::TokioIo;
use prost::Message;
use std::path::Path;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// A client of a driver.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
}

impl Client {
    pub fn new(socket: &Path) -> Client {
        let runtime = Runtime::new().expect("a runtime");
        let socket = socket.to_owned();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = {
            let _inside = runtime.enter();
            Endpoint::from_static("http://driver").connect_with_connector_lazy(connect)
        };
        Client { runtime, channel }
    }

    /// Calls a procedure. Those of the node begin with Node.
    pub fn call<Q, A>(&self, procedure: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let service = if procedure.starts_with("Node") { "Node" } else { "Controller" };
        let path = format!("/csi.v1.{service}/{procedure}").parse().expect("a path");
        self.runtime.block_on(async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
            answer.map(tonic::Response::into_inner)
        })
    }

    pub fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer: CreateVolumeResponse = self.call("CreateVolume", request)?;
        Ok(answer.volume.expect("an answer has a volume"))
    }

    pub fn delete(&self, volume_id: &str) -> Result<DeleteVolumeResponse, Status> {
        self.call("DeleteVolume", DeleteVolumeRequest { volume_id: volume_id.to_owned() })
    }

    pub fn publish(&self, volume_id: &str, node_id: &str) -> Result<ControllerPublishVolumeResponse, Status> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let volume_capability = Some(writer());
        let request =
            ControllerPublishVolumeRequest { volume_id, node_id, volume_capability, readonly: false };
        self.call("ControllerPublishVolume", request)
    }

    pub fn unpublish(&self, volume_id: &str, node_id: &str) -> Result<(), Status> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id };
        self.call("ControllerUnpublishVolume", request).map(|_: ControllerUnpublishVolumeResponse| ())
    }

    pub fn snapshot(&self, volume_id: &str, name: &str) -> Result<Snapshot, Status> {
        let (source_volume_id, name) = (volume_id.to_owned(), name.to_owned());
        let request = CreateSnapshotRequest { source_volume_id, name, ..Default::default() };
        let answer: CreateSnapshotResponse = self.call("CreateSnapshot", request)?;
        Ok(answer.snapshot.expect("an answer has a snapshot"))
    }

    pub fn delete_snapshot(&self, snapshot_id: &str) -> Result<DeleteSnapshotResponse, Status> {
        self.call("DeleteSnapshot", DeleteSnapshotRequest { snapshot_id: snapshot_id.to_owned() })
    }
}

/// A file system that one node writes.
pub fn writer() -> VolumeCapability {
    VolumeCapability {
        mount: Some(MountVolume::default()),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        ..Default::default()
    }
}
