//! Runs sessions and engines against a target made of `nvme`'s own state machines.

mod chaos;
mod client;
mod engine;
mod rdma;
mod reservation;
mod server;
mod session;
mod target;
mod world;
