//! The admin commands that a host sends. The driver chooses their command identifiers.

use crate::spec::connect::{ConnectCommand, ConnectData};
use crate::spec::feature;
use crate::spec::identify::{CSI_NVM, IDENTIFY_SIZE, IdentifyCommand};
use crate::spec::log::LogRequest;
use crate::spec::opcode::{admin, fabrics};
use crate::spec::property::{PropertySize, offset};
use crate::spec::{AuthenticationCommand, HostId, Nqn, Sqe};
use alloc::vec::Vec;
use zerocopy::IntoBytes;

/// Data of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminData {
    /// None.
    None,
    /// These bytes go to the controller.
    ToController(Vec<u8>),
    /// This many bytes come from the controller.
    FromController(u32),
}

/// A command to send. The driver sets its identifier and data pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminCommand {
    /// The command.
    pub sqe: Sqe,
    /// Its data.
    pub data: AdminData,
}

impl AdminCommand {
    fn without_data(sqe: Sqe) -> AdminCommand {
        AdminCommand { sqe, data: AdminData::None }
    }

    /// Sends a message of an authentication.
    pub fn authentication_send(message: Vec<u8>) -> AdminCommand {
        let length = message.len() as u32;
        let sqe = AuthenticationCommand::Send { length }.to_sqe();
        AdminCommand { sqe, data: AdminData::ToController(message) }
    }

    /// Asks for a message of an authentication, of up to `length` bytes.
    pub fn authentication_receive(length: u32) -> AdminCommand {
        let sqe = AuthenticationCommand::Receive { length }.to_sqe();
        AdminCommand { sqe, data: AdminData::FromController(length) }
    }

    pub(super) fn property_get(property: u32, size: PropertySize) -> AdminCommand {
        let dwords = [size.to_attributes(), property, 0, 0, 0, 0];
        AdminCommand::without_data(Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15(dwords))
    }

    pub(super) fn set_configuration(value: u32) -> AdminCommand {
        let dwords = [PropertySize::Four.to_attributes(), offset::CC, value, 0, 0, 0];
        AdminCommand::without_data(Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15(dwords))
    }

    pub(super) fn set_feature(id: u8, value: u32) -> AdminCommand {
        let dwords = [u32::from(id), value, 0, 0, 0, 0];
        AdminCommand::without_data(Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords))
    }

    pub(super) fn identify(cns: u8, nsid: u32) -> AdminCommand {
        let command = IdentifyCommand { cns, controller_id: 0, command_set: CSI_NVM };
        AdminCommand { sqe: command.to_sqe(nsid), data: AdminData::FromController(IDENTIFY_SIZE as u32) }
    }

    pub(super) fn log(request: LogRequest, nsid: u32) -> AdminCommand {
        AdminCommand { sqe: request.to_sqe(nsid), data: AdminData::FromController(request.length as u32) }
    }

    pub(super) fn keep_alive() -> AdminCommand {
        AdminCommand::without_data(Sqe::new(admin::KEEP_ALIVE))
    }

    pub(super) fn event_request() -> AdminCommand {
        AdminCommand::without_data(Sqe::new(admin::ASYNC_EVENT_REQUEST))
    }

    pub(super) fn ask_for_credits() -> AdminCommand {
        AdminCommand::set_feature(feature::CREDITS, feature::CREDITS_ENABLED)
    }
}

/// The names of host and subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The subsystem.
    pub subsystem: Nqn,
    /// This host.
    pub host: Nqn,
    /// This host's 128-bit identifier. It must stay the same, because reservations belong to it.
    pub host_id: HostId,
}

impl Names {
    /// The Connect command of a queue with `entries` entries.
    pub(super) fn connect(&self, queue_id: u16, entries: u16, controller_id: u16, kato: u32) -> AdminCommand {
        let command = ConnectCommand {
            record_format: 0,
            queue_id,
            sqsize: entries.saturating_sub(1),
            attributes: 0,
            keep_alive_timeout: kato,
        };
        let data = ConnectData::new(self.host_id, &self.host, &self.subsystem, controller_id);
        AdminCommand { sqe: command.to_sqe(), data: AdminData::ToController(data.as_bytes().to_vec()) }
    }
}
