#!/bin/sh
# lwIP 2.2.1-dev (as the crate lwip 0.4.0 carries it): the SYN of tcp_connect does not have the number that LWIP_HOOK_TCP_ISN returned.
#
# Expected by most: the initial sequence number is what the hook returns, in both roles, so that a secret function as in RFC 6528
# decides it, and a table of numbers in use agrees with the wire. Seen: an accepted connection answers with this number, and an
# opened connection sends the SYN with the number before it.
# Needs: gcc, cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir arch src
cat > Cargo.toml <<'TOML'
[package]
name = "isn"
version = "0.0.0"
edition = "2021"

[dependencies]
lwip = "=0.4.0"

[workspace]
TOML
: > src/lib.rs
cargo vendor --quiet vendor > vendor.toml
cat > arch/cc.h <<'H'
#ifndef CC_H
#define CC_H
#include <stdio.h>
#include <stdlib.h>
#define LWIP_RAND() 1u
#define LWIP_PLATFORM_DIAG(x) ((void)0)
#define LWIP_PLATFORM_ASSERT(x) abort()
#endif
H
cat > lwipopts.h <<'H'
#ifndef LWIPOPTS_H
#define LWIPOPTS_H
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
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#include "lwip/arch.h"
u32_t chosen_isn(void);
#define LWIP_HOOK_TCP_ISN(local_ip, local_port, remote_ip, remote_port) chosen_isn()
#endif
H
cat > main.c <<'C'
#include <stdint.h>
#include <string.h>

#include "lwip/inet_chksum.h"
#include "lwip/init.h"
#include "lwip/ip4.h"
#include "lwip/netif.h"
#include "lwip/tcp.h"

enum { CHOSEN = 5000, SYN = 2 };

static u32_t sent;

u32_t chosen_isn(void) { return CHOSEN; }
u32_t sys_now(void) { return 0; }

static err_t output(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to) {
    uint8_t bytes[60];
    (void)netif, (void)to;
    pbuf_copy_partial(packet, bytes, sizeof bytes, 0);
    uint32_t number;
    memcpy(&number, bytes + 24, 4);
    sent = lwip_ntohl(number);
    return ERR_OK;
}

static err_t started(struct netif *netif) {
    netif->output = output;
    netif->mtu = 1500;
    return ERR_OK;
}

static err_t connected(void *arg, struct tcp_pcb *pcb, err_t error) {
    (void)arg, (void)pcb;
    return error;
}

int main(void) {
    struct netif netif;
    ip4_addr_t us, mask, them;
    IP4_ADDR(&us, 10, 0, 0, 1);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&them, 10, 0, 0, 2);
    lwip_init();
    netif_add(&netif, &us, &mask, &them, NULL, started, ip4_input);
    netif_set_default(&netif);
    netif_set_up(&netif);
    netif_set_link_up(&netif);

    struct tcp_pcb *client = tcp_new();
    tcp_connect(client, &them, 80, connected);
    u32_t opened = sent;

    struct tcp_pcb *server = tcp_new();
    tcp_bind(server, IP_ADDR_ANY, 80);
    tcp_accept(tcp_listen(server), NULL);
    uint8_t syn[40] = {0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1};
    uint8_t *tcp = syn + 20;
    tcp[0] = 15, tcp[1] = 160, tcp[3] = 80, tcp[7] = 1, tcp[12] = 0x50, tcp[13] = SYN, tcp[14] = 0xea;
    uint16_t sum = inet_chksum(syn, 20);
    memcpy(syn + 10, &sum, 2);
    struct pbuf *packet = pbuf_alloc(PBUF_RAW, sizeof syn, PBUF_RAM);
    pbuf_take(packet, syn, sizeof syn);
    struct pbuf *segment = pbuf_alloc(PBUF_RAW, 20, PBUF_RAM);
    pbuf_take(segment, tcp, 20);
    sum = inet_chksum_pseudo(segment, IP_PROTO_TCP, 20, &them, &us);
    pbuf_free(segment);
    pbuf_take_at(packet, &sum, 2, 36);
    ip4_input(packet, &netif);

    printf("the hook returned %d\n", CHOSEN);
    printf("tcp_connect sent a SYN with %u\n", (unsigned)opened);
    printf("the SYN-ACK of an accepted connection has %u\n", (unsigned)sent);
    if (opened != CHOSEN - 1 || sent != CHOSEN) {
        printf("the behaviour has changed\n");
        return 1;
    }
    return 0;
}
C
lwip=vendor/lwip/src
core=$lwip/core
gcc -std=gnu11 -O1 -I. -I"$lwip/include" -o isn main.c "$core/init.c" "$core/def.c" "$core/inet_chksum.c" "$core/ip.c" "$core/mem.c" \
    "$core/memp.c" "$core/netif.c" "$core/pbuf.c" "$core/tcp.c" "$core/tcp_in.c" "$core/tcp_out.c" "$core/timeouts.c" \
    "$core/ipv4/ip4.c" "$core/ipv4/ip4_addr.c"
./isn
