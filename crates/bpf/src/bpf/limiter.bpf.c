// SPDX-License-Identifier: GPL-2.0
/*
 * The marking of a rate limiter: while the backlog of a device is above a threshold, outgoing packets get the CE mark, or
 * incoming ACKs get the ECE flag ("Rethinking TCP test", Figures 2 and 3).
 *
 * Both programs read the present backlog of the device's root queue discipline; HTB and TBF include the backlog of their leaves. The
 * backlog does not include the packet itself, because clsact runs before the queue. A super-segment is marked as a whole.
 */
#include "kernel.h"
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>

struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
} __attribute__((preserve_access_index));

struct Qdisc {
	struct gnet_stats_queue qstats;
} __attribute__((preserve_access_index));

struct net_device {
	struct Qdisc *qdisc;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

void *bpf_cast_to_kern_ctx(void *) __ksym;

/* The settings and the counters of the program; the map has one element. */
struct limiter {
	__u64 packets;   /* inspected */
	__u64 marks;
	__u32 threshold; /* bytes; above it packets are marked */
	__u32 header;    /* bytes before the IP header */
	__u32 flags;     /* used by the agent only */
	__u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct limiter);
} limiter_state SEC(".maps");

#define IP_V4 0x0800
#define IP_V6 0x86dd
#define TCP 6
#define FLAG_SYN 0x02
#define FLAG_ACK 0x10
#define FLAG_ECE 0x40

static __always_inline struct limiter *step(struct __sk_buff *skb, bool *above)
{
	struct sk_buff *kernels = bpf_cast_to_kern_ctx(skb);
	__u32 zero = 0;
	struct limiter *limiter = bpf_map_lookup_elem(&limiter_state, &zero);

	if (limiter)
		*above = kernels->dev->qdisc->qstats.backlog > limiter->threshold;
	return limiter;
}

SEC("tc")
int mark_data(struct __sk_buff *skb)
{
	bool above = false;
	struct limiter *limiter = step(skb, &above);

	if (!limiter)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&limiter->packets, 1);
	/* The helper does not change packets that are not IP or not ECN-capable (RFC 3168). */
	if (above && bpf_skb_ecn_set_ce(skb))
		__sync_fetch_and_add(&limiter->marks, 1);
	return TC_ACT_UNSPEC;
}

/* The offset of the TCP header; 0 if there is none. */
static __always_inline __u32 tcp_at(struct __sk_buff *skb, __u32 header)
{
	__u8 first, protocol;
	__u16 fragment;

	if (skb->protocol == bpf_htons(IP_V4)) {
		if (bpf_skb_load_bytes(skb, header, &first, 1) || bpf_skb_load_bytes(skb, header + 9, &protocol, 1) ||
		    bpf_skb_load_bytes(skb, header + 6, &fragment, 2))
			return 0;
		/* Only the first fragment has the header, whose checksum covers all fragments. */
		if (protocol != TCP || (fragment & bpf_htons(0x3fff)))
			return 0;
		return header + (first & 0xf) * 4;
	}
	if (skb->protocol == bpf_htons(IP_V6)) {
		if (bpf_skb_load_bytes(skb, header + 6, &protocol, 1) || protocol != TCP)
			return 0;
		return header + 40;
	}
	return 0;
}

SEC("tc")
int mark_acks(struct __sk_buff *skb)
{
	bool above = false;
	struct limiter *limiter = step(skb, &above);
	__u8 before[2], after[2];
	__u16 from, to;
	__u32 tcp;

	if (!limiter)
		return TC_ACT_UNSPEC;
	tcp = tcp_at(skb, limiter->header);
	/* Data offset and flags: bytes 12 and 13 of the TCP header. */
	if (!tcp || bpf_skb_load_bytes(skb, tcp + 12, before, 2))
		return TC_ACT_UNSPEC;
	/* On a SYN the flag negotiates ECN. */
	if ((before[1] & (FLAG_ACK | FLAG_SYN)) != FLAG_ACK)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&limiter->packets, 1);
	if (!above || (before[1] & FLAG_ECE))
		return TC_ACT_UNSPEC;
	after[0] = before[0];
	after[1] = before[1] | FLAG_ECE;
	__builtin_memcpy(&from, before, 2);
	__builtin_memcpy(&to, after, 2);
	if (bpf_l4_csum_replace(skb, tcp + 16, from, to, 2) || bpf_skb_store_bytes(skb, tcp + 13, &after[1], 1, 0))
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&limiter->marks, 1);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
