#!/bin/sh
# Installs the newest wheel of a folder into a new environment and tests it there: a plan, its report, a case that the
# agent checks, and a page of the documentation. The dependencies are taken from the environment that built the wheel, so that nothing is downloaded.
#
#     tools/wheel.sh PYTHON FOLDER
set -eu
python=$1
wheel=$(ls -t "$2"/tcpassay-*.whl | head -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"
built=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
own=$("$scratch/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$built" > "$own/dependencies.pth"
cd "$scratch"
cat > plan.toml <<'END'
name = "tried"
[fixed]
"app.duration" = "50ms"
[axes]
"stack.cc" = ["reno", "cubic"]
END
tcpassay="$scratch/venv/bin/tcpassay"
where=$("$scratch/venv/bin/python" -c 'import tcpassay; print(tcpassay.__file__)')
case $where in "$scratch"/*) ;; *) echo "the wheel is not what is tried: $where" >&2; exit 1 ;; esac
"$tcpassay" run plan.toml --out results --jobs 2
"$tcpassay" report results
"$scratch/venv/bin/python" -c 'from tcpassay.substrate import agent; print("agent:", agent.check_case({"stack.cc": "reno"}, "/"))'
pages=$("$tcpassay" docs plan --address)
test -f "${pages#file://}"
echo "$wheel works"
