#!/bin/sh
# Checks the dependencies for known vulnerabilities and their licences, if the programs for it are installed and can
# reach their databases. Otherwise it prints a message and succeeds.
#
#     tools/audit.sh PYTHON
set -u
python=$1
failed=0
if cargo deny --version >/dev/null 2>&1; then
    # Licences and sources need no database.
    cargo deny --log-level error check licenses bans sources || failed=1
    if out=$(cargo deny --log-level error check advisories 2>&1); then
        :
    elif printf '%s' "$out" | grep -qi 'fetch advisory database\|failed to fetch\|could not connect\|network'; then
        echo "audit: the database of advisories for crates cannot be reached; crates are not audited"
    else
        printf '%s\n' "$out" >&2
        failed=1
    fi
else
    echo "audit: cargo-deny is not installed; crates are not audited (cargo install --locked cargo-deny)"
fi
if "$python" -m pip_audit --version >/dev/null 2>&1; then
    audit="$python -m pip_audit"
elif command -v pip-audit >/dev/null 2>&1; then
    audit=pip-audit
else
    echo "audit: pip-audit is not installed; Python packages are not audited (pipx install pip-audit)"
    exit $failed
fi
report=$(mktemp)
trap 'rm -f "$report" "$report.err"' EXIT
# With hashes and without dependencies nothing is installed or resolved.
$audit --disable-pip --require-hashes --progress-spinner off --format json --output "$report" \
    -r requirements.lock -r requirements-dev.lock >/dev/null 2>"$report.err"
code=$?
if [ $code -eq 0 ]; then
    :
elif [ -s "$report" ]; then # a report is written only when the database was reached
    $audit --disable-pip --require-hashes --progress-spinner off -r requirements.lock -r requirements-dev.lock >&2
    failed=1
else
    echo "audit: the database of advisories for Python packages cannot be reached; they are not audited"
fi
exit $failed
