//! The client's half: what holds a client back (Gimbal's window of credits, PARDA's window by latency), and what a client knows
//! about each SSD it uses.

mod credit_window;
mod local_queue;
mod parda;
mod virtual_view;
mod window;

pub use credit_window::CreditWindow;
pub use local_queue::LocalQueue;
pub use parda::{Fixed, LatencySample, PardaConfig, PardaWindow, VmShares};
pub use virtual_view::{VirtualView, VirtualViewKeeper};
pub use window::ClientWindow;
