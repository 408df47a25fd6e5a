/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fields of a TCP sender that the shim reads (Linux include/linux/tcp.h, include/net/tcp.h, include/net/inet_connection_sock.h). The
 * names are those of Linux; the offsets are those of the running kernel.
 */
#ifndef TCPASSAY_TCP_H
#define TCPASSAY_TCP_H

#include "kernel.h"

#define CORE __attribute__((preserve_access_index))

struct netns_ipv4 {
	__u8 sysctl_tcp_slow_start_after_idle;
	int sysctl_tcp_pacing_ss_ratio;
	int sysctl_tcp_pacing_ca_ratio;
} CORE;

struct net {
	struct netns_ipv4 ipv4;
} CORE;

typedef struct {
	struct net *net;
} CORE possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	possible_net_t skc_net;
} CORE;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
} CORE;

struct inet_connection_sock {
	__u32 icsk_rto;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
} CORE;

struct minmax_sample {
	__u32 v;
} CORE;

struct minmax {
	struct minmax_sample s[3];
} CORE;

struct tcp_sock {
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 prr_out;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 lsndtime;
	__u32 srtt_us;
	__u32 mss_cache;
	__u64 bytes_sent;
	__u8 is_cwnd_limited : 1;
	__u8 chrono_type : 2;
	__u8 ecn_flags;
	struct minmax rtt_min;
} CORE;

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	long rtt_us;
	bool is_app_limited;
} CORE;

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

/* The members that the shim sets. libbpf finds them by name; other members of the kernel's structure stay empty. The loader writes the
 * first two members and depends on their positions here. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
};

/* include/uapi/linux/tcp.h */
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
/* include/net/tcp.h, include/net/inet_connection_sock.h, include/linux/tcp.h, include/net/sock.h */
#define CA_ACK_ECE 4
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
#define TCP_ECN_DEMAND_CWR 4
#define TCP_CHRONO_RWND_LIMITED 2
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#endif
