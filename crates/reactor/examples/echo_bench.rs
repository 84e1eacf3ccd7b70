//! Messages per second over loopback: one thread echoes, one asks, both on a reactor.
//!
//! ```text
//!   cargo run --release -p reactor --example echo_bench -- [buffers] [buffer KiB] [spin µs]
//! ```
//!
//! For both backends, a few shapes of traffic: small messages as NVMe/TCP commands have them, 4 KiB and 128 KiB as writes have
//! them, one or many in flight. Each run has a fixed number of messages, so the figures do not depend on a timer. On a machine
//! that others use, look at the processor time per message: it suffers less than the rate.

use reactor::{Backend, BufferPool, Clock, Event, Options, Reactor, SendBatch, Token, bind};
use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use units::{Bytes, Nanos};

/// One shape of traffic.
struct Shape {
    connections: usize,
    /// Messages that one connection has in flight.
    depth: usize,
    message: usize,
    /// Messages in all.
    count: usize,
}

const SHAPES: [Shape; 5] = [
    Shape { connections: 1, depth: 1, message: 72, count: 40_000 },
    Shape { connections: 1, depth: 32, message: 72, count: 400_000 },
    Shape { connections: 64, depth: 4, message: 72, count: 400_000 },
    Shape { connections: 8, depth: 8, message: 4096, count: 200_000 },
    Shape { connections: 4, depth: 4, message: 131_072, count: 10_000 },
];

/// The deadline for which lateness is measured: a read of an emulated SSD.
const DEADLINE: Nanos = Nanos::micros(80);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut options = Options::default();
    if let Some(buffers) = arguments.next().transpose()? {
        options.receive_buffers = u16::try_from(buffers)?;
    }
    if let Some(kib) = arguments.next().transpose()? {
        options.receive_buffer_size = Bytes::kib(kib);
    }
    if let Some(micros) = arguments.next().transpose()? {
        options.spin = Nanos::micros(micros);
    }
    println!(
        "{} receive buffers of {}, spin {}",
        options.receive_buffers, options.receive_buffer_size, options.spin
    );
    for shape in &SHAPES {
        for backend in [Backend::IoUring, Backend::Epoll] {
            let cpu_before = cpu_time()?;
            let elapsed = run(backend, &options, shape)?.as_secs_f64();
            let cpu = Nanos(cpu_time()?.get() - cpu_before.get());
            println!(
                "{:>3} connections × {:>2} × {:>6} B  {:8}  {:>9.0} messages/s  {:>6.0} MB/s  {:>6} ns CPU each",
                shape.connections,
                shape.depth,
                shape.message,
                format!("{backend:?}"),
                shape.count as f64 / elapsed,
                (shape.count * shape.message) as f64 / elapsed / 1e6,
                cpu.get() / shape.count as u64,
            );
        }
    }
    for backend in [Backend::IoUring, Backend::Epoll] {
        let (median, worst) = lateness(backend, &options)?;
        println!(
            "deadlines of {DEADLINE}: {backend:?} {median} late in the median, {worst} for the 99th percentile"
        );
    }
    Ok(())
}

/// Lateness of deadlines of an idle reactor: the median and the 99th percentile.
fn lateness(backend: Backend, options: &Options) -> Result<(Nanos, Nanos), Box<dyn Error>> {
    let mut reactor = Reactor::with_options(backend, options)?;
    let mut late = Vec::new();
    for _ in 0..5_000 {
        let deadline = Clock.now() + DEADLINE;
        reactor.wait(Some(deadline))?;
        late.push(Clock.now().since(deadline));
    }
    late.sort_unstable();
    Ok((late[late.len() / 2], late[late.len() * 99 / 100]))
}

/// Processor time that the process has used, both sides together.
fn cpu_time() -> Result<Nanos, Box<dyn Error>> {
    // proc(5): after the parenthesised name come 11 other fields, then user and system time in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().ok_or("no fields")?.split_whitespace().skip(11);
    let ticks: u64 = fields.take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Nanos::millis(10 * ticks))
}

fn run(backend: Backend, options: &Options, shape: &Shape) -> Result<Nanos, Box<dyn Error>> {
    let (tell, address) = mpsc::channel();
    let echo_options = options.clone();
    let connections = shape.connections;
    let echo =
        thread::spawn(move || echo(backend, &echo_options, connections, &tell).expect("the echo side runs"));
    let elapsed = ask(backend, options, shape, address.recv()?)?;
    echo.join().expect("the echo side ends");
    Ok(elapsed)
}

