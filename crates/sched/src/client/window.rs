//! What holds a client back, whichever it is: the switch's credit, or PARDA's window by latency.

use crate::{Credit, CreditWindow, PardaWindow};
use units::Nanos;

/// How many IOs a client may have outstanding at one SSD, and who says so.
#[derive(Debug)]
pub enum ClientWindow {
    /// The switch, with every completion.
    Credits(CreditWindow),
    /// The client itself, once in a period.
    Parda(PardaWindow),
}

impl ClientWindow {
    /// Takes one place in the window. If the answer is no, the IO waits in the client until a completion or the end of a
    /// period makes room.
    #[must_use]
    pub fn try_submit(&mut self) -> bool {
        match self {
            ClientWindow::Credits(window) => window.try_submit(),
            ClientWindow::Parda(window) => window.try_submit(),
        }
    }

    /// An IO has ended, with the credit that its completion carried, `latency` after it was sent (`None` if it failed).
    /// Answers how many waiting IOs could go now.
    ///
    /// # Panics
    /// If nothing was in flight.
    pub fn on_completion(&mut self, credit: Option<Credit>, latency: Option<Nanos>) -> u32 {
        match self {
            ClientWindow::Credits(window) => window.on_completion(credit),
            ClientWindow::Parda(window) => window.on_completion(latency),
        }
    }

    /// PARDA's part, which wants to hear of the end of every period.
    pub fn parda(&mut self) -> Option<&mut PardaWindow> {
        match self {
            ClientWindow::Credits(_) => None,
            ClientWindow::Parda(window) => Some(window),
        }
    }

    /// IOs that may be outstanding.
    pub fn limit(&self) -> u32 {
        match self {
            ClientWindow::Credits(window) => window.credit().0,
            ClientWindow::Parda(window) => window.limit(),
        }
    }

    /// IOs in flight.
    pub fn in_flight(&self) -> u32 {
        match self {
            ClientWindow::Credits(window) => window.in_flight(),
            ClientWindow::Parda(window) => window.in_flight(),
        }
    }

    /// IOs that could go now.
    pub fn room(&self) -> u32 {
        self.limit().saturating_sub(self.in_flight())
    }
}
