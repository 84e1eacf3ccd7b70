//! Tests both ends of NVMe/RDMA against each other, and against peers that violate the protocol, over a fabric in memory.
//!
//! `network` executes work requests on byte arrays, and fails where one breaks a rule of RDMA: keys, bounds, order, receives that were posted,
//! reads in flight, room of the send queue. `world` has a host, a target and the layer above it. `worlds` draws them by seed, with
//! faults at every step. `pitfalls` has one test for each mistake that a real peer has punished.

mod fabric {
    mod network;
    mod pitfalls;
    mod world;
    mod worlds;
}
