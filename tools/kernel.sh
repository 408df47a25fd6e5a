#!/bin/sh
# Builds Linux 6.1 for the substrate `kernel` into the user's cache, unless it exists: with the patch of tests/kernel, with the module mvegas, and plain.
# As root on Debian it installs the packages that the build needs. Usage: tools/kernel.sh TCPASSAY [if-possible]. With `if-possible`,
# missing programs for a build, or a missing source without a network, are only reported, and tests that need a kernel are skipped.
# A build that fails, and a kernel that does not boot, are always errors.
set -eu
tcpassay=$1
if ! { command -v flex && command -v bison && command -v bc && command -v ip && command -v tc; } >/dev/null 2>&1; then
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "Installing flex, bison, bc and iproute2 for the substrate kernel"
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends flex bison bc iproute2; } >/dev/null || true
	else
		echo "flex, bison, bc, ip or tc is missing: apt-get install flex bison bc iproute2" >&2
	fi
fi
code=0
# The patched kernel first: its object files are kept, and the plain kernel needs only those of one file more.
"$tcpassay" kernel build --debian 6.1 --patch tests/kernel/patches/ack-every-third.patch --if-possible || code=$?
[ "$code" -ne 0 ] || "$tcpassay" kernel build --debian 6.1 --module mvegas --if-possible || code=$?
[ "$code" -ne 0 ] || "$tcpassay" kernel build --debian 6.1 --if-possible || code=$?
if [ "$code" -eq 3 ] && [ "${2-}" = if-possible ]; then
	echo "No kernel can be built here: the tests of the substrate kernel will be skipped" >&2
	exit 0
fi
exit "$code"
