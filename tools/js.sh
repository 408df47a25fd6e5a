#!/bin/sh
# Lints and type-checks the report's scripts with the pinned eslint and TypeScript of tools/js/package-lock.json.
# As root on Debian it installs Node.js when it is missing. Elsewhere a missing Node.js is an error: nothing is skipped silently.
set -eu
cd "$(dirname "$0")/.."
if ! command -v npm >/dev/null 2>&1; then
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "Installing Debian's nodejs and npm for the lint of the report's scripts"
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } >/dev/null
	else
		echo "npm is missing: install Node.js 20 or later to lint python/tcpassay/report/js" >&2
		exit 1
	fi
fi
# npm writes this file at the end of an installation; it is older than the lock file when a version changed.
installed=tools/js/node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ tools/js/package-lock.json -nt "$installed" ]; then
	echo "Installing eslint and TypeScript"
	npm ci --prefix tools/js --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
fi
tools/js/node_modules/.bin/eslint --config tools/js/eslint.config.js --max-warnings 0 python/tcpassay/report/js
tools/js/node_modules/.bin/tsc --project tools/js
