/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The data path of a congestion controller in user space: the program reports the events of each connection, and applies the
 * decisions of user space.
 *
 * Reports go through a ring buffer: a record for each event of the interface of `cc` (src/record.rs has the same structure). Decisions
 * come through a map: the newest control of each connection, which is applied at the next ACK. If the kernel needs a value before
 * user space can answer, a fixed rule determines it. Each such rule is marked RULE and holds until a control arrives that takes the
 * event into account.
 *
 * Sources: the callbacks and their order, Linux net/ipv4/tcp_input.c (tcp_ack); the window in recovery, RFC 9937 (PRR), which
 * the kernel does not compute for a controller with cong_control; the pacing rate, tcp_update_pacing_rate in the same
 * file, for the same reason; the ACKs of the receiver to CE marks, RFC 8257 section 3.2 and Linux net/ipv4/tcp_dctcp.h.
 *
 * Unlike the project, this file is GPL-2.0: it calls functions that the kernel offers to GPL programs only.
 */
#include "tcp.h"

char _license[] SEC("license") = "GPL";

/* The receiver acknowledges each change of the CE mark at once, as DCTCP does. The loader sets this value. */
const volatile __u8 dctcp_echo = 0;

enum kind { ESTABLISHED = 1, ACK, ENTER, LEAVE, TIMEOUT, RESUME, CLOSED };
enum limited { BY_CWND, BY_APP, BY_RWND };
enum {
	F_MARKED = 1, /* ENTER: caused by a CE mark */
	F_SPURIOUS = 2, /* LEAVE: the reduction was spurious */
	F_AGAIN = 4, /* TIMEOUT: the same data timed out before */
	F_APP_LIMITED = 8, /* ACK: the rate sample is application-limited */
	F_LOCAL = 16, /* ENTER: the sender's own queue dropped */
};

/* An event. Windows and counts are in packets unless another unit is given. */
struct record {
	__u64 at; /* ns, CLOCK_MONOTONIC */
	__u64 number; /* of the event in its connection, from 1; numbers are missing if the ring was full */
	__u64 answered; /* number of the event that the control in force answers; 0 without one */
	__u64 sent; /* payload bytes sent so far, with retransmissions */
	__u32 connection;
	__u8 kind;
	__u8 state; /* TCP_CA_*, after the event */
	__u8 limited;
	__u8 flags;
	__u32 mss; /* bytes */
	__u32 cwnd; /* in force */
	__u32 ssthresh; /* in force */
	__u32 flight; /* pipe of RFC 6675 */
	__u32 outstanding; /* bytes: sent and not cumulatively acknowledged */
	__u32 srtt; /* us */
	__u32 min_rtt; /* us; all ones without a sample */
	__u32 round;
	__u32 acked; /* bytes */
	__u32 delivered;
	__u32 lost;
	__u32 marked;
	__s32 rtt; /* us; negative without a sample */
	__u32 rate_delivered; /* over rate_interval */
	__s32 rate_interval; /* us; not positive without a sample */
	__u32 idle; /* ticks */
	__u32 rto; /* ticks */
	__u32 initial; /* initial window */
	__u32 ports; /* local, then remote */
	__u32 local; /* IPv4 addresses, network order */
	__u32 remote;
	__u32 reserved;
};

