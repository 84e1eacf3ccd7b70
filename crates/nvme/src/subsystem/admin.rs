//! Commands of the admin queue: which ones are supported, and in which controller state.
//!
//! Before the controller is ready, only fabrics commands are allowed.
//!
//! NVM Express Base Specification: "Admin Command Set".

use super::Subsystem;
use super::action::Action;
use super::config::Role;
use crate::spec::log::{COMMANDS_SUPPORTED_IO, COMMANDS_SUPPORTED_SIZE, EFFECT_CONTENT_CHANGES, SUPPORTED};
use crate::spec::opcode::{admin, fabrics, nvm};
use crate::spec::sqe::FLAGS_FUSE_MASK;
use crate::spec::{AuthenticationCommand, Cqe, Sqe, Status};
use alloc::vec;
use alloc::vec::Vec;
use units::Instant;

/// The answer to a Fabrics command that every queue accepts.
pub(super) fn authenticate(sqe: &Sqe) -> Result<Action, Status> {
    AuthenticationCommand::parse(sqe).unwrap_or(Err(Status::INVALID_OPCODE)).map(Action::Authenticate)
}

impl Subsystem {
    pub(super) fn on_admin_command(
        &mut self,
        now: Instant,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        self.controller_mut(slot).keep_alive.on_traffic();
        if sqe.flags() & FLAGS_FUSE_MASK != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if sqe.is_fabrics() {
            return match sqe.fctype() {
                fabrics::PROPERTY_GET => self.property_get(now, slot, sqe),
                fabrics::PROPERTY_SET => self.property_set(now, slot, sqe),
                fabrics::CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
                _ => authenticate(sqe),
            };
        }
        if !self.controller(slot).is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        match sqe.opcode() {
            admin::GET_LOG_PAGE => self.get_log_page(now, slot, sqe),
            admin::IDENTIFY => self.identify(slot, sqe),
            admin::ABORT => Ok(self.abort(slot, sqe)),
            admin::SET_FEATURES => self.set_features(now, slot, sqe, data),
            admin::GET_FEATURES => self.get_features(now, slot, sqe),
            admin::ASYNC_EVENT_REQUEST => match self.controller_mut(slot).events.on_request(sqe.cid())? {
                Some(cqe) => Ok(Action::reply(cqe)),
                None => Ok(Action::Pending),
            },
            admin::KEEP_ALIVE => {
                self.controller_mut(slot).keep_alive.restart(now);
                Ok(Action::reply(Cqe::success(sqe.cid())))
            }
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The Commands Supported and Effects page.
    pub(super) fn commands_page(&self) -> Vec<u8> {
        let mut page = vec![0; COMMANDS_SUPPORTED_SIZE];
        let mut support = |at: usize, opcode: u8, effects: u32| {
            let at = at + usize::from(opcode) * 4;
            page[at..at + 4].copy_from_slice(&(SUPPORTED | effects).to_le_bytes());
        };
        let admin_commands = [
            admin::GET_LOG_PAGE,
            admin::IDENTIFY,
            admin::ABORT,
            admin::SET_FEATURES,
            admin::GET_FEATURES,
            admin::ASYNC_EVENT_REQUEST,
            admin::KEEP_ALIVE,
        ];
        admin_commands.into_iter().for_each(|opcode| support(0, opcode, 0));
        if self.config.role == Role::Io {
            let offered = self.config.commands;
            let io_commands = [
                (nvm::FLUSH, true, 0),
                (nvm::WRITE, true, EFFECT_CONTENT_CHANGES),
                (nvm::READ, true, 0),
                (nvm::COMPARE, offered.compare, 0),
                (nvm::WRITE_ZEROES, offered.write_zeroes, EFFECT_CONTENT_CHANGES),
                (nvm::DATASET_MANAGEMENT, offered.deallocate, EFFECT_CONTENT_CHANGES),
                (nvm::VERIFY, offered.verify, 0),
                (nvm::COPY, offered.copy, EFFECT_CONTENT_CHANGES),
                (nvm::RESERVATION_REGISTER, offered.reservations, 0),
                (nvm::RESERVATION_REPORT, offered.reservations, 0),
                (nvm::RESERVATION_ACQUIRE, offered.reservations, 0),
                (nvm::RESERVATION_RELEASE, offered.reservations, 0),
            ];
            for (opcode, _, effects) in io_commands.into_iter().filter(|(_, offered, _)| *offered) {
                support(COMMANDS_SUPPORTED_IO, opcode, effects);
            }
        }
        page
    }
}
