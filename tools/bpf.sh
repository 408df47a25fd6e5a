#!/bin/sh
# Whether the agent can be built with BPF (the feature `bpf`): prints cargo's arguments for it, or prints what is missing on
# standard error. With --install, as root on Debian, installs missing packages first.
# Usage: tools/bpf.sh [--install]
set -eu
missing() {
	command -v clang >/dev/null 2>&1 || echo clang
	command -v pkg-config >/dev/null 2>&1 || echo pkg-config
	command -v make >/dev/null 2>&1 || echo make
	[ -e /usr/include/libelf.h ] || echo libelf-dev
	[ -e /usr/include/zlib.h ] || echo zlib1g-dev
}
if [ "${1:-}" = --install ] && [ -n "$(missing)" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
	# shellcheck disable=SC2046 # a list of package names
	apt-get install -y -qq --no-install-recommends $(missing) >/dev/null || true
fi
if [ -z "$(missing)" ]; then
	echo --features tcpassay-bpf/bpf,tcpassay-agent/bpf
else
	echo "the agent is built without BPF: missing are" $(missing) "(Debian packages of these names; tools/bpf.sh --install)" >&2
fi
