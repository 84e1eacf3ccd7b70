//! Tests of the whole device, from outside.
//!
//! `facts` compares it with the real device (`fact_table`, measured with the load generator `driver`),
//! `real_drives` compares two profiles with the drives whose latency against load they were fitted to (`curves`).
//! `properties` tests what holds for every workload, `commands` what each kind of command does, `waiting` what
//! a profile may limit; these three use `small` devices. `waits` tests the parts of a read's time.

mod commands;
mod curves;
mod driver;
mod fact_table;
mod facts;
mod profiles;
mod properties;
mod real_drives;
mod reserve;
mod small;
mod variation;
mod waiting;
mod waits;
