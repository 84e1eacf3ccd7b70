//! The schedulers that Gimbal is compared with: what holds for every one of them in random worlds, each against a naive model,
//! and the claims of their papers.

#[path = "../books/mod.rs"]
mod books;
#[path = "../loads/mod.rs"]
mod loads;
#[path = "../world/mod.rs"]
mod world;

mod bfq;
mod elevators;
mod every;
mod flashfq;
mod flashfq_naive;
mod io_cost;
mod kyber_naive;
mod mclock_naive;
mod model;
mod mq_deadline_naive;
mod peers;
mod reflex;
mod reflex_naive;
mod spdk_qos_naive;
