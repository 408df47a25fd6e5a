/* SPDX-License-Identifier: GPL-2.0 */
/* A minimal controller in BPF: the window is always twenty packets. */
#include "tcp.h"

char _license[] SEC("license") = "GPL";

SEC("struct_ops")
void BPF_PROG(fixed_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	((struct tcp_sock *)sk)->snd_cwnd = 20;
}

SEC("struct_ops")
__u32 BPF_PROG(fixed_ssthresh, struct sock *sk)
{
	return 20;
}

SEC("struct_ops")
__u32 BPF_PROG(fixed_undo_cwnd, struct sock *sk)
{
	return 20;
}

/* The section `.struct_ops` (not `.struct_ops.link`): the loader sets the link flag itself. */
SEC(".struct_ops")
struct tcp_congestion_ops variable = {
	.cong_control = (void *)fixed_cong_control,
	.ssthresh = (void *)fixed_ssthresh,
	.undo_cwnd = (void *)fixed_undo_cwnd,
	.name = "tat_fixed",
};
