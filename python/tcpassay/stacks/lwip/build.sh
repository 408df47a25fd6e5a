#!/bin/sh
# Builds the adapter of lwIP: `sh build.sh PROGRAM` in a copy of this folder.
#
# The crate `lwip` carries the sources of lwIP unchanged in its folder `src` (those in `old-src`, which it compiles itself, are
# changed). cargo downloads it and compares it with the checksum in Cargo.lock. Nothing of Rust is compiled, so that empty packages
# take the place of what the crate depends on.
set -eu
# `version.py` has put the sources of another version there.
if [ ! -d vendor ]; then
while read -r name version features; do
    mkdir -p "empty/$name"
    : > "empty/$name/lib.rs"
    printf '[package]\nname = "%s"\nversion = "%s"\n[lib]\npath = "lib.rs"\n[features]\n' "$name" "$version" > "empty/$name/Cargo.toml"
    for feature in $features; do echo "$feature = []" >> "empty/$name/Cargo.toml"; done
done <<LIST
bindgen 0.72.1
bytes 1.12.1
cc 1.4.0
futures 0.3.33
log 0.4.33
thiserror 2.0.19
tokio 1.53.1 sync io-util net time rt rt-multi-thread
LIST
cargo vendor --locked --quiet vendor > vendor.toml
fi
src=vendor/lwip/src
core=$src/core
options="-std=gnu11 -O2 -g -Wall -I. -I$src/include"
gcc $options -DTCPASSAY_CONSTANT_SIZES -c -o init.o "$core/init.c"
gcc $options -o "$1" adapter.c init.o "$core/def.c" "$core/inet_chksum.c" "$core/ip.c" "$core/mem.c" "$core/memp.c" \
    "$core/netif.c" "$core/pbuf.c" "$core/tcp.c" "$core/tcp_in.c" "$core/tcp_out.c" "$core/timeouts.c" \
    "$core/ipv4/ip4.c" "$core/ipv4/ip4_addr.c"
