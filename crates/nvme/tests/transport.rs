//! Tests both ends of the transport, against each other and against peers that violate the protocol.
//!
//! `world` has the shared parts: a byte pipe that can be cut anywhere, a memory that executes reads and
//! writes, buffers that run out, and a peer that sends arbitrary PDUs.

mod transport {
    mod bounds;
    mod buffers;
    mod conformance;
    mod ends;
    mod fused;
    mod host_errors;
    mod target_errors;
    mod target_refusals;
    mod transcripts;
    mod world;
}
