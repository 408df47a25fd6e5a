//! The connections of a capture by their ends and by their ways through interfaces and tunnels.

use crate::tunnel::{Around, Tunnels};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Number of tunnels that are told apart.
pub(crate) const MOST_TUNNELS: usize = 1 << 16;
/// Number of ways on which the same ends are told apart.
const MOST_WAYS: usize = 64;
/// Numbers of ways below this are those of capture points, without a tunnel.
const FIRST_TUNNEL: u32 = 1 << 16;
/// The end of a list of connections.
const NONE: u32 = u32::MAX;
/// Number of entries of `Table::latest`.
const LATEST: usize = 256;

/// Both ends of a connection. An IPv4 address is mapped to one of IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Ends {
    addresses: [[u8; 16]; 2],
    ports: [u16; 2],
}

impl Ends {
    #[inline]
    pub fn of(ends: [SocketAddr; 2]) -> Ends {
        let octets = |end: SocketAddr| match end.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        Ends { addresses: ends.map(octets), ports: ends.map(|end| end.port()) }
    }

    #[inline]
    pub fn swapped(self) -> Ends {
        let ([a, b], [p, q]) = (self.addresses, self.ports);
        Ends { addresses: [b, a], ports: [q, p] }
    }
}

impl Ends {
    pub fn sockets(self) -> [SocketAddr; 2] {
        let socket = |place: usize| {
            let address = Ipv6Addr::from(self.addresses[place]).to_canonical();
            SocketAddr::new(address, self.ports[place])
        };
        [socket(0), socket(1)]
    }
}

/// A way that packets take: a capture point, and the tunnels there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way(u32);

/// Ways through tunnels.
#[derive(Default)]
pub(crate) struct Ways {
    numbers: BTreeMap<(u32, Tunnels), u32>,
    /// The capture point and the tunnels, with the ends of the first packet.
    known: Vec<(u32, Around)>,
    last: Option<(u32, Tunnels, Way)>,
}

impl Ways {
    /// The way of a packet at a capture point; `None` when there are too many.
    #[inline]
    pub fn number(&mut self, point: u32, around: Option<&Around>) -> Option<Way> {
        match around {
            None => Some(Way(point)),
            Some(around) => self.tunnelled(point, around),
        }
    }

    fn tunnelled(&mut self, point: u32, around: &Around) -> Option<Way> {
        if let Some((last, tunnels, way)) = self.last
            && last == point
            && tunnels == around.tunnels
        {
            return Some(way);
        }
        let key = (point, around.tunnels);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.known.len() == MOST_TUNNELS => return None,
            None => {
                let number = FIRST_TUNNEL + u32::try_from(self.known.len()).expect("bounded");
                self.known.push((point, *around));
                self.numbers.insert(key, number);
                number
            }
        };
        self.last = Some((point, around.tunnels, Way(number)));
        Some(Way(number))
    }

    /// The capture point of a way.
    pub fn point(&self, way: Way) -> u32 {
        self.of(way).map_or(way.0, |(point, _)| *point)
    }

    /// The tunnels of a way.
    pub fn around(&self, way: Way) -> Option<&Around> {
        self.of(way).map(|(_, around)| around)
    }

    fn of(&self, way: Way) -> Option<&(u32, Around)> {
        self.known.get(way.0.checked_sub(FIRST_TUNNEL)? as usize)
    }

    /// Whether packets on the second way may answer those on the first one: both are at the same point, and one is in a tunnel that the
    /// other one does not have (GTP-U and ERSPAN have a number for each direction, and replies of some load balancers have no tunnel).
    /// The better answers come through the same ends.
    fn answers(&self, way: Way, answer: Way) -> Option<bool> {
        let ends = |way| self.around(way).map(|around| around.ends);
        (self.point(way) == self.point(answer)).then(|| match (ends(way), ends(answer)) {
            (Some([a, b]), Some([c, d])) => (a, b) == (d, c),
            _ => false,
        })
    }
}

/// An entry of the table.
pub(crate) struct Entry<T> {
    ends: Ends,
    /// The way of the packets of each end.
    ways: [Way; 2],
    /// The next entry of the same ends on another way.
    next: u32,
    pub state: T,
}

impl<T> Entry<T> {
    /// The end that opened the connection or spoke first, and the other.
    pub fn ends(&self) -> [SocketAddr; 2] {
        self.ends.sockets()
    }

    /// The way of the packets of end `from`.
    pub fn way(&self, from: usize) -> Way {
        self.ways[from]
    }
}

/// What the table has for a packet.
pub(crate) enum Place {
    /// A connection, and the end that sends the packet.
    Known(u32, usize),
    /// None; [`Table::open`] makes one.
    New,
    /// None, and there are too many ways between these ends.
    TooMany,
}

/// The connections.
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    /// The first entry of each pair of ends.
    heads: HashTable<u32>,
    random: RandomState,
    /// The latest entries by a cheap hash: a wrong one only causes a search.
    latest: Box<[u32; LATEST]>,
}

