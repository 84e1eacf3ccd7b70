//! Asynchronous events: reports of a controller, in dword 0 of an Asynchronous Event Request's completion.
//!
//! Each kind has a log page with the details. Most kinds have a bit in feature 0Bh that enables them.
//!
//! Holds: every kind survives dword 0, and the values are those captured from Linux hosts
//!        (`dword_0_is_what_was_captured`).
//! NVM Express Base Specification: "Asynchronous Event Request command", "Asynchronous Event Configuration".

use super::log;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// Namespaces were added or removed, or their size changed.
    NamespaceChanged,
    /// A namespace's access state changed.
    AnaChanged,
    /// The discovery log page changed.
    DiscoveryChanged,
    /// Another host changed a reservation or registration of this host.
    ReservationNotification,
}

impl EventKind {
    /// All of them.
    pub const ALL: [EventKind; 4] = [
        EventKind::NamespaceChanged,
        EventKind::AnaChanged,
        EventKind::DiscoveryChanged,
        EventKind::ReservationNotification,
    ];

    /// A small number to index tables with.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Dword 0 of the completion: type in bits 2:0, information in 15:8, log page in 23:16.
    pub const fn to_dw0(self) -> u32 {
        let (kind, information) = match self {
            EventKind::NamespaceChanged => (2, 0x00),
            EventKind::AnaChanged => (2, 0x03),
            EventKind::DiscoveryChanged => (2, 0xf0),
            EventKind::ReservationNotification => (6, 0x00),
        };
        (self.log_page() as u32) << 16 | information << 8 | kind
    }

    /// From dword 0; `None` for an event that this crate does not know.
    pub fn from_dw0(dw0: u32) -> Option<EventKind> {
        const TYPE_AND_INFORMATION: u32 = 0xff07;
        EventKind::ALL.into_iter().find(|kind| (kind.to_dw0() ^ dw0) & TYPE_AND_INFORMATION == 0)
    }

    /// The log page of the event. Reading it without Retain Asynchronous Event allows the next event of this
    /// kind.
    pub const fn log_page(self) -> u8 {
        match self {
            EventKind::NamespaceChanged => log::CHANGED_NAMESPACES,
            EventKind::AnaChanged => log::ANA,
            EventKind::DiscoveryChanged => log::DISCOVERY,
            EventKind::ReservationNotification => log::RESERVATION_NOTIFICATION,
        }
    }

    /// The kind's bit in OAES and in feature 0Bh; 0 if it has none.
    pub const fn configuration_bit(self) -> u32 {
        match self {
            EventKind::NamespaceChanged => 1 << 8,
            EventKind::AnaChanged => 1 << 11,
            EventKind::DiscoveryChanged => 1 << 31,
            EventKind::ReservationNotification => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dword_0_is_what_was_captured() {
        assert_eq!(EventKind::NamespaceChanged.to_dw0(), 0x040002);
        assert_eq!(EventKind::AnaChanged.to_dw0(), 0x0c0302);
        assert_eq!(EventKind::DiscoveryChanged.to_dw0(), 0x70f002);
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_dw0(kind.to_dw0()), Some(kind));
        }
        assert_eq!(EventKind::from_dw0(0x010001), None);
    }
}
