//! The client's half of Gimbal: the window of credits, and what a client knows about each SSD it uses.

mod credit_window;

pub use credit_window::CreditWindow;
