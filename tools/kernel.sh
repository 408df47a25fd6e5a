#!/bin/sh
# Builds Linux 6.1 for the substrate `kernel` into the user's cache, when it is not there. As root on Debian it installs what the
# build needs. Usage: tools/kernel.sh TCPASSAY
set -eu
tcpassay=$1
if ! { command -v flex && command -v bison && command -v bc && command -v ip && command -v tc; } >/dev/null 2>&1; then
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
		apt-get install -y -qq --no-install-recommends flex bison bc iproute2 >/dev/null
	else
		echo "flex, bison, bc, ip or tc is missing: apt-get install flex bison bc iproute2" >&2
		exit 1
	fi
fi
exec "$tcpassay" kernel build --debian 6.1
