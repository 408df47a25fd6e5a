#!/bin/sh
# Writes the hashes of the pinned packages into the lock files: run it after changing a version by hand, with `uv` in
# PATH. All files of a version are listed, for all platforms and versions of Python. Dependencies are not resolved: the
# files list them explicitly, and `make setup` installs with --no-deps.
set -eu
cd "$(dirname "$0")/.."
for file in requirements.lock requirements-dev.lock requirements-ray.lock; do
    made=$(mktemp)
    grep '^#' "$file" > "$made"
    grep -v '^#\|^ ' "$file" | sed 's/ \\$//' > "$made.in"
    uv pip compile --quiet --no-deps --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
        --no-emit-index-url "$made.in" >> "$made"
    cat "$made" > "$file"
    rm -f "$made" "$made.in"
done
