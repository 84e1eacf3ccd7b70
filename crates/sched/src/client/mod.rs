//! The client's half of Gimbal: the window of credits, and what a client knows about each SSD it uses.

mod credit_window;
mod virtual_view;

pub use credit_window::CreditWindow;
pub use virtual_view::{VirtualView, VirtualViewKeeper};
