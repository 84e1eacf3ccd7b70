//! Tests of the whole device, from outside.
//!
//! `facts` holds it to what the real one does (`fact_table`, measured with the load generator `driver`), `properties` to
//! what is true of every workload, `commands` to what each kind of command does; the last two use `small` devices.

mod commands;
mod driver;
mod fact_table;
mod facts;
mod profiles;
mod properties;
mod small;
mod variation;
