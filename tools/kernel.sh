#!/bin/sh
# Builds Linux 6.1 for the substrate `kernel` into the user's cache, when it is not there. As root on Debian it installs what the
# build needs. Usage: tools/kernel.sh TCPASSAY [if-possible]: where it cannot be built, say so and go on; tests that need it skip.
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
if "$tcpassay" kernel build --debian 6.1; then
	exit 0
fi
if [ "${2-}" = if-possible ]; then
	echo "No kernel can be built here: the tests of the substrate kernel will be skipped" >&2
	exit 0
fi
exit 1
