//! Tests the command layer from outside: a subsystem as hosts see it, and the two ends against each other.

#![allow(missing_docs, reason = "tests are not an interface")]

mod abort;
mod binding;
mod bringup;
mod conformance;
mod copy;
mod fused;
mod identify;
mod linux;
mod persistence;
mod reservation;
mod robustness;
mod spdk;
mod subsystem;
mod world;
