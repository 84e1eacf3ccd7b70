//! The screen of `gimbal top`: devices above, the tenants of one of them below.

use super::Sort;
use super::sight::{Device, Sight, Tenant, WHYS};
use comfy_table::{CellAlignment, Table as Text, presets};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use std::ops::ControlFlow;

const DEVICE_COLUMNS: [&str; 9] =
    ["device", "MB/s", "IOPS", "read p99", "write p99", "waiting", "on SSD", "tenants", "state"];
const TENANT_COLUMNS: [&str; 14] = [
    "tenant",
    "kind",
    "MB/s",
    "IOPS",
    "p50",
    "p99",
    "waiting",
    "credit",
    "objective",
    "share",
    "limit",
    "device",
    "memory",
    "credit",
];

/// The state of the screen.
pub(super) struct Screen {
    pub(super) sight: Option<Sight>,
    pub(super) is_paused: bool,
    device: usize,
    sort: Sort,
    filter: String,
    is_typing: bool,
}

impl Screen {
    pub(super) fn new(sort: Sort) -> Screen {
        Screen { sight: None, is_paused: false, device: 0, sort, filter: String::new(), is_typing: false }
    }

    /// A key was pressed. The answer is whether to end.
    pub(super) fn on_key(&mut self, key: KeyCode) -> ControlFlow<()> {
        match key {
            KeyCode::Enter | KeyCode::Esc if self.is_typing => {
                self.is_typing = false;
                if key == KeyCode::Esc {
                    self.filter.clear();
                }
            }
            KeyCode::Backspace if self.is_typing => drop(self.filter.pop()),
            KeyCode::Char(typed) if self.is_typing => self.filter.push(typed),
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('d') | KeyCode::Tab => self.device += 1,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Bytes => Sort::P99,
                    Sort::P99 => Sort::Wait,
                    Sort::Wait => Sort::Host,
                    Sort::Host => Sort::Bytes,
                };
            }
            KeyCode::Char('/') => self.is_typing = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let Some(sight) = &self.sight else {
            frame.render_widget(Paragraph::new("waiting for the first second"), frame.area());
            return;
        };
        let above = u16::try_from(sight.devices.len().min(8) + 3).expect("a few lines");
        let [top, middle, below] =
            Layout::vertical([Constraint::Length(above), Constraint::Min(4), Constraint::Length(1)])
                .areas(frame.area());
        let chosen = self.device % sight.devices.len().max(1);
        let devices = sight.devices.iter().enumerate().map(|(place, device)| {
            let row = Row::new(of_device(device).map(Cell::from));
            let row = if place == chosen { row.add_modifier(Modifier::BOLD) } else { row };
            if is_ill(device) { row.fg(Color::Red) } else { row }
        });
        let widths = [20, 9, 9, 10, 10, 8, 8, 8, 20].map(Constraint::Length);
        let title = format!(" gimbal: {} connections ", sight.connections);
        let header = Row::new(DEVICE_COLUMNS).style(Style::new().add_modifier(Modifier::DIM));
        frame.render_widget(
            Table::new(devices, widths).header(header).block(Block::bordered().title(title)),
            top,
        );
        if let Some(device) = sight.devices.get(chosen) {
            let tenants =
                sorted(device, self.sort).into_iter().filter(|tenant| tenant.name.contains(&self.filter));
            let rows = tenants.map(|tenant| {
                let cells = of_tenant(tenant);
                let waits = cells.len() - WHYS.len();
                Row::new(cells.into_iter().enumerate().map(|(place, text)| {
                    let part = place.checked_sub(waits).map_or(0.0, |why| tenant.waits[why]);
                    Cell::from(text).style(heat(part))
                }))
            });
            let widths = [Constraint::Fill(1)]
                .into_iter()
                .chain([9, 9, 9, 9, 9, 8, 7, 9, 6, 6, 6, 6, 6].map(Constraint::Length));
            let order = format!("{:?}", self.sort).to_lowercase();
            let title = format!(
                " tenants of {}, by {order}; on the right: part of the time waiting for … ",
                device.name
            );
            let header = Row::new(TENANT_COLUMNS).style(Style::new().add_modifier(Modifier::DIM));
            frame.render_widget(
                Table::new(rows, widths).header(header).block(Block::bordered().title(title)),
                middle,
            );
        }
        frame.render_widget(self.foot(sight), below);
    }

    fn foot(&self, sight: &Sight) -> Line<'_> {
        if self.is_typing {
            return Line::from(format!("/{}", self.filter));
        }
        let refused: u64 = sight.refused.iter().map(|(_, count)| count).sum();
        let paused = if self.is_paused { "PAUSED  " } else { "" };
        let filter =
            if self.filter.is_empty() { String::new() } else { format!("  only \"{}\"", self.filter) };
        Line::from(format!(
            "{paused}d device  s order  / filter  p pause  q end{filter}  refused so far: {refused}"
        ))
    }
}