struct control {
	__u64 answers; /* number of the newest event that it takes into account */
	__u64 pacing; /* bytes/s; 0 for the kernel's rule */
	__u32 cwnd;
	__u32 ssthresh;
	__u32 on_loss; /* ssthresh if a loss is detected now */
	__u32 on_mark; /* ssthresh if a CE mark is reported now */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

/* Counters, which the loader reads. */
struct {
	__u64 missed; /* records that were lost because the ring was full */
	__u64 connections; /* so far */
} counts;

/* The state in the socket (icsk_ca_priv, 104 bytes). */
struct connection {
	__u64 number; /* of the last event */
	__u64 barrier; /* a control that does not take this event into account is outdated */
	__u64 answered;
	__u32 id; /* from 1; 0 during the handshake, when the kernel already calls the program */
	__u32 initial;
	__u32 una, delivered, delivered_ce, lost; /* after the last ACK */
	__u32 round, round_edge;
	__u32 prr_delivered;
	__u32 rcv_nxt; /* before the present segment */
	__u8 ece; /* the present ACK has the ECE flag */
	__u8 undone; /* the present recovery is undone */
	__u8 ce; /* the last segment received had CE */
};

static __always_inline struct connection *connection(struct sock *sk)
{
	return (void *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

/* The newest control of the connection. */
static __always_inline struct control *control_of(const struct connection *c)
{
	__u32 id = c->id;

	return bpf_map_lookup_elem(&controls, &id);
}

static __always_inline __u8 state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
}

static __always_inline __u32 flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

static __always_inline bool reducing(__u8 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

/* A record with the fields that all events have; NULL before the connection is established, or if the ring is full (which is counted).
 * An event that the program has handled by a RULE is a barrier for controls that do not take it into account. */
static __always_inline struct record *begin(struct sock *sk, enum kind kind, __u8 state, bool barrier)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	struct record *r;

	if (!c->id)
		return 0;
	c->number++;
	if (barrier)
		c->barrier = c->number;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&counts.missed, 1);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->at = bpf_ktime_get_ns();
	r->number = c->number;
	r->answered = c->answered;
	r->sent = tp->bytes_sent;
	r->connection = c->id;
	r->kind = kind;
	r->state = state;
	r->limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)			   ? BY_CWND
		     : BPF_CORE_READ_BITFIELD(tp, chrono_type) == TCP_CHRONO_RWND_LIMITED ? BY_RWND
											   : BY_APP;
	r->mss = tp->mss_cache;
	r->cwnd = tp->snd_cwnd;
	r->ssthresh = tp->snd_ssthresh;
	r->flight = flight(tp);
	r->outstanding = tp->snd_nxt - tp->snd_una;
	r->srtt = tp->srtt_us >> 3;
	r->min_rtt = tp->rtt_min.s[0].v;
	r->round = c->round;
	r->rtt = -1;
	r->rate_interval = -1;
	r->initial = c->initial;
	return r;
}

static __always_inline void end(struct record *r)
{
	if (r)
		bpf_ringbuf_submit(r, 0);
}

static __always_inline void whose(struct sock *sk, struct record *r)
{
	r->ports = (__u32)sk->__sk_common.skc_num << 16 | bpf_ntohs(sk->__sk_common.skc_dport);
	r->local = sk->__sk_common.skc_rcv_saddr;
	r->remote = sk->__sk_common.skc_daddr;
}

SEC("struct_ops")
void BPF_PROG(ta_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	struct record *r;

	c->number = 0;
	c->barrier = 0;
	c->answered = 0;
	c->id = __sync_fetch_and_add(&counts.connections, 1) + 1;
	c->initial = tp->snd_cwnd;
	c->una = tp->snd_una;
	c->delivered = tp->delivered;
	c->delivered_ce = tp->delivered_ce;
	c->lost = tp->lost;
	c->round = 0;
	c->round_edge = tp->delivered;
	c->prr_delivered = 0;
	c->rcv_nxt = tp->rcv_nxt;
	c->ece = 0;
	c->undone = 0;
	c->ce = 0;
	r = begin(sk, ESTABLISHED, state(sk), false);
	if (r)
		whose(sk, r);
	end(r);
}

SEC("struct_ops")
void BPF_PROG(ta_release, struct sock *sk)
{
	struct record *r = begin(sk, CLOSED, state(sk), false);

	if (r)
		whose(sk, r);
	end(r);
}

SEC("struct_ops")
__u32 BPF_PROG(ta_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	struct control *control = control_of(c);
	__u32 half = tp->snd_cwnd >> 1;

	/* RULE: the reduced window that the controller has announced; half of the window without a control. */
	if (!control)
		return half > 2 ? half : 2;
	return c->ece && !tp->lost_out ? control->on_mark : control->on_loss;
}

