//! The sessions of this thread: a connection, wherever it is carried, and the IOs that are under way for it.
//!
//! An IO is in the list of its *lane* (its session's IOs in its namespace) from its start to its end. A read that has no memory yet is in
//! the list of its session's waiting reads, too.
//!
//! Whoever waits for some IOs of a lane (another host that preempted this one, an operator who removes the namespace) waits for those
//! that had come by then: so it is enough to note how far that was, and to look at the oldest one that has not ended.
//!
//! ```text
//!   IOs:     17 ─ 19 ─ 23 ─ 24 ─ 30          fences:  (25, A) ─ (28, B)
//!            └ on the device      └ came after both: no fence waits for it
//! ```
//!
//! Holds: a session exists until its last IO has ended, so its IOs always find it.
//! Elsewhere: the start of a session is `handover`, its end `closing`; the waiting for a lane is `fence`.

use super::admission::Admission;
use super::homes::Homes;
use super::reads::ReadPermits;
use super::wires::Wire;
use crate::account::{Account, ConnectionAccount, Permit};
use crate::connections::load::Burden;
use crate::intrusive_list::{Links, List};
use crate::proof::Proof;
use crate::replies::Backlog;
use crate::slab::{Key, Slab};
use auth::psk::Kind;
use nvme::spec::discovery::TransportType;
use nvme::subsystem::Connected;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Instant, TenantId};

/// A connection and its IOs.
pub(super) struct Session {
    /// The connection.
    pub(super) wire: Wire,
    /// The account for data that is read for it, and for replies of controllers.
    pub(super) account: Arc<ConnectionAccount>,
    /// Commands that wait until they may be answered.
    pub(super) backlog: Backlog,
    pub(super) peer: SocketAddr,
    /// Its beginning.
    pub(super) since: Instant,
    /// The subsystem's slot.
    pub(super) subsystem: usize,
    /// The tenant of its host. IOs in a namespace that is a tenant itself do not count for it (`Lane::tenant`).
    pub(super) tenant: TenantId,
    pub(super) admission: Admission,
    /// The controller of this queue.
    controller_id: u16,
    /// 0 is the admin queue.
    pub(super) queue_id: u16,
    /// Whether completions carry credits.
    pub(super) credits: bool,
    /// IOs that have not ended.
    pub(super) ios: usize,
    /// The same by namespace.
    lanes: Lanes,
    /// Reads that wait for room in the connection's budget.
    waiting: List,
    /// Whether it is in the list of sessions with waiting reads.
    pub(super) waits_for_memory: bool,
    /// Permits for read data that the connection has.
    pub(super) read_permits: ReadPermits,
    /// Aborts from it that wait for word of another thread.
    pub(super) aborts: usize,
    /// Its part of the loads of threads.
    pub(super) burdens: Vec<Burden>,
    /// The kind of key by which TLS has proved its host.
    pub(super) secured: Option<Kind>,
    /// The transport of its connection.
    pub(super) transport: TransportType,
    /// Whether its host has proved who it is before the connection came here.
    pub(super) is_proved: bool,
    /// The latest proof of its host on this queue.
    pub(super) proof: Option<Box<Proof>>,
}

impl Session {
    /// A session without a connection, of no controller yet.
    pub(super) fn new(
        since: Instant,
        (peer, tenant, subsystem): (SocketAddr, TenantId, usize),
        admission: Admission,
        account: Arc<ConnectionAccount>,
    ) -> Session {
        Session {
            wire: Wire::NONE,
            account,
            backlog: Backlog::default(),
            peer,
            since,
            subsystem,
            tenant,
            admission,
            controller_id: 0,
            queue_id: 0,
            credits: false,
            ios: 0,
            lanes: Lanes::default(),
            waiting: List::default(),
            waits_for_memory: false,
            read_permits: ReadPermits::default(),
            aborts: 0,
            burdens: Vec::new(),
            secured: None,
            transport: TransportType::Tcp,
            is_proved: false,
            proof: None,
        }
    }

