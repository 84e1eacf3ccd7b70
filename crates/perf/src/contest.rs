//! Servers that take turns under the same load.
//!
//! Each contestant is a server on the server's core, with connections that stay open. Contestants take turns, in rounds; each round
//! starts with another contestant. The value of a line is the median, over the rounds, of the ratio within a round. So a slow minute
//! of the machine affects both sides.
//!
//! The floor (`crates/reactor/examples/floor`) runs with epoll and with io_uring; the better one counts.

use crate::client::{Client, Tally};
use crate::measure::Bench;
use crate::rounds::Rounds;
use crate::server::Server;
use crate::stream::{Direction, Load};
use anyhow::Result;
use std::time::Duration;

/// Arguments for a target with a null device.
pub(crate) const NULL: [&str; 2] = ["--device", "null"];
/// A variant of the floor: its name, its backend, and how long it polls before it sleeps.
pub(crate) type Floor = (&'static str, &'static str, Duration);
/// Floors that sleep whenever there is nothing to do.
pub(crate) const SLEEPING: [Floor; 2] =
    [("epoll", "epoll", Duration::ZERO), ("io_uring", "io_uring", Duration::ZERO)];
/// Longer than a round trip takes, so that the floor never sleeps at QD 1.
const SPIN: Duration = Duration::from_micros(200);
/// These, and floors that poll.
pub(crate) const SLEEPING_OR_NOT: [Floor; 4] =
    [SLEEPING[0], SLEEPING[1], ("epoll awake", "epoll", SPIN), ("io_uring awake", "io_uring", SPIN)];
/// Small reads.
pub(crate) const KIB_4: Load =
    Load { direction: Direction::Read, length: 4096, depth: 32, digest: false, span: 1 << 40 };
/// Large reads.
pub(crate) const KIB_128: Load = Load { length: 128 << 10, depth: 4, ..KIB_4 };

/// The better direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// The target against the better floor, under one load.
#[derive(Clone, Copy)]
pub(crate) struct Contest {
    pub(crate) load: Load,
    pub(crate) connections: u16,
    pub(crate) floors: &'static [Floor],
    /// Each server gets only this many percent of a CPU.
    pub(crate) quota: Option<u32>,
    /// Length of a turn, as a part of the usual time.
    pub(crate) part: f64,
}

impl Default for Contest {
    fn default() -> Contest {
        Contest { load: KIB_4, connections: 1, floors: &SLEEPING, quota: None, part: 1.0 }
    }
}

/// The result of the comparison.
pub(crate) struct AgainstFloor {
    pub(crate) ratios: Rounds,
    /// Medians of all contestants, each with the part of its core that it used, as text.
    pub(crate) figures: String,
}

impl Contest {
    /// Runs all rounds, and compares this figure.
    pub(crate) fn run(
        self,
        bench: &Bench,
        figure: fn(&Tally) -> f64,
        better: Better,
    ) -> Result<AgainstFloor> {
        let mut servers = vec![bench.programs.target(bench.cores, &NULL)?];
        let mut names = vec!["target"];
        let mut missing = String::new();
        for &(name, backend, spin) in self.floors {
            match bench.programs.floor(bench.cores, backend, spin) {
                Ok(server) => {
                    servers.push(server);
                    names.push(name);
                }
                Err(error) => missing = format!("; no floor with {backend}: {error:#}"),
            }
        }
        anyhow::ensure!(servers.len() > 1, "no floor runs{missing}");
        if let Some(percent) = self.quota {
            servers.iter_mut().try_for_each(|server| server.limit(percent))?;
        }
        let mut clients = vec![Client::of_target(&servers[0], self.connections, self.load)?];
        for floor in &servers[1..] {
            clients.push(Client::of_floor(floor, self.connections, self.load)?);
        }
        let tallies = alternate(bench, bench.span.mul_f64(self.part), &mut clients)?;
        drop(clients);
        servers.iter().try_for_each(Server::check_limit)?;
        let medians: Vec<f64> = tallies.iter().map(|tallies| median(tallies, figure)).collect();
        let best = (1..medians.len()).min_by(|&a, &b| match better {
            Better::Less => medians[a].total_cmp(&medians[b]),
            Better::More => medians[b].total_cmp(&medians[a]),
        });
        let best = best.expect("there is a floor");
        let figures: Vec<String> = names
            .iter()
            .zip(&medians)
            .zip(&tallies)
            .map(|((name, value), tallies)| {
                format!("{name} {value:.0} ({:.0} %)", median(tallies, Tally::server_busy) * 100.0)
            })
            .collect();
        let figures = figures.join(", ") + &missing;
        Ok(AgainstFloor { ratios: ratios(&tallies[0], &tallies[best], figure), figures })
    }
}

/// Gives each contestant its turn, round after round; each round starts with the next contestant. Returns the results of the turns
/// by contestant.
pub(crate) fn alternate(
    bench: &Bench,
    span: Duration,
    contestants: &mut [Client<'_>],
) -> Result<Vec<Vec<Tally>>> {
    let mut tallies = vec![Vec::new(); contestants.len()];
    for round in 0..bench.rounds {
        for turn in 0..contestants.len() {
            let who = (round + turn) % contestants.len();
            tallies[who].push(contestants[who].run(span)?);
        }
    }
    Ok(tallies)
}

/// Ratios within the rounds.
pub(crate) fn ratios(ours: &[Tally], theirs: &[Tally], figure: fn(&Tally) -> f64) -> Rounds {
    Rounds::new(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
}

/// The median of the rounds.
pub(crate) fn median(tallies: &[Tally], figure: fn(&Tally) -> f64) -> f64 {
    Rounds::new(tallies.iter().map(figure).collect()).median()
}