/// Sends back all bytes that come in, until all connections have ended.
fn echo(
    backend: Backend,
    options: &Options,
    mut connections: usize,
    tell: &mpsc::Sender<SocketAddr>,
) -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::with_options(backend, options)?;
    let mut pool = BufferPool::new(Bytes::mib(64));
    let listener = bind(([127, 0, 0, 1], 0).into())?;
    tell.send(listener.local_addr()?)?;
    reactor.listen(listener)?;
    // The batch to fill while another is in flight; absent while it is the one in flight.
    let mut pending: HashMap<Token, (SendBatch, Option<SendBatch>)> = HashMap::new();
    while connections > 0 {
        reactor.wait(None)?;
        while let Some(event) = reactor.next_event() {
            let token = match event {
                Event::Accepted { socket, .. } => {
                    let token = reactor.add_socket(socket)?;
                    pending.insert(token, (SendBatch::new(), Some(SendBatch::new())));
                    continue;
                }
                Event::Received { token, bytes } => {
                    let (batch, _) = pending.get_mut(&token).ok_or("unknown socket")?;
                    if bytes.len() <= 512 {
                        batch.push_bytes(&bytes);
                    } else {
                        let mut buffer = pool.take(bytes.len()).ok_or("pool exhausted")?;
                        buffer.copy_from_slice(&bytes);
                        batch.push_buffer(buffer, 0..bytes.len());
                    }
                    token
                }
                Event::Sent { token, mut batch, result } => {
                    result?;
                    batch.drain_buffers().for_each(|buffer| pool.give(buffer));
                    pending.get_mut(&token).ok_or("unknown socket")?.1 = Some(batch);
                    token
                }
                Event::ReceiveEnded { token, .. } => {
                    reactor.close(token);
                    connections -= 1;
                    continue;
                }
                other => return Err(format!("unexpected: {other:?}").into()),
            };
            let (batch, spare) = pending.get_mut(&token).ok_or("unknown socket")?;
            if !batch.is_empty()
                && let Some(next) = spare.take()
            {
                let full = std::mem::replace(batch, next);
                reactor.send(token, full).map_err(|refused| refused.why)?;
            }
        }
    }
    Ok(())
}

/// Keeps `depth` messages in flight on each connection.
fn ask(
    backend: Backend,
    options: &Options,
    shape: &Shape,
    address: SocketAddr,
) -> Result<Nanos, Box<dyn Error>> {
    let mut reactor = Reactor::with_options(backend, options)?;
    let message = vec![0x5a; shape.message];
    struct Connection {
        batch: Option<SendBatch>,
        /// Bytes of answers that have come and are not yet a whole message.
        received: usize,
        /// Messages to ask for with the next batch.
        credit: usize,
    }
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    for _ in 0..shape.connections {
        let token = reactor.connect(address)?;
        connections.insert(token, Connection { batch: Some(SendBatch::new()), received: 0, credit: 0 });
    }
    let start = Clock.now();
    let (mut asked, mut answered) = (0, 0);
    while answered < shape.count {
        reactor.wait(None)?;
        while let Some(event) = reactor.next_event() {
            let Some(token) = event.token() else { continue };
            let connection = connections.get_mut(&token).ok_or("unknown socket")?;
            match event {
                Event::Connected { result, .. } => {
                    result?;
                    connection.credit = shape.depth;
                }
                Event::Received { bytes, .. } => {
                    connection.received += bytes.len();
                    let whole = connection.received / shape.message;
                    connection.received %= shape.message;
                    connection.credit += whole;
                    answered += whole;
                }
                Event::Sent { mut batch, result, .. } => {
                    result?;
                    batch.clear();
                    connection.batch = Some(batch);
                }
                other => return Err(format!("unexpected: {other:?}").into()),
            }
            let wanted = connection.credit.min(shape.count - asked);
            if wanted > 0
                && let Some(mut batch) = connection.batch.take()
            {
                (0..wanted).for_each(|_| batch.push_bytes(&message));
                asked += wanted;
                connection.credit -= wanted;
                reactor.send(token, batch).map_err(|refused| refused.why)?;
            }
        }
    }
    Ok(Clock.now().since(start))
}