    /// The controller of this queue: its subsystem's slot, and its identifier.
    pub(super) fn controller(&self) -> (usize, u16) {
        (self.subsystem, self.controller_id)
    }

    /// The right to hold `size` bytes that are going to be read for it.
    #[inline]
    pub(super) fn permit_read(&mut self, size: u64) -> Option<Permit> {
        self.read_permits.take(size).or_else(|| self.account.take(Account::Read, size))
    }

    /// Whether reads of it wait for memory.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// The IOs of a connection in one namespace.
struct Lane {
    /// The tenant of IOs that start now.
    tenant: TenantId,
    /// Those that have not ended.
    ios: List,
    /// Fences with the moment up to which they wait, earliest first. A moment is a number of IOs started.
    fences: VecDeque<(u64, Key)>,
    /// IOs that started before this moment were taken back unless they had reached a device.
    refused_before: u64,
}

impl Lane {
    fn new(tenant: TenantId) -> Lane {
        Lane { tenant, ios: List::default(), fences: VecDeque::new(), refused_before: 0 }
    }
}

/// All lanes of a connection: one for each namespace that it has used. A lane keeps its place.
#[derive(Default)]
struct Lanes {
    lanes: Vec<(u32, Lane)>,
    /// Places in `lanes`, by namespace.
    sorted: Vec<u32>,
    /// The place that was asked for last: most connections use one namespace.
    latest: usize,
}

impl Lanes {
    /// The lane of a namespace, if there is one.
    fn get(&mut self, nsid: u32) -> Option<&mut Lane> {
        let place = self.find(nsid).ok()?;
        Some(&mut self.lanes[place].1)
    }

    /// The lane at a place.
    fn at(&mut self, place: usize) -> &mut Lane {
        &mut self.lanes[place].1
    }

    /// The place of a namespace's lane, which is made for `tenant` if there is none.
    #[inline]
    fn place_of(&mut self, nsid: u32, tenant: impl FnOnce() -> TenantId) -> usize {
        if self.lanes.get(self.latest).is_none_or(|(latest, _)| *latest != nsid) {
            self.latest = self.find(nsid).unwrap_or_else(|index| {
                self.sorted.insert(index, self.lanes.len() as u32);
                self.lanes.push((nsid, Lane::new(tenant())));
                self.lanes.len() - 1
            });
        }
        self.latest
    }

    /// All of them, with their namespaces.
    fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.lanes.iter().map(|(nsid, lane)| (*nsid, lane))
    }

    /// The place of a namespace's lane, or where it belongs in `sorted`.
    fn find(&self, nsid: u32) -> Result<usize, usize> {
        let nsid_at = |place: &u32| self.lanes[*place as usize].0;
        self.sorted.binary_search_by_key(&nsid, nsid_at).map(|index| self.sorted[index] as usize)
    }
}

/// See the module.
pub(super) struct Sessions {
    table: Slab<Session>,
    /// The queues of each controller: subsystem and identifier.
    queues_of: HashMap<(usize, u16), Vec<Key>>,
    /// IOs that have started.
    started: u64,
    /// The lists of IOs by session and namespace.
    lane_links: Links,
    /// The lists of reads that wait for memory, by session.
    waiting_links: Links,
    /// Whether a connection has come or gone since statistics were published.
    has_changed: bool,
}

impl Sessions {
    pub(super) fn new() -> Sessions {
        Sessions {
            table: Slab::new(),
            queues_of: HashMap::new(),
            started: 0,
            lane_links: Links::default(),
            waiting_links: Links::default(),
            has_changed: false,
        }
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Session> {
        self.table.get(key)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.table.get_mut(key)
    }

    pub(super) fn insert(&mut self, session: Session) -> Key {
        self.has_changed = true;
        self.table.insert(session)
    }

    /// A connection has come or gone.
    pub(super) fn note_change(&mut self) {
        self.has_changed = true;
    }

    /// Whether any has come or gone since this was asked last.
    #[inline]
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.table.iter().map(|(_, session)| session)
    }

