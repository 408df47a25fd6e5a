#!/bin/sh
# Installs Debian's Chromium for the tests of the report, if it is missing and can be installed. Without it these tests
# are skipped with a reason.
set -eu
if command -v chromium >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "There is no 'chromium' and no right to install it: the tests of the report in a browser will be skipped" >&2
    exit 0
fi
echo "Installing Debian's chromium for the tests of the report"
if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; then
    echo "apt-get could not install chromium: the tests of the report in a browser will be skipped" >&2
fi