impl<T> Table<T> {
    pub fn new() -> Table<T> {
        Table {
            entries: Vec::new(),
            heads: HashTable::new(),
            random: RandomState::new(),
            latest: Box::new([NONE; LATEST]),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    pub fn entry(&mut self, place: u32) -> &mut Entry<T> {
        &mut self.entries[place as usize]
    }

    pub fn entries_mut(&mut self) -> &mut [Entry<T>] {
        &mut self.entries
    }

    /// Both directions have the same slot.
    #[inline]
    fn slot(ends: &Ends, way: Way) -> usize {
        (usize::from(ends.ports[0] ^ ends.ports[1]) ^ (way.0 as usize).wrapping_mul(29)) % LATEST
    }

    fn hash(random: &RandomState, ends: &Ends) -> u64 {
        random.hash_one((*ends).min(ends.swapped()))
    }

    /// The end of an entry that sends from the first of `ends`, if the entry is of these ends.
    #[inline]
    fn from(entry: &Entry<T>, ends: &Ends) -> Option<usize> {
        if entry.ends == *ends {
            Some(0)
        } else if entry.ends == ends.swapped() {
            Some(1)
        } else {
            None
        }
    }

    /// The connection of a packet between `ends` on a way. `is_silent` tells whether an end of an entry has sent nothing yet: if it answers
    /// on another way, the packet belongs to the connection all the same.
    #[inline]
    pub fn find(
        &mut self,
        ends: &Ends,
        way: Way,
        ways: &Ways,
        is_silent: impl Fn(&T, usize) -> bool,
    ) -> Place {
        let slot = Self::slot(ends, way);
        if let Some(entry) = self.entries.get(self.latest[slot] as usize)
            && let Some(from) = Self::from(entry, ends)
            && entry.ways[from] == way
        {
            return Place::Known(self.latest[slot], from);
        }
        let found = self.search(ends, way, ways, is_silent);
        if let Place::Known(place, _) = found {
            self.latest[slot] = place;
        }
        found
    }

    fn search(&mut self, ends: &Ends, way: Way, ways: &Ways, is_silent: impl Fn(&T, usize) -> bool) -> Place {
        let hash = Self::hash(&self.random, ends);
        let entries = &self.entries;
        let is_head = |place: &u32| Self::from(&entries[*place as usize], ends).is_some();
        let Some(head) = self.heads.find(hash, is_head).copied() else { return Place::New };
        let (mut answered, mut number, mut place): (Option<(u32, usize, bool)>, _, _) = (None, 0, head);
        while let Some(entry) = self.entries.get(place as usize) {
            let from = Self::from(entry, ends).expect("all entries of a list have the same ends");
            if entry.ways[from] == way {
                return Place::Known(place, from);
            }
            if is_silent(&entry.state, from)
                && let Some(same_ends) = ways.answers(entry.ways[1 - from], way)
                && answered.is_none_or(|(_, _, better)| same_ends && !better)
            {
                answered = Some((place, from, same_ends));
            }
            number += 1;
            place = entry.next;
        }
        match answered {
            Some((place, from, _)) => {
                self.entries[place as usize].ways[from] = way;
                Place::Known(place, from)
            }
            None if number < MOST_WAYS => Place::New,
            None => Place::TooMany,
        }
    }

    /// The latest connection of these ends that `fits`, and its end that is the first of `sockets`.
    pub fn newest(
        &self,
        sockets: [SocketAddr; 2],
        fits: impl Fn(&Entry<T>, usize) -> bool,
    ) -> Option<(u32, usize)> {
        let ends = Ends::of(sockets);
        let is_head = |place: &u32| Self::from(&self.entries[*place as usize], &ends).is_some();
        let mut place = *self.heads.find(Self::hash(&self.random, &ends), is_head)?;
        while let Some(entry) = self.entries.get(place as usize) {
            let from = Self::from(entry, &ends).expect("all entries of a list have the same ends");
            if fits(entry, from) {
                return Some((place, from));
            }
            place = entry.next;
        }
        None
    }

    /// Adds a connection, whose first end is the first of `ends`. It replaces that of the same ends on the same way.
    pub fn open(&mut self, ends: Ends, way: Way, state: T) -> u32 {
        let place = u32::try_from(self.entries.len()).expect("fewer than 2^32 connections");
        let hash = Self::hash(&self.random, &ends);
        let entries = &self.entries;
        let is_head = |place: &u32| Self::from(&entries[*place as usize], &ends).is_some();
        let mut next = NONE;
        if let Some(head) = self.heads.find_mut(hash, is_head) {
            next = std::mem::replace(head, place);
        } else {
            let (entries, random) = (&self.entries, &self.random);
            let again = |place: &u32| Self::hash(random, &entries[*place as usize].ends);
            self.heads.insert_unique(hash, place, again);
        }
        self.entries.push(Entry { ends, ways: [way; 2], next, state });
        self.unlink(place, way);
        let slot = Self::slot(&ends, way);
        self.latest[slot] = place;
        place
    }

    /// Takes the earlier connection on this way out of the list that begins with `first`.
    fn unlink(&mut self, first: u32, way: Way) {
        let mut before = first;
        loop {
            let place = self.entries[before as usize].next;
            let Some(entry) = self.entries.get(place as usize) else { return };
            if entry.ways.contains(&way) {
                self.entries[before as usize].next = entry.next;
                return;
            }
            before = place;
        }
    }
}