    /// Those that `is_meant` says.
    pub(super) fn find_all(&self, is_meant: impl Fn(&Session) -> bool) -> Vec<Key> {
        self.table.iter().filter(|(_, session)| is_meant(session)).map(|(key, _)| key).collect()
    }

    /// A session is a queue of a controller from now on.
    pub(super) fn on_connected(&mut self, key: Key, connected: &Connected) {
        let session = self.table.get_mut(key).expect("it has just connected");
        session.credits = connected.credits;
        session.controller_id = connected.controller_id;
        session.queue_id = connected.queue_id;
        self.queues_of.entry((session.subsystem, connected.controller_id)).or_default().push(key);
    }

    /// Turns credits in completions of all queues of a controller on or off, and calls `tell` for each queue.
    pub(super) fn set_credits(&mut self, key: Key, is_enabled: bool, mut tell: impl FnMut(Wire)) {
        let Some(session) = self.table.get(key) else { return };
        let controller = (session.subsystem, session.controller_id);
        for queue in self.queues_of.get(&controller).into_iter().flatten() {
            let Some(session) = self.table.get_mut(*queue) else { continue };
            session.credits = is_enabled;
            tell(session.wire);
        }
    }

    /// Takes out a session whose connection and IOs have ended.
    pub(super) fn remove_if_done(&mut self, key: Key) -> Option<Session> {
        self.table.get(key).filter(|session| session.wire.is_gone() && session.ios == 0)?;
        let session = self.table.remove(key)?;
        if let Entry::Occupied(mut queues) = self.queues_of.entry((session.subsystem, session.controller_id))
        {
            queues.get_mut().retain(|queue| *queue != key);
            if queues.get().is_empty() {
                queues.remove();
            }
        }
        Some(session)
    }

    /// Starts an IO of a session in a namespace, which is a tenant itself if `homes` say so: that is asked at the first IO. Returns its tenant, the place of
    /// its lane, and the number of IOs started before it.
    #[inline]
    pub(super) fn begin_io(
        &mut self,
        key: Key,
        (nsid, homes): (u32, &Homes),
        io: Key,
    ) -> (TenantId, u32, u64) {
        let session = self.table.get_mut(key).expect("its command has just come");
        let tenant = || homes.tenant_of(session.subsystem, nsid).unwrap_or(session.tenant);
        let (place, sequence) = (session.lanes.place_of(nsid, tenant), self.started);
        self.started += 1;
        session.ios += 1;
        let lane = session.lanes.at(place);
        self.lane_links.push(&mut lane.ios, io);
        (lane.tenant, place as u32, sequence)
    }

    /// A namespace of a subsystem is that tenant from now on, or none: for IOs that start now.
    pub(super) fn set_tenant(&mut self, subsystem: usize, nsid: u32, tenant: Option<TenantId>) {
        let sessions = self.table.values_mut().filter(|session| session.subsystem == subsystem);
        for session in sessions {
            let of_host = session.tenant;
            if let Some(lane) = session.lanes.get(nsid) {
                lane.tenant = tenant.unwrap_or(of_host);
            }
        }
    }

    /// The longest waiting reads of a session, at most `count`.
    pub(super) fn waiting_reads(&self, session: &Session, count: usize) -> impl Iterator<Item = Key> {
        self.waiting_links.iter(&session.waiting).take(count)
    }

    /// Ends an IO of a session. Returns the session, and whether fences wait in its lane.
    #[inline]
    pub(super) fn end_io(&mut self, key: Key, lane: u32, io: Key) -> (&mut Session, bool) {
        let session = self.table.get_mut(key).expect("a session outlives its IOs");
        session.ios -= 1;
        let lane = session.lanes.at(lane as usize);
        self.lane_links.remove(&mut lane.ios, io);
        let is_fenced = !lane.fences.is_empty();
        (session, is_fenced)
    }

    /// Adds a read that waits for memory. Returns its session.
    pub(super) fn push_waiting(&mut self, key: Key, io: Key) -> &mut Session {
        let session = self.table.get_mut(key).expect("a session outlives its IOs");
        self.waiting_links.push(&mut session.waiting, io);
        session
    }

