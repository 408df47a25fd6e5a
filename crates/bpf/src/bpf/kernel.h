/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What of the kernel's structures the programs here read: their own fields only, in any order. Each access is relocated
 * (CO-RE) to where the running kernel, which describes its types itself (BTF), has the field.
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
