// SPDX-License-Identifier: GPL-2.0
/*
 * Modified Vegas: TCP Vegas that leaves slow start at its first measurement, and whose window grows at random
 * between its bounds.
 *
 * Source: "TCP Congestion Project Report" (modified Vegas). Measurements, restarts and the state for diagnosis are
 * those of tcp_vegas; the report changes the two decisions at the end of a round of measurements:
 *
 *  - Slow start ends with the first round that has enough samples. The window becomes the predicted one: what
 *    fills the path without a queue, and one segment, because the division truncates.
 *  - With n segments queued between alpha (1) and beta (6) the window grows by one segment with the probability
 *    2^(6-n) / 64, from 1/2 for one segment to 1/64 for six. Below alpha it grows, above beta it shrinks.
 *
 * The report takes the remainder by 63 of a product of a round-trip time, an address and a sequence number as its
 * random number. Here it is uniform from 0 to 63, as the table of probabilities in the report has it.
 */

#include <linux/module.h>
#include <linux/random.h>
#include <net/tcp.h>

#include "tcp_vegas.h"

/* Fewer samples in a round come from delayed ACKs, as in tcp_vegas. */
#define ENOUGH_SAMPLES 3
/* The probability is one of 64 sides, halved by each queued segment. */
#define SIDES_LOG2 6

static unsigned int alpha = 1;
module_param(alpha, uint, 0644);
MODULE_PARM_DESC(alpha, "with fewer queued segments the window grows");

static unsigned int beta = 6;
module_param(beta, uint, 0644);
MODULE_PARM_DESC(beta, "with more queued segments the window shrinks");

static bool mvegas_roll(u32 queued)
{
	u32 side = get_random_u32() >> (32 - SIDES_LOG2);

	return queued <= SIDES_LOG2 && side < (1U << SIDES_LOG2) >> queued;
}

/* A round of measurements has ended. */
static void mvegas_decide(struct sock *sk, const struct vegas *round)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp);
	u64 queued = (u64)cwnd * (round->minRTT - round->baseRTT);

	do_div(queued, round->baseRTT);
	if (tcp_in_slow_start(tp)) {
		u64 predicted = (u64)cwnd * round->baseRTT;

		do_div(predicted, round->minRTT);
		cwnd = min_t(u64, cwnd, predicted + 1);
		tp->snd_ssthresh = min(tp->snd_ssthresh, cwnd);
	} else if (queued > beta) {
		cwnd--;
		/* Otherwise the smaller window would be in slow start. */
		tp->snd_ssthresh = min(tp->snd_ssthresh, cwnd);
	} else if (queued < alpha || mvegas_roll(queued)) {
		cwnd++;
	}
	tcp_snd_cwnd_set(tp, clamp(cwnd, 2U, tp->snd_cwnd_clamp));
	tp->snd_ssthresh = tcp_current_ssthresh(sk);
}

static void mvegas_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas *round = inet_csk_ca(sk);

	if (!round->doing_vegas_now) {
		tcp_reno_cong_avoid(sk, ack, acked);
	} else if (after(ack, round->beg_snd_nxt)) {
		if (round->cntRTT < ENOUGH_SAMPLES)
			tcp_reno_cong_avoid(sk, ack, acked);
		else
			mvegas_decide(sk, round);
		round->beg_snd_nxt = tp->snd_nxt;
		round->cntRTT = 0;
		round->minRTT = 0x7fffffff;
	} else if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	}
}

static struct tcp_congestion_ops tcp_mvegas __read_mostly = {
	.init		= tcp_vegas_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= mvegas_cong_avoid,
	.pkts_acked	= tcp_vegas_pkts_acked,
	.set_state	= tcp_vegas_state,
	.cwnd_event	= tcp_vegas_cwnd_event,
	.get_info	= tcp_vegas_get_info,
	.owner		= THIS_MODULE,
	.name		= "mvegas",
};

static int __init mvegas_register(void)
{
	BUILD_BUG_ON(sizeof(struct vegas) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&tcp_mvegas);
}

static void __exit mvegas_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_mvegas);
}

module_init(mvegas_register);
module_exit(mvegas_unregister);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP modified Vegas");