    /// The read of a session that has waited for memory longest, if its host is to be answered.
    #[inline]
    pub(super) fn first_waiting(&mut self, key: Key) -> Option<(&mut Session, Key)> {
        let session = self.table.get_mut(key).filter(|session| session.wire.is_open())?;
        let io = self.waiting_links.first(&session.waiting)?;
        Some((session, io))
    }

    /// A read does not wait for memory any more.
    pub(super) fn stop_waiting(&mut self, key: Key, io: Key) {
        let session = self.table.get_mut(key).expect("a session outlives its IOs");
        self.waiting_links.remove(&mut session.waiting, io);
    }

    /// All IOs of a session, by namespace, oldest first.
    pub(super) fn ios_of(&self, key: Key) -> impl Iterator<Item = Key> {
        let lanes = self.table.get(key).into_iter().flat_map(|session| session.lanes.iter());
        lanes.flat_map(|(_, lane)| self.lane_links.iter(&lane.ios))
    }

    /// The lanes of a subsystem's sessions, in one namespace or in all.
    pub(super) fn lanes_of(&self, subsystem: usize, nsid: Option<u32>) -> Vec<(Key, u32)> {
        let of_subsystem = self.table.iter().filter(|(_, session)| session.subsystem == subsystem);
        let lanes =
            of_subsystem.flat_map(|(key, session)| session.lanes.iter().map(move |(nsid, _)| (key, nsid)));
        lanes.filter(|(_, lane)| nsid.is_none_or(|nsid| *lane == nsid)).collect()
    }

    /// Now, as a number of IOs started.
    pub(super) fn moment(&self) -> u64 {
        self.started
    }

    /// Returns IOs of a lane that have started by now and were not returned by an earlier call, oldest first. `is_since` says whether an
    /// IO started at that moment or later.
    pub(super) fn refuse(&mut self, key: Key, nsid: u32, is_since: impl Fn(Key, u64) -> bool) -> Vec<Key> {
        let Some(lane) = lane(&mut self.table, key, nsid) else { return Vec::new() };
        let before = std::mem::replace(&mut lane.refused_before, self.started);
        let newest_first =
            std::iter::successors(self.lane_links.last(&lane.ios), |io| self.lane_links.before(*io));
        let mut ios: Vec<Key> = newest_first.take_while(|io| is_since(*io, before)).collect();
        ios.reverse();
        ios
    }

    /// Adds a fence that waits for IOs of a lane that started before `moment`. Returns false if there are none.
    pub(super) fn fence(&mut self, key: Key, nsid: u32, moment: u64, fence: Key) -> bool {
        match lane(&mut self.table, key, nsid) {
            Some(lane) if !lane.ios.is_empty() => {
                lane.fences.push_back((moment, fence));
                true
            }
            _ => false,
        }
    }

    /// Takes out the first fence of a lane if all that it waits for there has ended. `is_before` says whether an IO started before that
    /// moment.
    pub(super) fn next_fallen(
        &mut self,
        key: Key,
        nsid: u32,
        is_before: impl FnOnce(Key, u64) -> bool,
    ) -> Option<Key> {
        let lane = lane(&mut self.table, key, nsid)?;
        let &(moment, fence) = lane.fences.front()?;
        if self.lane_links.first(&lane.ios).is_some_and(|oldest| is_before(oldest, moment)) {
            return None;
        }
        lane.fences.pop_front();
        Some(fence)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The IO of a lane that has started last.
    #[cfg(test)]
    pub(super) fn newest_io(&mut self, key: Key, nsid: u32) -> Option<Key> {
        self.lane_links.last(&lane(&mut self.table, key, nsid)?.ios)
    }
}

/// The lane of a session in a namespace, if it has one.
fn lane(table: &mut Slab<Session>, key: Key, nsid: u32) -> Option<&mut Lane> {
    table.get_mut(key)?.lanes.get(nsid)
}
