//! The client's half: windows that hold a client back (Gimbal's by credits, PARDA's by latency), and a client's view of
//! each SSD that it uses.

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
