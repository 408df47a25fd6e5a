#!/bin/sh
# Builds the adapter of PyTCP: `sh build.sh PROGRAM PYTHON` in a copy of this folder.
#
# The result is one file (PEP 441) with PyTCP, what it depends on, and the adapter. pip compares the packages with the checksums in
# requirements.txt. Code that is compiled now starts faster.
set -eu
"$2" -m venv environment
environment/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-compile \
    --only-binary :all: --target app -r requirements.txt
cp adapter.py app/__main__.py
environment/bin/python -m compileall -q -b --invalidation-mode unchecked-hash app
# The same bytes on every machine with this Python: the digest is part of a run.
find app -exec touch -d @1000000000 {} +
"$2" -m zipapp app --python "$(readlink -f "$2")" --compress --output "$1"
chmod +x "$1"
