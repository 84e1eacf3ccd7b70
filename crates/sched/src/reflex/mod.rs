//! ReFlex: tokens for every IO, reservations for latency-critical tenants, the rest for everybody else.

mod config;

pub use config::{Millitokens, ReadOnlyLoad, ReflexConfig, SupplyPoint, TokenRate};