/// The same as text, for pipes.
pub(super) fn table(sight: &Sight, sort: Sort) -> String {
    let mut devices = plain(&DEVICE_COLUMNS);
    for device in &sight.devices {
        devices.add_row(of_device(device));
    }
    let mut text = format!("{devices}\n");
    for device in &sight.devices {
        let mut tenants = plain(&TENANT_COLUMNS);
        for tenant in sorted(device, sort) {
            tenants.add_row(of_tenant(tenant));
        }
        text += &format!(
            "\ntenants of {}; the last five columns: part of the time waiting for …\n{tenants}\n",
            device.name
        );
        let hidden = device.known_tenants.saturating_sub(device.tenants.len() as u64);
        if hidden > 0 {
            text += &format!("{hidden} more tenants are in the device's totals only\n");
        }
    }
    text
}

fn plain(columns: &[&str]) -> Text {
    let mut table = Text::new();
    table.load_preset(presets::NOTHING).set_header(columns);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn sorted(device: &Device, sort: Sort) -> Vec<&Tenant> {
    let mut tenants: Vec<&Tenant> = device.tenants.iter().collect();
    let waited = |tenant: &Tenant| tenant.waits.iter().copied().fold(0.0, f64::max);
    tenants.sort_by(|a, b| match sort {
        Sort::Bytes => b.bytes.total_cmp(&a.bytes),
        Sort::P99 => b.latency[1].unwrap_or(0.0).total_cmp(&a.latency[1].unwrap_or(0.0)),
        Sort::Wait => waited(b).total_cmp(&waited(a)),
        Sort::Host => (&a.kind, &a.name).cmp(&(&b.kind, &b.name)),
    });
    tenants
}

fn is_ill(device: &Device) -> bool {
    device.hung > 0 || device.turn > 1.0
}

fn of_device(device: &Device) -> [String; 9] {
    let state = match device {
        Device { turn, .. } if *turn > 1.0 => format!("hangs for {turn:.0} s"),
        Device { hung: 1.., .. } => format!("{} IOs hang", device.hung),
        Device { is_busy: true, .. } => "slow".to_owned(),
        _ => "as usual".to_owned(),
    };
    [
        device.name.clone(),
        format!("{:.1}", device.bytes / 1e6),
        format!("{:.0}", device.ios),
        span(device.p99[0]),
        span(device.p99[1]),
        device.queued.to_string(),
        device.in_flight.to_string(),
        device.known_tenants.to_string(),
        state,
    ]
}

fn of_tenant(tenant: &Tenant) -> [String; 14] {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let kept = match tenant.slo_kept {
        None => "-",
        Some(true) => "kept",
        Some(false) => "MISSED",
    };
    let [share, limit, device, memory, credit] =
        tenant.waits.map(|part| if part < 0.005 { "·".to_owned() } else { format!("{:.0} %", part * 100.0) });
    [
        tenant.name.clone(),
        tenant.kind.clone(),
        format!("{:.1}", tenant.bytes / 1e6),
        format!("{:.0}", tenant.ios),
        span(tenant.latency[0]),
        span(tenant.latency[1]),
        count(tenant.queued),
        count(tenant.credit),
        kept.to_owned(),
        share,
        limit,
        device,
        memory,
        credit,
    ]
}

/// A duration in three digits.
fn span(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        Some(seconds) if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.2} s"),
    }
}

fn heat(part: f64) -> Style {
    match part {
        part if part >= 0.5 => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        part if part >= 0.1 => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}
