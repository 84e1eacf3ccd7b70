//! The end of a session: timeouts, faults, giving up, closing.

use super::{ADMIN, Output, Phase, Session};
use crate::connection::Outstanding;
use crate::fault::{ConnectError, Fault};
use crate::options::{ControllerOptions, RetryPolicy};
use crate::request::{IoError, Operation};
use nvme::spec::discovery::TransportType;
use nvme::tcp::Fatal;
use sched::{Credit, CreditWindow};
use tls::Broken;
use units::{Instant, Nanos};

/// After this time without an acknowledged shutdown, the connection is closed anyway.
const SHUTDOWN_TIMEOUT: Nanos = Nanos::millis(500);

impl Session {
    /// Longest time of an admin command.
    pub(super) fn admin_timeout(&self) -> Nanos {
        if self.options.keep_alive > Nanos::ZERO { self.options.keep_alive } else { self.options.io_timeout }
    }

    /// Time has passed.
    pub(crate) fn on_time(&mut self, now: Instant) {
        if now < self.alarm {
            return;
        }
        self.alarm = Instant::FAR_FUTURE;
        match self.phase {
            Phase::Waiting { until } if now >= until => self.start(now),
            Phase::Waiting { until } => self.alarm = until,
            Phase::Starting { deadline } if now >= deadline => {
                let fault = Fault::NotReady(self.options.connect_timeout, self.waiting_for());
                self.fail(now, fault);
            }
            Phase::Closing { deadline } if now >= deadline => self.finish(),
            Phase::Starting { deadline } | Phase::Closing { deadline } => {
                self.alarm = deadline;
                self.drive(now);
            }
            Phase::Ready => {
                self.check_silence(now);
                self.drive(now);
            }
            Phase::Over => {}
        }
    }

    /// The event that a starting session is waiting for, for error messages.
    fn waiting_for(&self) -> &'static str {
        match &self.connections[..] {
            [admin] if !admin.is_open => match self.options.transport {
                TransportType::Tcp => "the TCP connection",
                TransportType::Rdma => "the RDMA connection",
            },
            [_] => "bringing the controller up",
            _ => "connecting its IO queues",
        }
    }

    /// Gives the connections up if a command is outstanding for too long. Otherwise sets the alarm to that
    /// time.
    fn check_silence(&mut self, now: Instant) {
        for number in 0..self.connections.len() {
            let limit = if number == ADMIN { self.admin_timeout() } else { self.options.io_timeout };
            let Some((sent, name)) = self.connections[number].oldest() else { continue };
            if now >= sent + limit {
                return self.fail(now, Fault::Silent(limit, name));
            }
            self.alarm = self.alarm.min(sent + limit);
        }
    }

    /// The socket or queue pair of a connection was closed, failed, or could not be opened.
    pub(crate) fn on_closed(&mut self, now: Instant, fault: Fault) {
        self.fail(now, fault);
    }

    /// Closes all connections. Outstanding IOs go back into the wait queue, or end.
    pub(super) fn fail(&mut self, now: Instant, fault: Fault) {
        if matches!(self.phase, Phase::Over | Phase::Waiting { .. }) {
            return;
        }
        let is_violation = matches!(fault, Fault::Protocol(Fatal::Violation(_)));
        self.close_connections(now, is_violation);
        if matches!(self.phase, Phase::Closing { .. }) {
            self.phase = Phase::Over;
            self.outputs.push_back(Output::Closed);
            return;
        }
        // A target that has forgotten the key for TLS gets another one with the next try.
        let is_forgotten = self.generated.is_some() && matches!(fault, Fault::Tls(Broken::Handshake(_)));
        let wait = if fault.may_pass() || is_forgotten { self.retries.on_failure() } else { None };
        match wait {
            Some(retry_in) => {
                let until = now + retry_in;
                self.phase = Phase::Waiting { until };
                self.alarm = until;
                self.outputs.push_back(Output::Down { fault, retry_in });
            }
            None => self.give_up(now, fault),
        }
    }

    pub(super) fn close_connections(&mut self, now: Instant, with_last_words: bool) {
        self.marked.clear();
        let mut out = Vec::new();
        for (number, mut connection) in std::mem::take(&mut self.connections).into_iter().enumerate() {
            let mut last_words = Vec::new();
            if with_last_words && connection.is_open {
                connection.poll_transmit(&mut last_words);
            }
            self.outputs.push_back(Output::Close(number, last_words));
            out.extend(connection.into_outstanding());
        }
        self.window = CreditWindow::new(Credit(self.info.credit.unwrap_or(u32::MAX)));
        for io in out {
            self.retry_or_end(now, io);
        }
    }

    pub(super) fn retry_or_end(&mut self, now: Instant, mut io: Outstanding) {
        let RetryPolicy::Again { times } = self.options.retry else {
            return self.end(now, io, IoError::ConnectionLost);
        };
        // A repeat would be refused for what the first one has done.
        let is_once = matches!(io.request.operation, Operation::Reserve(_));
        if is_once || io.losses >= times {
            return self.end(now, io, IoError::ConnectionLost);
        }
        io.losses += 1;
        self.wait_queue.put_back(io);
    }

    fn give_up(&mut self, now: Instant, fault: Fault) {
        self.phase = Phase::Over;
        self.alarm = Instant::FAR_FUTURE;
        let tries = self.retries.failed().max(1);
        let ControllerOptions { address, ref subsystem, ref host, .. } = self.options;
        let error = ConnectError { address, subsystem: subsystem.clone(), host: host.clone(), tries, fault };
        self.end_waiting(now);
        self.outputs.push_back(Output::GaveUp(Box::new(error)));
    }

    fn end_waiting(&mut self, now: Instant) {
        for io in self.wait_queue.extract(|_| true) {
            self.end(now, io, IoError::ControllerGone);
        }
    }

    /// Ends every IO and shuts the controller down.
    pub(crate) fn close(&mut self, now: Instant) {
        self.begin_closing(now);
        self.drive(now);
    }

    /// Ends every IO and closes the IO queues. The admin queue must still be driven.
    pub(super) fn begin_closing(&mut self, now: Instant) {
        match self.phase {
            Phase::Over | Phase::Closing { .. } => return,
            Phase::Waiting { .. } | Phase::Starting { .. } | Phase::Ready => {}
        }
        let deadline = now + SHUTDOWN_TIMEOUT;
        self.phase = Phase::Closing { deadline };
        self.alarm = deadline;
        for (number, connection) in self.connections.drain(1.min(self.connections.len())..).enumerate() {
            self.outputs.push_back(Output::Close(number + 1, Vec::new()));
            connection.into_outstanding().into_iter().for_each(|io| self.wait_queue.put_back(io));
        }
        self.end_waiting(now);
        match self.connections.first() {
            Some(admin) if admin.is_open => self.controller.shut_down(),
            _ => self.finish(),
        }
    }

    /// Closes the remaining connections.
    pub(super) fn finish(&mut self) {
        self.phase = Phase::Over;
        self.alarm = Instant::FAR_FUTURE;
        self.marked.clear();
        for number in 0..self.connections.len() {
            self.outputs.push_back(Output::Close(number, Vec::new()));
        }
        self.connections.clear();
        self.outputs.push_back(Output::Closed);
    }
}
