#!/bin/sh
# Replaces the pinned version of PyTCP: `sh version.sh PYTHON VERSION` in a copy of this folder. pip reports the checksums of what it chooses.
set -eu
"$1" -m venv resolving
resolving/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --dry-run --ignore-installed \
    --report report.json "pmd-pytcp==$2"
"$1" -c '
import json
chosen = json.load(open("report.json"))["install"]
for one in chosen:
    about, archive = one["metadata"], one["download_info"]["archive_info"]
    print("%s==%s --hash=sha256:%s" % (about["name"], about["version"], archive["hashes"]["sha256"]))
' > requirements.txt
