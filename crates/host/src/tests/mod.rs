//! Sessions and engines against a target made of `nvme`'s own state machines.

mod engine;
mod session;
mod target;
mod world;
