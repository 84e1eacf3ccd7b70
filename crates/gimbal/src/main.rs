//! The `gimbal` command.

fn main() {}
