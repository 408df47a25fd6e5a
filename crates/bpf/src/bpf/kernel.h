/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fields of kernel structures that the programs read. Their order does not matter: each access is relocated (CO-RE) to the offset
 * in the running kernel, by the kernel's type information (BTF).
 */
#ifndef TCPASSAY_KERNEL_H
#define TCPASSAY_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#endif
