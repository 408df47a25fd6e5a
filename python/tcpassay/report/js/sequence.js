// The time-sequence graph of one flow, as in tcptrace: a bar for each segment, another colour for retransmissions, and a
// line for the acknowledged position.
"use strict";

{
  const { look, units, plural } = tcpassay;

  // The panel of the timeline for the first of these flows that has one (flows with findings come first). `x` converts
  // nanoseconds into the time axis.
  const panel = (curves, flows, colour, x) => {
    const style = look.style(),
      at = (place) => curves.arrays[place];
    const one = curves.sequence.find((sequence) => flows.has(sequence.name));
    if (!one) return null;
    const top = [one.sent, one.again].flatMap(([, , high]) => at(high).reduce((a, b) => Math.max(a, b), 0));
    const { unit, by } = units.scale("B", Math.max(...top));
    const bars = ([time, low, high]) =>
      Array.from(at(time), (ns, n) => [x(ns), at(low)[n] / by, at(high)[n] / by]);
    // A square line end keeps bars visible that are shorter than a pixel.
    const strokes = (name, coords, color, z, width) => ({
      name,
      type: "lines",
      coordinateSystem: "cartesian2d",
      large: true,
      largeThreshold: 500,
      silent: true,
      z,
      clip: true,
      lineStyle: { color, width, opacity: 1, cap: "square" },
      data: coords.map((ends) => ({ coords: ends })),
    });
    const lines = (name, all, color, z) => ({
      ...strokes(
        name,
        all.map(([time, low, high]) => [
          [time, low],
          [time, high],
        ]),
        color,
        z,
        2,
      ),
      bars: all,
    });
    const acked = Array.from(at(one.acked[0]), (ns, n) => [x(ns), at(one.acked[1])[n] / by]);
    // Steps are drawn explicitly: the library's line omits steps below a pixel, so that horizontal parts would be sloped.
    const stairs = acked.slice(1).flatMap(([time, value], n) => [
      [acked[n], [time, acked[n][1]]],
      [
        [time, acked[n][1]],
        [time, value],
      ],
    ]);
    const series = [
      lines("sent", bars(one.sent), colour(one.name), 2),
      lines("retransmitted", bars(one.again), style.bad, 4),
      { ...strokes("acknowledged, drawn", stairs, style.soft, 3, 1), bars: [] },
      // Only for the tooltip, which does not use the strokes.
      {
        name: "acknowledged",
        type: "line",
        showSymbol: false,
        color: style.soft,
        lineStyle: { opacity: 0 },
        data: acked,
      },
    ];
    const drawn = at(one.sent[0]).length;
    const note = [
      one.sent_of > drawn &&
        `${plural(one.sent_of, "segment")} in ${drawn.toLocaleString("en")} bars. A bar extends from the lowest to the highest sequence number that was sent in its interval; around findings each segment has its own bar.`,
      curves.sequence.length > 1 && flows.size > 1 && "Choose a flow above for its own graph.",
    ]
      .filter(Boolean)
      .join(" ");
    return {
      key: "sequence",
      title: `Sequence number of ${one.name}: sent, acknowledged (line), retransmitted (red)`,
      unit,
      series,
      height: 300,
      note,
    };
  };

  tcpassay.sequence = { panel };
}
