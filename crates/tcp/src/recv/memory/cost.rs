//! The memory of a packet, including the overhead of its buffer.

const PAGE: u64 = 4096;
/// `NET_SKB_PAD`
const PAD: u64 = 64;
/// `sizeof(struct skb_shared_info)`, aligned.
pub(super) const SHARED: u64 = 320;
/// `sizeof(struct sk_buff)`, aligned.
pub(super) const BUFFER: u64 = 256;
/// `SKB_SMALL_HEAD_SIZE`
const SMALL: u64 = 640;
/// `PAGE_ALLOC_COSTLY_ORDER`
const ORDER: u32 = 3;
/// `MAX_SKB_FRAGS`
pub(super) const FRAGMENTS: u64 = 17;

/// The size of the areas from which a sender's data are taken (`SKB_FRAG_PAGE_ORDER`), as a power of two.
const AREA_SHIFT: u32 = 15;

/// The memory of the head of a buffer that holds `n` bytes, and its capacity.
fn head(n: u64) -> (u64, u64) {
    let size = n.next_multiple_of(64) + SHARED;
    let size = if size <= SMALL { SMALL } else { size.next_power_of_two() };
    (size + BUFFER, size - SHARED)
}

/// Returns the memory of a packet of `n` bytes including headers (`truesize`), and the number of bytes that
/// can be appended without further memory.
pub(super) fn cost(n: u64) -> (u64, u64) {
    if PAD + n < PAGE {
        let (cost, room) = head(PAD + n);
        return (cost, room - PAD - n);
    }
    let linear = PAGE - PAD - SHARED;
    let (mut cost, _) = head(PAD + linear);
    let (mut left, mut order) = (n - linear, ORDER);
    while left > 0 {
        while order > 0 && left.next_multiple_of(PAGE) < PAGE << order {
            order -= 1;
        }
        cost += PAGE << order;
        left = left.saturating_sub(PAGE << order);
    }
    (cost, 0)
}

/// Bytes before the payload in a frame of a ring: `struct tpacket2_hdr`, `struct virtio_net_hdr`, and the headers of a segment with
/// timestamps.
const RING_HEADERS: u64 = 32 + 10 + 14 + 52;

/// The pages of a frame that have payload, of which there are `len` bytes.
#[inline]
pub(super) fn ring_pages(len: u64) -> u64 {
    (RING_HEADERS + len).div_ceil(PAGE)
}

/// How many areas end within the `len` bytes from position `start` of the stream, of which the first byte has position 1.
#[expect(clippy::inline_always, reason = "once for each packet")]
#[inline(always)]
pub(super) fn area_ends(start: u64, len: u64) -> u64 {
    ((start + len.max(1) - 2) >> AREA_SHIFT) - ((start - 1) >> AREA_SHIFT)
}
