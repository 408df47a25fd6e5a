// The time-sequence graph, as tcptrace draws it: a bar for each segment sent, another colour for what was sent again, and
// a line for what was acknowledged.
"use strict";

{
  const { look, units } = tcpassay;

  // A bar at a time from one position to another; at least three pixels high, so that it is seen when zoomed out.
  const bar = (params, api) => {
    const [x, top] = api.coord([api.value(0), api.value(2)]), bottom = api.coord([api.value(0), api.value(1)])[1];
    const area = params.coordSys;
    if (x < area.x || x > area.x + area.width) return null;
    return { type: "rect", shape: { x: x - 1, y: top, width: 2, height: Math.max(3, bottom - top) }, style: { fill: api.visual("color") } };
  };

  // The panel of the timeline for these flows. `x` turns nanoseconds into the time axis.
  const panel = (curves, flows, colour, x) => {
    const style = look.style(), at = (place) => curves.arrays[place];
    const some = curves.sequence.filter((one) => flows.has(one.name));
    if (!some.length) return null;
    const top = Math.max(...some.flatMap((one) => [...at(one.sent[2]).slice(-1), ...at(one.again[2]).slice(-1)]));
    const { unit, by } = units.scale("B", top);
    const bars = ([time, low, high]) => Array.from(at(time), (ns, n) => [x(ns), at(low)[n] / by, at(high)[n] / by]);
    const custom = (name, data, color, z) => ({ name, type: "custom", renderItem: bar, encode: { x: 0, y: [1, 2] }, data, color, z, clip: true });
    const series = some.flatMap((one) => [
      custom(`${one.name} sent`, bars(one.sent), colour(one.name), 2),
      custom(`${one.name} sent again`, bars(one.again), style.bad, 4),
      { name: `${one.name} acknowledged`, type: "line", step: "end", showSymbol: false, z: 3, color: colour(one.name), lineStyle: { width: 1, type: [3, 2], opacity: 0.8 }, data: Array.from(at(one.acked[0]), (ns, n) => [x(ns), at(one.acked[1])[n] / by]) },
    ]);
    const thinned = some.filter((one) => one.sent_of > at(one.sent[0]).length);
    return { key: "sequence", title: "Sequence number", unit, series, height: 300,
      note: thinned.length ? `Sequence: one bar stands for ${Math.ceil(Math.max(...thinned.map((one) => one.sent_of / at(one.sent[0]).length)))} segments or so; sent again is drawn in full up to 4,000.` : "" };
  };

  Object.assign(tcpassay, { sequence: { panel } });
}
