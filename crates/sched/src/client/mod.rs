//! The client's half: what holds a client back (Gimbal's window of credits, PARDA's window by latency), and what a client knows
//! about each SSD it uses.

mod credit_window;
mod parda;
mod virtual_view;

pub use credit_window::CreditWindow;
pub use parda::{Fixed, PardaConfig};
pub use virtual_view::{VirtualView, VirtualViewKeeper};
