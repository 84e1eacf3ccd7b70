//! Get Log Page: the supported pages, and the part of a page that was requested.
//!
//! A page is built whole and then cut. So there is one rule for offset and length: an offset beyond the end
//! is refused, and bytes beyond the end read as zeroes. Reading without Retain Asynchronous Event allows the
//! next event of that kind and clears the entries of the page.
//!
//! Holds: pieces of a page put together are the page (`a_log_page_can_be_read_in_pieces` in
//!        `tests/controller/subsystem.rs`).
//! Elsewhere: larger pages are built in `health`, `features`, `admin` (commands), `discovery`, `notification`.
//! NVM Express Base Specification: "Get Log Page command".

use super::action::Action;
use super::config::Role;
use super::{Subsystem, exact_length};
use crate::spec::ana;
use crate::spec::event::EventKind;
use crate::spec::identify::{CSI_NVM, NSID_ALL};
use crate::spec::identify_controller::padded;
use crate::spec::log::{self, FirmwareSlots, LogRequest, SUPPORTED};
use crate::spec::{Cqe, Sqe, Status};
use alloc::vec;
use alloc::vec::Vec;
use units::Instant;
use zerocopy::{FromZeros, IntoBytes};

const IO_PAGES: [u8; 9] = [
    log::SUPPORTED_PAGES,
    log::ERROR_INFORMATION,
    log::HEALTH,
    log::FIRMWARE_SLOTS,
    log::CHANGED_NAMESPACES,
    log::COMMANDS_SUPPORTED,
    log::ANA,
    log::FEATURES_SUPPORTED,
    log::RESERVATION_NOTIFICATION,
];

const DISCOVERY_PAGES: [u8; 6] = [
    log::SUPPORTED_PAGES,
    log::ERROR_INFORMATION,
    log::HEALTH,
    log::COMMANDS_SUPPORTED,
    log::FEATURES_SUPPORTED,
    log::DISCOVERY,
];

impl Subsystem {
    pub(super) fn get_log_page(&mut self, now: Instant, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let request = LogRequest::parse(sqe);
        if !self.pages().contains(&request.page) {
            return Err(Status::INVALID_LOG_PAGE);
        }
        if request.offset_is_index
            || !request.offset.is_multiple_of(4)
            || request.length > self.config.limits.transfer_max.get()
        {
            return Err(Status::INVALID_FIELD);
        }
        exact_length(sqe, request.length as usize)?;
        let page = self.log_page(now, slot, &request, sqe.nsid())?;
        let part = cut(&page, request.offset, request.length as usize)?;
        if !request.retain {
            self.log_was_read(slot, request.page);
        }
        Ok(Action::reply_with(Cqe::success(sqe.cid()), part))
    }

    fn pages(&self) -> &'static [u8] {
        match self.config.role {
            Role::Io if self.config.commands.reservations => &IO_PAGES,
            Role::Io => &IO_PAGES[..IO_PAGES.len() - 1],
            Role::Discovery => &DISCOVERY_PAGES,
        }
    }

    fn log_page(
        &self,
        now: Instant,
        slot: usize,
        request: &LogRequest,
        nsid: u32,
    ) -> Result<Vec<u8>, Status> {
        let controller = self.controller(slot);
        Ok(match request.page {
            log::SUPPORTED_PAGES => {
                let mut page = vec![0; log::SUPPORTED_TABLE_SIZE];
                for &known in self.pages() {
                    let at = usize::from(known) * 4;
                    page[at..at + 4].copy_from_slice(&SUPPORTED.to_le_bytes());
                }
                page
            }
            log::ERROR_INFORMATION => controller.health.error_page(),
            // For the whole controller only; there is no health page per namespace.
            log::HEALTH if nsid != 0 && nsid != NSID_ALL => return Err(Status::INVALID_FIELD),
            log::HEALTH => controller.health.page(now, self.temperature),
            log::FIRMWARE_SLOTS => {
                let mut page = FirmwareSlots::new_zeroed();
                page.active = 1;
                page.revisions[0] = padded(&self.config.firmware);
                page.as_bytes().to_vec()
            }
            log::CHANGED_NAMESPACES => controller.changed.page(),
            log::COMMANDS_SUPPORTED if request.command_set != CSI_NVM => return Err(Status::INVALID_FIELD),
            log::COMMANDS_SUPPORTED => self.commands_page(),
            log::ANA => {
                let groups_only = request.specific & ana::GROUPS_ONLY != 0;
                ana::emit(self.namespaces.ana_changes(), &self.namespaces.groups(), groups_only)
            }
            log::FEATURES_SUPPORTED => self.features_page(),
            log::DISCOVERY => self.discovery_page(slot),
            log::RESERVATION_NOTIFICATION => controller.notifications.page(),
            _ => return Err(Status::INVALID_LOG_PAGE),
        })
    }

    fn log_was_read(&mut self, slot: usize, page: u8) {
        let controller = self.controller_mut(slot);
        controller.events.on_log_read(page);
        match page {
            log::CHANGED_NAMESPACES => controller.changed.clear(),
            log::RESERVATION_NOTIFICATION => {
                controller.notifications.pop();
                if !controller.notifications.is_empty() {
                    self.raise(slot, EventKind::ReservationNotification);
                }
            }
            _ => {}
        }
    }
}

/// `length` bytes of `page` from `offset`. Shorter at the end of the page; zeroes follow there.
fn cut(page: &[u8], offset: u64, length: usize) -> Result<Vec<u8>, Status> {
    let offset = usize::try_from(offset).map_err(|_| Status::INVALID_FIELD)?;
    let rest = page.get(offset..).ok_or(Status::INVALID_FIELD)?;
    Ok(rest[..rest.len().min(length)].to_vec())
}
