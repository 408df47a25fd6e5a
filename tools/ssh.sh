#!/bin/sh
# The tests of testbeds start real sshd processes in network namespaces. Installs OpenSSH if possible; without it these tests are
# skipped with a reason.
set -eu
[ -x /usr/sbin/sshd ] && command -v ssh >/dev/null 2>&1 && command -v ethtool >/dev/null 2>&1 && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "sshd, ssh or ethtool is missing: the tests of testbeds with hosts will be skipped (apt-get install openssh-server openssh-client ethtool)" >&2
    exit 0
fi
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssh-server openssh-client ethtool; } >/dev/null 2>&1; then
    echo "apt-get could not install OpenSSH: the tests of testbeds with hosts will be skipped" >&2
fi
