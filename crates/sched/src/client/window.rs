//! Limit of a client, of either kind: the switch's credit, or PARDA's window by latency.

use crate::{Credit, CreditWindow, PardaWindow};
use units::Nanos;

/// Number of IOs that a client may have outstanding at one SSD, and the mechanism that decides it.
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

    /// Ends an IO, with the credit that its completion carried, `latency` after it was sent (`None` if it failed).
    /// Returns how many waiting IOs could go now.
    ///
    /// # Panics
    /// If nothing was in flight.
    pub fn on_completion(&mut self, credit: Option<Credit>, latency: Option<Nanos>) -> u32 {
        match self {
            ClientWindow::Credits(window) => window.on_completion(credit),
            ClientWindow::Parda(window) => window.on_completion(latency),
        }
    }

    /// PARDA's part, which the caller informs of the end of every period.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PardaConfig;

    #[test]
    fn each_kind_is_held_by_its_own_bound() {
        let config = PardaConfig::new(Nanos::millis(2), Nanos::millis(20));
        let most = config.window_max;
        let kinds = [
            (ClientWindow::Credits(CreditWindow::new(Credit(3))), 3, false),
            (ClientWindow::Parda(PardaWindow::new(config)), most, true),
        ];
        for (mut window, limit, is_parda) in kinds {
            assert_eq!(window.parda().is_some(), is_parda);
            assert_eq!((window.limit(), window.in_flight(), window.room()), (limit, 0, limit));
            for in_flight in 1..=limit {
                assert!(window.try_submit());
                assert_eq!((window.in_flight(), window.room()), (in_flight, limit - in_flight));
            }
            assert!(!window.try_submit(), "the window is full");
            assert_eq!(window.on_completion(Some(Credit(limit)), Some(Nanos::micros(100))), 1);
            assert_eq!((window.in_flight(), window.room()), (limit - 1, 1));
        }
    }
}
