//! What the fact table's test and the examples share: a load generator for the model, and the facts themselves.

pub(crate) mod driver;
pub(crate) mod facts;
