#!/bin/sh
# numpy 2.4.6, polars 2.1.0, statistics of Python 3.11: three p95 of ten round trips, one of them above the largest.
#
# Expected by most: a percentile lies between the smallest and the largest sample, and libraries differ by the
# interpolation between two neighbours at most. Seen, with nine round trips of 1 ms and one of 201 ms: the p95 is 111
# ms with numpy (linear), 201 ms with polars (its default is "nearest") and 291 ms with statistics.quantiles, whose
# default method "exclusive" takes the samples for a part of a population and extrapolates beyond them; p99 is 379 ms.
# With nine of 1,000 us and one of 200 us its p1 is -512 us. Small numbers of runs and of requests are usual where TCP
# is tested, and the tail is what is asked for.
# Needs: python3 (3.8 or newer; seen with 3.11) with venv.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 polars==2.1.0
cat > show.py <<'PY'
import statistics

import numpy
import polars

rtts = [1.0] * 9 + [201.0]
for percent in (95, 99):
    values = {
        "numpy": numpy.percentile(rtts, percent),
        "polars": polars.Series(rtts).quantile(percent / 100),
        "statistics": statistics.quantiles(rtts, n=100)[percent - 1],
    }
    print(f"p{percent}:", ", ".join(f"{name} {value:.0f} ms" for name, value in values.items()))
print(f"p1 of 200 us and nine times 1000 us: {statistics.quantiles([200] + [1000] * 9, n=100)[0]:.0f} us")
PY
seen=$(venv/bin/python show.py)
echo "$seen"
[ "$seen" = "p95: numpy 111 ms, polars 201 ms, statistics 291 ms
p99: numpy 183 ms, polars 201 ms, statistics 379 ms
p1 of 200 us and nine times 1000 us: -512 us" ]
