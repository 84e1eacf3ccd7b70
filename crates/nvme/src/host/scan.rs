//! Finds the namespaces: reads the list, each namespace, and the ANA states.
//!
//! ```text
//!   [Changed Namespace List] > active list (again from the last one while full) > per namespace: 00h > 03h > [ANA log]
//! ```
//!
//! A namespace that is removed meanwhile is skipped. If a target has no descriptors (03h), the identifiers in
//! 00h are used.
//!
//! NVM Express Base Specification: "Identify command", "Changed Namespace List".

use super::commands::AdminCommand;
use super::error::{Doing, HostError};
use super::info::{ControllerInfo, NamespaceView};
use crate::spec::identify::{
    CSI_NVM, IDENTIFY_SIZE, NAMESPACE_LIST_ENTRIES, NSID_ALL, cns, descriptor, read_namespace_list,
};
use crate::spec::identify_namespace::{IdentifyNamespace, NSATTR_WRITE_PROTECTED};
use crate::spec::log::{self, LogRequest};
use crate::spec::{AnaState, Cqe, ana};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use zerocopy::FromBytes;

/// Most namespaces to read. Bounds time and memory.
const NAMESPACES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    ChangedList,
    List { after: u32 },
    Namespace(u32),
    Descriptors,
    Ana,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Scan {
    stage: Stage,
    to_do: VecDeque<u32>,
    found: Vec<NamespaceView>,
    /// Bytes of the ANA log page; 0 if the controller has none.
    ana_length: u64,
}

impl Scan {
    /// `changed`: the controller reported a change. Then the Changed Namespace List is read first, which
    /// re-enables the event.
    pub(super) fn new(info: &ControllerInfo, changed: bool) -> Scan {
        let ana_length = if info.ana { info.ana_log_length.min(info.transfer_max.get()) } else { 0 };
        Scan {
            stage: if changed { Stage::ChangedList } else { Stage::List { after: 0 } },
            to_do: VecDeque::new(),
            found: Vec::new(),
            ana_length: ana_length / 4 * 4,
        }
    }

    /// The namespaces, once the scan is complete.
    pub(super) fn done(&mut self) -> Option<Vec<NamespaceView>> {
        (self.stage == Stage::Done).then(|| core::mem::take(&mut self.found))
    }

    pub(super) fn command(&self) -> AdminCommand {
        match self.stage {
            Stage::ChangedList => AdminCommand::log(
                LogRequest::read(log::CHANGED_NAMESPACES, 0, IDENTIFY_SIZE as u64),
                NSID_ALL,
            ),
            Stage::List { after } => AdminCommand::identify(cns::ACTIVE_NAMESPACES, after),
            Stage::Namespace(nsid) => AdminCommand::identify(cns::NAMESPACE, nsid),
            Stage::Descriptors => AdminCommand::identify(
                cns::NAMESPACE_DESCRIPTORS,
                self.found.last().map_or(0, |found| found.nsid),
            ),
            Stage::Ana => AdminCommand::log(LogRequest::read(log::ANA, 0, self.ana_length), NSID_ALL),
            Stage::Done => unreachable!("a finished scan has no command"),
        }
    }

    pub(super) fn on_answer(&mut self, cqe: &Cqe, data: &[u8]) -> Result<(), HostError> {
        let success = cqe.status().is_success();
        self.stage = match self.stage {
            // The list is optional: the scan finds every change anyway.
            Stage::ChangedList => Stage::List { after: 0 },
            Stage::List { .. } if !success => {
                return Err(HostError::Failed(Doing::ReadingNamespaces, cqe.status()));
            }
            Stage::List { after } => {
                let listed: Vec<u32> = read_namespace_list(data).filter(|&nsid| nsid > after).collect();
                let full = listed.len() == NAMESPACE_LIST_ENTRIES;
                self.to_do.extend(&listed);
                match listed.last() {
                    Some(&last) if full && self.to_do.len() < NAMESPACES_MAX => Stage::List { after: last },
                    _ => self.next_namespace(),
                }
            }
            Stage::Namespace(nsid) => match view(nsid, data).filter(|_| success) {
                Some(view) => {
                    self.found.push(view);
                    Stage::Descriptors
                }
                None => self.next_namespace(),
            },
            Stage::Descriptors => {
                if let Some(view) = self.found.last_mut().filter(|_| success) {
                    let ids = descriptor::parse(data);
                    view.uuid = ids.uuid;
                    view.nguid = ids.nguid.or(view.nguid);
                    if ids.command_set != CSI_NVM {
                        self.found.pop();
                    }
                }
                self.next_namespace()
            }
            Stage::Ana => {
                if success {
                    apply_ana(&mut self.found, data);
                }
                Stage::Done
            }
            Stage::Done => unreachable!("a finished scan got an answer"),
        };
        Ok(())
    }

    fn next_namespace(&mut self) -> Stage {
        match self.to_do.pop_front() {
            Some(nsid) => Stage::Namespace(nsid),
            None if self.ana_length > 0 => Stage::Ana,
            None => Stage::Done,
        }
    }
}

/// Copies the access states of a log page into `namespaces`.
pub(super) fn apply_ana(namespaces: &mut [NamespaceView], page: &[u8]) {
    for (nsid, state) in ana::parse(page) {
        for namespace in namespaces.iter_mut().filter(|namespace| namespace.nsid == nsid) {
            namespace.ana = state;
        }
    }
}

/// `None` for a namespace that is inactive or has invalid data.
fn view(nsid: u32, data: &[u8]) -> Option<NamespaceView> {
    let (identify, _) = IdentifyNamespace::ref_from_prefix(data).ok()?;
    if identify.nsze.get() == 0 {
        return None;
    }
    Some(NamespaceView {
        nsid,
        block_size: identify.block_size()?,
        blocks: identify.nsze.get(),
        nguid: Some(identify.nguid).filter(|nguid| *nguid != [0; 16]),
        uuid: None,
        read_only: identify.nsattr & NSATTR_WRITE_PROTECTED != 0,
        reservation_capabilities: identify.rescap,
        ana: AnaState::Optimized,
    })
}