SEC("struct_ops")
__u32 BPF_PROG(ta_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);

	if (state(sk) > TCP_CA_Disorder) {
		/* The kernel then leaves the recovery. */
		c->undone = 1;
	} else {
		struct record *r = begin(sk, LEAVE, state(sk), true);

		if (r)
			r->flags = F_SPURIOUS;
		end(r);
	}
	/* RULE: the window before the reduction (tcp_reno_undo_cwnd). */
	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

SEC("struct_ops")
void BPF_PROG(ta_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	__u8 old = state(sk);
	struct record *r;

	if (new_state == TCP_CA_Loss) {
		/* RULE: one packet, which the kernel has already set (RFC 5681). */
		c->undone = 0;
		r = begin(sk, TIMEOUT, new_state, true);
		if (r && ((struct inet_connection_sock *)sk)->icsk_retransmits)
			r->flags = F_AGAIN;
		end(r);
	} else if (reducing(new_state)) {
		if (reducing(old))
			return;
		/* RULE: proportional rate reduction towards ssthresh (below). */
		c->undone = 0;
		c->prr_delivered = 0;
		r = begin(sk, ENTER, new_state, true);
		if (r && new_state == TCP_CA_CWR)
			r->flags = c->ece ? F_MARKED : F_LOCAL;
		end(r);
	} else if (old > TCP_CA_Disorder) {
		/* RULE: at the end of a recovery the window is ssthresh, unless the recovery was undone (tcp_end_cwnd_reduction). */
		if (reducing(old) && !c->undone)
			tp->snd_cwnd = tp->snd_ssthresh;
		r = begin(sk, LEAVE, new_state, true);
		if (r && c->undone)
			r->flags = F_SPURIOUS;
		end(r);
		c->undone = 0;
	}
}

