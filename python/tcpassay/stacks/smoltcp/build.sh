#!/bin/sh
# Builds smoltcp VERSION as a process: `sh build.sh PROGRAM VERSION` in a copy of this folder, with the sources of this program beside it.
# cargo compares each crate with the checksum of the registry's index.
set -eu
sed -i "s/\"=0\.0\"/\"=$2\"/" stack/Cargo.toml
cargo generate-lockfile --quiet
version=$(cargo pkgid smoltcp | sed 's/.*[#@]//')
sed -i "s/^pub const VERSION: .*/pub const VERSION: \&str = \"$version\";/" stack/src/smoltcp.rs
sed -i 's/name=smoltcp-process/name=smoltcp/' adapter.rs
cargo build --quiet --release --target-dir target
mv target/release/adapter "$1"
