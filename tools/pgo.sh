#!/bin/sh
# Profile-guided optimisation of the native module: the compiler lays out and inlines code by measured frequencies.
#
#     tools/pgo.sh possible            checks whether the toolchain supports it; prints what is missing
#     tools/pgo.sh take PYTHON         builds an instrumented module, and runs tools/pgo_train.py with it
#     tools/pgo.sh use COMMAND ARG...  runs cargo or maturin with the latest profile; without a profile, unchanged
#
# All of it is built in a folder of its own, so that builds without a profile stay what they are. The target is named, or
# build scripts and macros would count as well.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
pgo=$target/pgo
host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata

possible() {
    [ -x "$profdata" ] && return
    echo "no profile can be taken: llvm-profdata of this Rust is missing (rustup component add llvm-tools)" >&2
    return 1
}

in_profile() {
    flags=$1
    shift
    RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_BUILD_TARGET=$host CARGO_TARGET_DIR=$pgo "$@"
}

case $1 in
possible)
    possible
    ;;
take)
    possible || exit 2
    python=$(command -v "$2")
    case $python in /*) ;; *) python=$PWD/$python ;; esac
    cd "$root"
    echo "Building a native module that counts what runs how often"
    PYO3_PYTHON=$python in_profile "-Cprofile-generate=$pgo/raw" cargo build --locked --release --quiet -p tcpassay-python
    rm -rf "$pgo/raw" "$pgo/package"
    mkdir -p "$pgo/package"
    cp -R python/tcpassay "$pgo/package"
    cp "$pgo/$host/release/lib_native.so" "$pgo/package/tcpassay/_native.abi3.so"
    PYTHONPATH=$pgo/package "$python" tools/pgo_train.py > "$pgo/trained"
    "$profdata" merge -o "$pgo/merged" "$pgo"/raw/*.profraw
    # Cargo builds anew when the flags differ, and looks into no profile: its name says what is in it.
    name=$(cksum < "$pgo/merged" | cut -d ' ' -f 1)
    rm -f "$pgo"/*.profdata
    mv "$pgo/merged" "$pgo/$name.profdata"
    ;;
use)
    shift
    profile=$(ls "$pgo"/*.profdata 2>/dev/null || true)
    if [ -n "$profile" ]; then in_profile "-Cprofile-use=$profile" "$@"; else "$@"; fi
    ;;
*)
    echo "tools/pgo.sh possible | take PYTHON | use COMMAND ARG..." >&2
    exit 2
    ;;
esac
