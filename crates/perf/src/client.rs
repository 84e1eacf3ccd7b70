//! The load generator: one thread that never sleeps, and any number of connections in closed loops.
//!
//! If the client slept, the server would have to wake it. On a virtual machine that costs a good part of the time of a read, and would
//! be counted as the server's. With few connections the client polls each of them in turn; with many it asks the kernel which ones
//! are readable.

use crate::bringup::Association;
use crate::machine::Used;
use crate::server::Server;
use crate::stream::{Load, Stream};
use anyhow::{Context, Result, ensure};
use rustix::event::epoll;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Bytes received at once.
const RECEIVE: usize = 256 * 1024;
/// Up to this many connections are polled in turn.
const ASKED_IN_TURN: usize = 4;
/// Events taken from the kernel at once.
const EVENTS: usize = 64;
/// Warm-up at the beginning of a run.
const RAMP: Duration = Duration::from_millis(100);
/// Longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Completed IOs.
    pub(crate) ios: u64,
    /// The time they took.
    pub(crate) elapsed: Duration,
    /// CPU time of the server.
    pub(crate) server: Used,
    /// IOs outstanding, over all connections.
    depth: u64,
}

impl Tally {
    /// IOs per second.
    pub(crate) fn iops(&self) -> f64 {
        self.ios as f64 / self.elapsed.as_secs_f64()
    }

    /// CPU time of the server per IO, in nanoseconds.
    pub(crate) fn cpu_per_io(&self) -> f64 {
        self.server.all.as_nanos() as f64 / self.ios as f64
    }

    /// The part of it that the threads with an SSD used.
    pub(crate) fn ssd_cpu_per_io(&self) -> f64 {
        self.server.ssds.as_nanos() as f64 / self.ios as f64
    }

    /// IOs per second of CPU time of the server.
    pub(crate) fn ios_per_cpu_second(&self) -> f64 {
        self.ios as f64 / self.server.all.as_secs_f64()
    }

    /// Nanoseconds from the start of an IO to the start of the next one in its slot: in a closed loop, the mean latency plus the
    /// client's own time.
    pub(crate) fn latency(&self) -> f64 {
        self.elapsed.as_nanos() as f64 * self.depth as f64 / self.ios as f64
    }

    /// The part of its core that the server used.
    pub(crate) fn server_busy(&self) -> f64 {
        self.server.all.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Connections to one server.
pub(crate) struct Client<'s> {
    server: &'s Server,
    streams: Vec<Stream>,
    depth: u64,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// Kept for its admin queue.
    _association: Option<Association>,
}

impl<'s> Client<'s> {
    /// Connects to a floor, which needs no handshake.
    pub(crate) fn of_floor(server: &'s Server, connections: u16, load: Load) -> Result<Client<'s>> {
        let sockets = (0..connections).map(|_| TcpStream::connect(server.address()).context("the floor"));
        Client::new(server, sockets.collect::<Result<_>>()?, load, None)
    }

    /// Connects to a target as one host, with an IO queue for each connection.
    pub(crate) fn of_target(server: &'s Server, connections: u16, load: Load) -> Result<Client<'s>> {
        Client::of_host(server, 0, connections, load)
    }

    /// The same, as the host with this number.
    pub(crate) fn of_host(server: &'s Server, host: u16, connections: u16, load: Load) -> Result<Client<'s>> {
        let association = Association::new(server.address(), host, connections)?;
        let sockets = (1..=connections).map(|id| association.io_queue(id, load.digests()));
        let sockets = sockets.collect::<Result<_>>()?;
        Client::new(server, sockets, load, Some(association))
    }

    /// Connects as one host with two IO queues and uses only the second. With two threads and one SSD, the first stays on the thread
    /// of the SSD, and the second goes to the other thread.
    pub(crate) fn of_second_queue(server: &'s Server, load: Load) -> Result<Client<'s>> {
        let mut association = Association::new(server.address(), 0, 2)?;
        let first = association.io_queue(1, load.digests())?;
        let second = association.io_queue(2, load.digests())?;
        association.keep(first);
        Client::new(server, vec![second], load, Some(association))
    }

    fn new(
        server: &'s Server,
        sockets: Vec<TcpStream>,
        load: Load,
        association: Option<Association>,
    ) -> Result<Client<'s>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("an epoll")?;
        let depth = sockets.len() as u64 * u64::from(load.depth);
        let mut streams = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            let stream = Stream::new(socket, load, index as u64)?;
            let name = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, stream.socket(), name, epoll::EventFlags::IN).context("a socket's events")?;
            streams.push(stream);
        }
        let (events, buffer) = (Vec::with_capacity(EVENTS), vec![0; RECEIVE]);
        Ok(Client { server, streams, depth, epoll, events, buffer, _association: association })
    }

    /// Loads the server for this long, after a warm-up, and waits for the last answers.
    pub(crate) fn run(&mut self, span: Duration) -> Result<Tally> {
        self.begin()?;
        self.turns(Instant::now() + RAMP, true)?;
        let (began, used) = (Instant::now(), self.server.processor_time()?);
        let ios = self.turns(began + span, true)?;
        let elapsed = began.elapsed();
        let server = self.server.processor_time()?.since(used);
        ensure!(ios > 0, "nothing was answered in {elapsed:?}");
        self.finish()?;
        Ok(Tally { ios, elapsed, server, depth: self.depth })
    }

    /// Lets every connection do its IOs once.
    pub(crate) fn use_once(&mut self) -> Result<()> {
        self.begin()?;
        self.finish()
    }

    fn begin(&mut self) -> Result<()> {
        for stream in &mut self.streams {
            stream.fill();
            stream.flush()?;
        }
        Ok(())
    }

    /// Waits for the last answers.
    fn finish(&mut self) -> Result<()> {
        let give_up_at = Instant::now() + PATIENCE;
        while self.streams.iter().any(|stream| stream.outstanding() > 0) {
            ensure!(Instant::now() < give_up_at, "the last answers have not come after {PATIENCE:?}");
            self.turn(false)?;
        }
        Ok(())
    }

    fn turns(&mut self, until: Instant, go_on: bool) -> Result<u64> {
        let mut ios = 0;
        while Instant::now() < until {
            ios += u64::from(self.turn(go_on)?);
        }
        Ok(ios)
    }

    /// Receives answers and sends as many new commands. Returns the number of completed IOs.
    fn turn(&mut self, go_on: bool) -> Result<u32> {
        let mut ended = 0;
        if self.streams.len() <= ASKED_IN_TURN {
            for index in 0..self.streams.len() {
                ended += self.serve(index, go_on)?;
            }
        } else {
            self.events.clear();
            let room = rustix::buffer::spare_capacity(&mut self.events);
            epoll::wait(&self.epoll, room, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }))
                .context("waiting for readable connections")?;
            for event in 0..self.events.len() {
                ended += self.serve(self.events[event].data.u64() as usize, go_on)?;
            }
        }
        Ok(ended)
    }

    fn serve(&mut self, index: usize, go_on: bool) -> Result<u32> {
        let stream = &mut self.streams[index];
        let ended = stream.receive(&mut self.buffer)?;
        if go_on && ended > 0 {
            stream.fill();
        }
        stream.flush()?;
        Ok(ended)
    }
}
