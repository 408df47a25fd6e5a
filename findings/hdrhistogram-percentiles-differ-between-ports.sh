#!/bin/sh
# hdrhistogram 7.6.0 (crate), 0.10.8 (PyPI), hdr-histogram-js 3.0.1, hdrhistogram-go v1.2.0: two values of a p99.9.
#
# Expected by most: ports of one data structure, which read each other's encoded histograms, give the same percentile
# of the same values, apart from the width of a bucket. Seen: the rank is p * n rounded up in Rust and JavaScript, and
# rounded to the nearest in Python and Go. With 599 round trips of 1 ms and one of 201 ms, p99.9 has the rank 599.4:
# the first two say 201 ms (with their bucket), the others 1 ms, although only 99.83 % of the values are at or below
# that. A single retransmission timeout is in the tail of one tool and not in that of the other; the ranks differ for
# each n of which p * n has a fraction below one half.
# Needs: cargo, npm with node, Go 1.24 or newer, python3 with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/rust/src" "$work/go" "$work/js"
cat > "$work/rust/Cargo.toml" <<'TOML'
[package]
name = "rank"
version = "0.0.0"
edition = "2021"
[dependencies]
hdrhistogram = { version = "=7.6.0", default-features = false }
TOML
cat > "$work/rust/src/main.rs" <<'RUST'
use hdrhistogram::Histogram;

fn main() {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000, 3).unwrap();
    histogram.record_n(1000, 599).unwrap();
    histogram.record(201_000).unwrap();
    println!("Rust: {} us", histogram.value_at_percentile(99.9));
}
RUST
cat > "$work/js/show.js" <<'JS'
const { build } = require("hdr-histogram-js");
const range = { lowestDiscernibleValue: 1, highestTrackableValue: 10_000_000, numberOfSignificantValueDigits: 3 };
const histogram = build(range);
histogram.recordValueWithCount(1000, 599);
histogram.recordValue(201_000);
console.log(`JavaScript: ${histogram.getValueAtPercentile(99.9)} us`);
JS
cat > "$work/go/go.mod" <<'MOD'
module rank

go 1.24

require github.com/HdrHistogram/hdrhistogram-go v1.2.0
MOD
cat > "$work/go/main.go" <<'GO'
package main

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func main() {
	histogram := hdrhistogram.New(1, 10_000_000, 3)
	histogram.RecordValues(1000, 599)
	histogram.RecordValue(201_000)
	fmt.Printf("Go: %d us\n", histogram.ValueAtPercentile(99.9))
}
GO
cat > "$work/show.py" <<'PY'
from hdrh.histogram import HdrHistogram

histogram = HdrHistogram(1, 10_000_000, 3)
histogram.record_value(1000, 599)
histogram.record_value(201_000)
print(f"Python: {histogram.get_value_at_percentile(99.9)} us")
PY
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check hdrhistogram==0.10.8
(cd "$work/js" && npm install --silent --no-fund --no-audit hdr-histogram-js@3.0.1 > /dev/null)
seen=$(cd "$work/rust" && CARGO_TARGET_DIR="$work/target" cargo run --quiet
    cd "$work/js" && node show.js
    "$work/venv/bin/python" "$work/show.py"
    cd "$work/go" && GOFLAGS=-mod=mod go run . 2> /dev/null)
echo "$seen"
[ "$seen" = "Rust: 201087 us
JavaScript: 201087 us
Python: 1000 us
Go: 1000 us" ]
