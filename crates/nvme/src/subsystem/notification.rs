//! Reservation notifications of one controller: a queue of small log pages.
//!
//! Reading the page removes the oldest notification, unless the host retains the event. An event informs the
//! host of a notification to read. A host that never reads loses the oldest notifications; it sees a gap in
//! the count.
//!
//! Holds: at most 255 are kept (`the_newest_notifications_are_kept`).
//! NVM Express Base Specification: "Reservation Notification log page".

use crate::spec::log::ReservationNotificationPage;
use crate::spec::reservation::NotificationKind;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use zerocopy::{FromZeros, IntoBytes};

/// The page has one byte for the number of waiting notifications.
const WAITING_MAX: usize = 255;

#[derive(Clone, Debug, Default)]
pub(super) struct Notifications {
    count: u64,
    waiting: VecDeque<(u64, NotificationKind, u32)>,
}

impl Notifications {
    pub(super) fn push(&mut self, kind: NotificationKind, nsid: u32) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.count += 1;
        self.waiting.push_back((self.count, kind, nsid));
    }

    /// Removes the oldest one, which was read.
    pub(super) fn pop(&mut self) {
        self.waiting.pop_front();
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The page of the oldest one; all zeroes if there is none.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = ReservationNotificationPage::new_zeroed();
        if let Some((count, kind, nsid)) = self.waiting.front() {
            page.count = (*count).into();
            page.kind = kind.to_wire();
            page.available = (self.waiting.len() - 1) as u8;
            page.nsid = (*nsid).into();
        }
        page.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn the_newest_notifications_are_kept() {
        let mut notifications = Notifications::default();
        for nsid in 1..=256 {
            notifications.push(NotificationKind::ReservationReleased, nsid);
        }
        let page = ReservationNotificationPage::read_from_bytes(&notifications.page()).expect("64 bytes");
        assert_eq!((page.count.get(), page.nsid.get(), page.kind, page.available), (2, 2, 2, 254));
        (0..255).for_each(|_| notifications.pop());
        assert!(notifications.is_empty());
        assert!(notifications.page().iter().all(|&byte| byte == 0));
    }
}
