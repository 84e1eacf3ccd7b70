//! Controller properties: registers on PCIe, Property Get and Property Set on fabrics.
//!
//! NVM Express Base Specification: "Controller Properties".

/// Offsets of the properties.
pub mod offset {
    /// Controller Capabilities, 8 bytes.
    pub const CAP: u32 = 0x00;
    /// Version, 4 bytes.
    pub const VS: u32 = 0x08;
    /// Controller Configuration, 4 bytes; the only property that a host sets.
    pub const CC: u32 = 0x14;
    /// Controller Status, 4 bytes.
    pub const CSTS: u32 = 0x1c;
    /// Controller Ready Timeouts, 4 bytes.
    pub const CRTO: u32 = 0x68;
}

/// Property Get and Set, CDW10 bits 2:0: size of the property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertySize {
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl PropertySize {
    /// From the attribute field; `None` for a reserved value.
    pub const fn from_attributes(attributes: u32) -> Option<PropertySize> {
        match attributes & 0x7 {
            0 => Some(PropertySize::Four),
            1 => Some(PropertySize::Eight),
            _ => None,
        }
    }

    /// As the attribute field.
    pub const fn to_attributes(self) -> u32 {
        match self {
            PropertySize::Four => 0,
            PropertySize::Eight => 1,
        }
    }
}

/// A version: major 31:16, minor 15:8, tertiary 7:0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// NVM Express 2.0.
    pub const V2_0: Version = Version::new(2, 0, 0);

    /// `major.minor.tertiary`.
    pub const fn new(major: u16, minor: u8, tertiary: u8) -> Version {
        Version((major as u32) << 16 | (minor as u32) << 8 | tertiary as u32)
    }
}

/// Controller Capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    const CQR: u64 = 1 << 16;
    const TO_SHIFT: u32 = 24;
    const CSS_NVM: u64 = 1 << 37;
    const CSS_IO_COMMAND_SETS: u64 = 1 << 43;
    const CRMS_WITH_MEDIA: u64 = 1 << 59;

    /// A fabrics controller with queues of up to `queue_entries` entries. It becomes ready within `timeout` ×
    /// 500 ms.
    pub const fn fabrics(queue_entries: u16, timeout: u8) -> Capabilities {
        Capabilities(
            (queue_entries - 1) as u64
                | Capabilities::CQR
                | (timeout as u64) << Capabilities::TO_SHIFT
                | Capabilities::CSS_NVM
                | Capabilities::CSS_IO_COMMAND_SETS
                | Capabilities::CRMS_WITH_MEDIA,
        )
    }

    /// Largest queue, in entries.
    pub const fn queue_entries(self) -> u32 {
        (self.0 as u16) as u32 + 1
    }

    /// Longest time to become ready or not ready, in units of 500 ms.
    pub const fn timeout(self) -> u8 {
        (self.0 >> Capabilities::TO_SHIFT) as u8
    }

    /// Whether the host may select "all supported I/O command sets".
    pub const fn io_command_sets(self) -> bool {
        self.0 & Capabilities::CSS_IO_COMMAND_SETS != 0
    }

    /// Whether there is a CRTO property.
    pub const fn has_ready_timeouts(self) -> bool {
        self.0 & Capabilities::CRMS_WITH_MEDIA != 0
    }
}

/// Requested shutdown (CC.SHN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownNotification {
    /// None requested.
    None,
    /// Normal or abrupt: this target treats both the same.
    Shutdown,
}

/// Controller Configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration(pub u32);

impl Configuration {
    /// 64-byte submission and 16-byte completion queue entries, as powers of two.
    const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
    const ENTRY_SIZES_MASK: u32 = 0xff << 16;
    const ENABLE: u32 = 1;
    const CSS_SHIFT: u32 = 4;
    const CSS_NVM: u32 = 0;
    const CSS_ALL: u32 = 6;
    const MPS_AND_AMS_MASK: u32 = 0x7f << 7;
    const SHN_MASK: u32 = 3 << 14;
    const SHN_NORMAL: u32 = 1 << 14;

    /// The value that a host writes: entry sizes of the NVM command set, 4 KiB memory pages, not enabled.
    pub const fn host(all_command_sets: bool) -> Configuration {
        let css = if all_command_sets { Configuration::CSS_ALL } else { Configuration::CSS_NVM };
        Configuration(Configuration::ENTRY_SIZES | css << Configuration::CSS_SHIFT)
    }

    /// The same, enabled.
    #[must_use]
    pub const fn enabled(self) -> Configuration {
        Configuration(self.0 | Configuration::ENABLE)
    }

    /// The same, requesting a normal shutdown.
    #[must_use]
    pub const fn shutting_down(self) -> Configuration {
        Configuration(self.0 & !Configuration::SHN_MASK | Configuration::SHN_NORMAL)
    }

    /// CC.EN.
    pub const fn enable(self) -> bool {
        self.0 & Configuration::ENABLE != 0
    }

    /// CC.SHN.
    pub const fn shutdown(self) -> ShutdownNotification {
        match self.0 & Configuration::SHN_MASK {
            0 => ShutdownNotification::None,
            _ => ShutdownNotification::Shutdown,
        }
    }

    /// Whether a controller of the NVM command set supports these settings.
    pub const fn is_supported(self) -> bool {
        let css = self.0 >> Configuration::CSS_SHIFT & 0x7;
        self.0 & Configuration::ENTRY_SIZES_MASK == Configuration::ENTRY_SIZES
            && self.0 & Configuration::MPS_AND_AMS_MASK == 0
            && (css == Configuration::CSS_NVM || css == Configuration::CSS_ALL)
    }
}

/// Controller Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// Ready.
    pub const RDY: u32 = 1;
    /// Controller Fatal Status.
    pub const CFS: u32 = 1 << 1;
    /// Position of the shutdown status.
    pub const SHST_MASK: u32 = 3 << 2;
    /// Shutdown status: complete.
    pub const SHST_COMPLETE: u32 = 2 << 2;

    /// Ready for commands.
    pub const fn ready(self) -> bool {
        self.0 & ControllerStatus::RDY != 0
    }

    /// Failed until it is reset.
    pub const fn fatal(self) -> bool {
        self.0 & ControllerStatus::CFS != 0
    }

    /// Shut down.
    pub const fn shutdown_complete(self) -> bool {
        self.0 & ControllerStatus::SHST_MASK == ControllerStatus::SHST_COMPLETE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linux_host_writes_what_was_captured() {
        assert_eq!(Configuration::host(true).0, 0x460060);
        assert_eq!(Configuration::host(true).enabled().0, 0x460061);
        assert_eq!(Configuration::host(true).enabled().shutting_down().0, 0x464061);
        assert_eq!(Configuration::host(false).0, 0x460000);
        assert!(Configuration(0x460061).is_supported());
        assert!(!Configuration(0x450061).is_supported());
        assert!(!Configuration(0x460011).is_supported());
    }

    #[test]
    fn capabilities_read_back() {
        let cap = Capabilities::fabrics(1024, 15);
        assert_eq!((cap.queue_entries(), cap.timeout()), (1024, 15));
        assert!(cap.io_command_sets() && cap.has_ready_timeouts());
        let linux_target = Capabilities(0x0820_0f00_03ff);
        assert!(linux_target.io_command_sets());
        assert_eq!((linux_target.queue_entries(), linux_target.timeout()), (1024, 0x0f));
    }
}