/* Sending resumes after an idle time of more than an RTO. */
static __always_inline void resume(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	__u32 rto = ((struct inet_connection_sock *)sk)->icsk_rto, kept;
	__s32 idle = (__u32)bpf_jiffies64() - tp->lsndtime;
	struct record *r;

	if (idle <= (__s32)rto || tp->packets_out > 1 || !sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
		return;
	r = begin(sk, RESUME, state(sk), true);
	if (r) {
		r->idle = idle;
		r->rto = rto;
	}
	end(r);
	/* RULE: the restart window; ssthresh is at least three quarters of the old window (RFC 5681 section 4.1, RFC 2861). */
	if (tp->snd_cwnd > c->initial) {
		kept = tp->snd_cwnd - (tp->snd_cwnd >> 2);
		if (tp->snd_ssthresh < kept)
			tp->snd_ssthresh = kept;
		tp->snd_cwnd = c->initial;
	}
}

/* Sets the ECE flag of the following ACKs by the CE mark of the last segments. */
static __always_inline void echo(struct tcp_sock *tp, __u8 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops")
void BPF_PROG(ta_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	__u8 ce = event == CA_EVENT_ECN_IS_CE;

	if (event == CA_EVENT_TX_START)
		resume(sk);
	if (!dctcp_echo || !(ce || event == CA_EVENT_ECN_NO_CE))
		return;
	if (c->ce != ce) {
		/* The segments before have the other mark: the receiver first acknowledges them, and then this segment at once. */
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, c->ce);
			bpf_tcp_send_ack(tp, c->rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	c->rcv_nxt = tp->rcv_nxt;
	c->ce = ce;
	echo(tp, ce);
}

SEC("struct_ops")
void BPF_PROG(ta_in_ack_event, struct sock *sk, __u32 flags)
{
	connection(sk)->ece = flags & CA_ACK_ECE ? 1 : 0;
}

/* RFC 9937: the window in the present recovery. `delivered` and `lost` are the counts of this ACK. */
static __always_inline void reduce(struct tcp_sock *tp, struct connection *c, __u32 delivered, __u32 lost, bool advanced)
{
	__u32 pipe = flight(tp), prior = tp->prior_cwnd;
	__s32 send;

	if (!delivered || !prior)
		return;
	c->prr_delivered += delivered;
	if (pipe > tp->snd_ssthresh) {
		send = ((__u64)tp->snd_ssthresh * c->prr_delivered + prior - 1) / prior - tp->prr_out;
	} else {
		send = c->prr_delivered - tp->prr_out;
		if (send < (__s32)delivered)
			send = delivered;
		/* The ACK advances snd_una and no packet is newly lost: slow start up to ssthresh. */
		if (advanced && !lost)
			send++;
		if (send > (__s32)(tp->snd_ssthresh - pipe))
			send = tp->snd_ssthresh - pipe;
	}
	/* The window always permits the first retransmission. */
	if (send < (tp->prr_out ? 0 : 1))
		send = tp->prr_out ? 0 : 1;
	tp->snd_cwnd = pipe + send > 0 ? pipe + send : 1;
}

/* The pacing rule of Linux: a percentage of the window per round trip. The rate also determines the size of super-segments and the limit
 * of TCP small queues; therefore it is computed even without pacing. */
static __always_inline void pace(struct sock *sk, struct tcp_sock *tp, __u64 asked)
{
	struct netns_ipv4 *ipv4 = &sk->__sk_common.skc_net.net->ipv4;
	__u64 rate = asked;

	if (!asked) {
		__u32 window = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
		__u32 ratio = tp->snd_cwnd < tp->snd_ssthresh / 2 ? ipv4->sysctl_tcp_pacing_ss_ratio
								  : ipv4->sysctl_tcp_pacing_ca_ratio;

		rate = (__u64)tp->mss_cache * (1000000 / 100 << 3) * ratio * window;
		if (tp->srtt_us)
			rate /= tp->srtt_us;
	} else if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
	}
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

SEC("struct_ops")
void BPF_PROG(ta_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct connection *c = connection(sk);
	struct control *control = control_of(c);
	__u32 acked = tp->snd_una - c->una, delivered = tp->delivered - c->delivered;
	__u32 marked = tp->delivered_ce - c->delivered_ce, lost = tp->lost - c->lost;
	bool current = control && control->answers >= c->barrier, ece = c->ece;
	__u8 now = state(sk);
	struct record *r;

	if (!c->id)
		return;
	c->una = tp->snd_una;
	c->delivered = tp->delivered;
	c->delivered_ce = tp->delivered_ce;
	c->lost = tp->lost;
	c->ece = 0;
	if (rs->delivered >= 0 && (__s32)(rs->prior_delivered - c->round_edge) >= 0) {
		c->round++;
		c->round_edge = tp->delivered;
	}
	if (current) {
		c->answered = control->answers;
		tp->snd_ssthresh = control->ssthresh;
	}
	if (reducing(now))
		reduce(tp, c, delivered, lost, acked > 0);
	else if (current)
		tp->snd_cwnd = control->cwnd;
	pace(sk, tp, current ? control->pacing : 0);

	if (!acked && !delivered && !lost && !ece)
		return;
	r = begin(sk, ACK, now, false);
	if (!r)
		return;
	r->flags = rs->is_app_limited ? F_APP_LIMITED : 0;
	r->acked = acked;
	r->delivered = delivered;
	r->lost = lost;
	r->marked = marked;
	r->rtt = rs->rtt_us;
	r->rate_delivered = rs->delivered > 0 ? rs->delivered : 0;
	r->rate_interval = rs->interval_us;
	end(r);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops tcpassay = {
	.init = (void *)ta_init,
	.release = (void *)ta_release,
	.ssthresh = (void *)ta_ssthresh,
	.set_state = (void *)ta_set_state,
	.cwnd_event = (void *)ta_cwnd_event,
	.in_ack_event = (void *)ta_in_ack_event,
	.cong_control = (void *)ta_cong_control,
	.undo_cwnd = (void *)ta_undo_cwnd,
	.name = "tcpassay",
};
