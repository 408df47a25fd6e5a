/* The configuration of lwIP in adapter.c. What is not here has the default of lwip/opt.h. */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

/* Sizes that a build of lwIP fixes, and a run of tcpassay sets. */
extern unsigned tcpassay_window, tcpassay_send_buffer, tcpassay_scale, tcpassay_mss;

/* No threads, no sockets: the functions of tcp.h are called directly. */
#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0
#define LWIP_NETCONN 0
#define LWIP_UDP 0
#define LWIP_RAW 0
#define LWIP_ICMP 0
#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define LWIP_STATS 0

/* Memory is not limited: a test of TCP would measure the sizes of pools otherwise. */
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define PBUF_POOL_BUFSIZE 1536

/* The MSS is that of the link. Above 536, a peer without MSS option gets 536 (INITIAL_MSS in tcp.c). */
#define TCP_MSS 9176
#ifdef TCPASSAY_CONSTANT_SIZES
/* For init.c, whose checks need constants. */
#define TCP_WND 65535
#define TCP_SND_BUF 40000
#define TCP_RCV_SCALE 0
#else
#define TCP_WND tcpassay_window
#define TCP_SND_BUF tcpassay_send_buffer
#define TCP_RCV_SCALE tcpassay_scale
/* The formulas of lwip/opt.h, with the MSS of the link. */
#define TCP_SND_QUEUELEN ((4 * TCP_SND_BUF + (tcpassay_mss - 1)) / tcpassay_mss)
#define TCP_WND_UPDATE_THRESHOLD LWIP_MIN((TCP_WND / 4), (tcpassay_mss * 4))
#endif
#define MEMP_NUM_TCP_SEG 512

/* Features that are off by default. */
#define LWIP_WND_SCALE 1
#define LWIP_TCP_SACK_OUT 1
#define LWIP_TCP_KEEPALIVE 1
/* The initial sequence number of the first connection may be set. */
#include "lwip/arch.h"
u32_t tcpassay_isn(void);
#define LWIP_HOOK_TCP_ISN(local_ip, local_port, remote_ip, remote_port) tcpassay_isn()
/* Tells when a connection is freed. */
#define LWIP_TCP_PCB_NUM_EXT_ARGS 1

#endif
