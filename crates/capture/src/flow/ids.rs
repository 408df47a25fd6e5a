//! The identifications of the packets of an end (IPv4), where the host counts them: they show the order in which packets were sent.

/// The largest step of a counter. One that counts for all connections of a host, or for each segment of a large one (segmentation offload),
/// advances by more than one. A step of one in the other byte order is one of 256.
const FARTHEST: i16 = 255;
/// Steps forward without another one after which a host counts: that random numbers make them has a probability of 2^-16.
const ENOUGH: u8 = 2;

/// The identifications of the packets of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ids {
    last: u16,
    /// Steps forward up to now, at most [`ENOUGH`], in network byte order and in the other one (Windows before Vista counts so).
    forward: [u8; 2],
}

/// How many steps a number is ahead of another one; `swapped`: in the other byte order.
fn ahead(id: u16, other: u16, swapped: bool) -> i16 {
    let order = |id: u16| if swapped { id.swap_bytes() } else { id };
    order(id).wrapping_sub(order(other)).cast_signed()
}

impl Ids {
    /// A packet passes. Steps back are reordering; hosts that do not count have large ones, or always 0.
    #[inline]
    pub fn passed(&mut self, id: u16) {
        if id == 0 {
            return;
        }
        let last = std::mem::replace(&mut self.last, id);
        if last == 0 || last == id {
            return;
        }
        for (forward, swapped) in self.forward.iter_mut().zip([false, true]) {
            *forward = match ahead(id, last, swapped) {
                1..=FARTHEST => (*forward + 1).min(ENOUGH),
                step if step.unsigned_abs() <= FARTHEST.unsigned_abs() => *forward,
                _ => 0,
            };
        }
    }

    /// Whether the host counts its packets.
    pub fn count(self) -> bool {
        self.forward.contains(&ENOUGH)
    }

    /// By how many packets `id` was sent after `other`, negative if before; `None` if the host does not count, or if they are equal.
    pub fn ahead(self, id: u16, other: u16) -> Option<i16> {
        let order = [false, true].into_iter().zip(self.forward).find(|(_, forward)| *forward == ENOUGH)?;
        let ahead = ahead(id, other, order.0);
        (id != 0 && other != 0 && ahead != 0).then_some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ids: &[u16]) -> Ids {
        let mut made = Ids::default();
        for id in ids {
            made.passed(*id);
        }
        made
    }

    #[test]
    fn a_host_counts_after_two_steps_forward() {
        assert!(!after(&[7, 8]).count());
        assert!(after(&[7, 8, 9]).count());
        assert!(after(&[65_530, 65_533, 2, 4, 90]).count());
        // Steps back of late packets do not matter; large ones do.
        assert!(after(&[7, 8, 10, 9, 11, 12, 13]).count());
        assert!(!after(&[7, 8, 9, 10, 11, 20_000, 20_001]).count());
        assert!(!after(&[9; 10]).count());
        assert!(!after(&[0; 10]).count());
    }

    #[test]
    fn the_order_of_sending_is_that_of_the_counter_in_its_byte_order() {
        let network = after(&[7, 8, 9, 10, 11]);
        assert_eq!(network.ahead(12, 9), Some(3));
        assert_eq!(network.ahead(65_535, 2), Some(-3));
        assert_eq!(network.ahead(9, 9), None);
        assert_eq!(network.ahead(0, 9), None);
        // 0x00ff, 0x0001 and so on: a little-endian counter at 0xff00, 0x0100 + 0xff00, ...
        let little: Vec<u16> = (250..260_u16).map(u16::swap_bytes).collect();
        assert_eq!(after(&little).ahead(259_u16.swap_bytes(), 255_u16.swap_bytes()), Some(4));
        assert_eq!(after(&[7, 900, 3]).ahead(8, 9), None);
    }
}
