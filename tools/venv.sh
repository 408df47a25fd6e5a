#!/bin/sh
# Creates a virtual environment in $1 with the first suitable Python, version 3.11 or newer.
set -eu
target=$1
old='import sys; sys.exit(sys.version_info < (3, 11))'
python=
for candidate in "${PYTHON:-python3.11}" python3 python3.14 python3.13 python3.12; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$old" 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "tcpassay needs Python 3.11 or newer as python3 (or PYTHON=/path/to/it); Debian 12: apt-get install python3" >&2
    exit 2
fi
for tool in cargo cc; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "tcpassay needs '$tool' in PATH (a Rust toolchain with cargo, and a C compiler such as gcc)" >&2
        exit 2
    fi
done
rm -rf "$target"
# Debian ships ensurepip apart, in python3-venv. Without it the environment is made bare and pip taken from the
# system's python3-pip, when that is there.
if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$target"
elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --without-pip "$target"
    "$python" -m pip --python "$target/bin/python" install --quiet --disable-pip-version-check pip
else
    echo "$python has neither ensurepip nor pip; Debian 12: apt-get install python3-venv" >&2
    exit 2
fi
echo "Python environment in $target ($("$target/bin/python" --version))"
