// Throughput over latency: one point per run, and for each level the median with the quartiles as a cross.
"use strict";

{
  const { h, section, select, toggle, state, units, stats, data, look } = tcpassay;
  const LATENCY = /^(one_way|rtt|srtt|queue_delay|completion|round|slowdown|longest_silence)/;
  const THROUGHPUT = /^(throughput|goodput|saturation|completions|jain|share)/;

  const draw = (shown) => {
    const { runs } = tcpassay,
      view = state.now();
    const metrics = (pattern) =>
      runs.metrics.filter((metric) => pattern.test(metric.name) && !/_(sd|cv)_/.test(metric.name));
    const [xs, ys] = [metrics(LATENCY), metrics(THROUGHPUT)];
    if (!xs.length || !ys.length) return null;
    const find = (list, name, usual) =>
      list.find((one) => one.name === name) ??
      usual.map((other) => list.find((one) => one.name === other)).find(Boolean) ??
      list[0];
    const x = find(xs, view.x, ["rtt_p50", "rtt_mean", "one_way_p50"]),
      y = find(ys, view.y, ["goodput", "throughput"]);
    const splits = data.splits();
    const factor =
      splits.find((one) => one.name === view.colour) ??
      splits.find((one) => /(^|\.)(cc|controller)$/.test(one.name)) ??
      splits[0];
    const both = shown.filter((run) => !Number.isNaN(x.values[run]) && !Number.isNaN(y.values[run]));
    const unit = (metric) =>
      units.scale(metric.unit, Math.max(0, ...both.map((run) => Math.abs(metric.values[run]))));
    const [ux, uy] = [unit(x), unit(y)];
    const positive = both.every((run) => x.values[run] > 0),
      log = view.xlog !== "0" && positive;
    const colours = factor ? look.palette(factor) : [look.style().accent];
    const groups = (factor?.levels ?? ["all runs"])
      .map((level, n) => ({ level, n, runs: both.filter((run) => !factor || factor.codes[run] === n) }))
      .filter((group) => group.runs.length);
    const canvas = h("div", {
      class: "chart",
      role: "img",
      "aria-label": `${y.name} against ${x.name}, one point per run`,
    });
    const made = section(
      "tradeoff",
      "Throughput and latency",
      "One point per run; the large marks are medians, their crosses extend from the first to the third quartile. Better is up and to the left. Drag to zoom, double-click for all; a click leads to the run.",
      h(
        "div",
        { class: "controls" },
        select(
          "Throughput",
          ys.map((one) => [one.name, one.name]),
          y.name,
          (value) => state.set({ y: value }),
        ),
        select(
          "against",
          xs.map((one) => [one.name, one.name]),
          x.name,
          (value) => state.set({ x: value }),
        ),
        factor &&
          select(
            "colour",
            splits.map((one) => [one.name, one.name]),
            factor.name,
            (value) => state.set({ colour: value }),
          ),
        positive && toggle("log scale", log, (on) => state.set({ xlog: on ? undefined : "0" })),
      ),
      both.length ? canvas : h("p", { class: "empty" }, "No run that is shown has both metrics."),
    );
    made.ready = () => {
      if (!both.length) return;
      const style = look.style();
      const at = (metric, { by }, group) =>
        [0.25, 0.5, 0.75].map(
          (p) => stats.quantile(stats.sort(group.runs.map((run) => metric.values[run])), p) / by,
        );
      const crosses = groups.map((group) => ({ group, x: at(x, ux, group), y: at(y, uy, group) }));
      const drawn = look.chart(
        canvas,
        "tradeoff",
        {
          grid: { left: 64, right: 20, top: 34, bottom: 50 },
          legend: look.legend(groups.map((group) => group.level)),
          xAxis: log
            ? look.logarithmic(
                units.named(x.name, ux.unit),
                both.map((run) => x.values[run] / ux.by),
              )
            : look.axis(units.named(x.name, ux.unit)),
          yAxis: look.axis(units.named(y.name, uy.unit), { nameGap: 46 }),
          toolbox: look.dragOptions({ xAxisIndex: 0, yAxisIndex: 0 }),
          tooltip: look.tooltip({
            trigger: "item",
            formatter: ({ data: point, color }) => {
              if (point.run === undefined)
                return look.tip(`median of ${point.name}`, [
                  [x.name, units.amount(point.value[0] * ux.by, x.unit)],
                  [y.name, units.amount(point.value[1] * uy.by, y.unit)],
                  ["runs", String(point.count)],
                ]);
              return look.tip(`case ${runs.case[point.run]}, seed ${runs.seed[point.run]}`, [
                [x.name, units.amount(x.values[point.run], x.unit), color],
                [y.name, units.amount(y.values[point.run], y.unit)],
                ...runs.factors.map((one) => [one.name, data.level(one, point.run)]),
              ]);
            },
          }),
          series: [
            ...groups.map((group) => ({
              name: group.level,
              type: "scatter",
              color: colours[group.n],
              symbolSize: both.length > 600 ? 4 : 6,
              itemStyle: { opacity: both.length > 600 ? 0.4 : 0.55 },
              large: true,
              largeThreshold: look.MANY,
              data: group.runs.map((run) => ({ value: [x.values[run] / ux.by, y.values[run] / uy.by], run })),
            })),
            ...crosses.flatMap(({ group, x: [x1, xm, x3], y: [y1, ym, y3] }) => [
              ...[
                [
                  [x1, ym],
                  [x3, ym],
                ],
                [
                  [xm, y1],
                  [xm, y3],
                ],
              ].map((line) => ({
                name: group.level,
                type: "line",
                color: colours[group.n],
                showSymbol: false,
                silent: true,
                z: 4,
                lineStyle: { width: 2 },
                data: line,
              })),
              {
                name: group.level,
                type: "scatter",
                color: colours[group.n],
                symbolSize: 14,
                z: 5,
                itemStyle: { borderColor: style.paper, borderWidth: 2 },
                data: [{ value: [xm, ym], name: group.level, count: group.runs.length }],
              },
            ]),
          ],
        },
        420,
      );
      look.dragging(drawn, () =>
        [0, 1].forEach((dataZoomIndex) =>
          drawn.dispatchAction({ type: "dataZoom", dataZoomIndex, start: 0, end: 100 }),
        ),
      );
      drawn.on(
        "click",
        ({ data: point }) => point?.run !== undefined && (location.hash = state.toRun(point.run)),
      );
    };
    return made;
  };

  tcpassay.tradeoff = { draw };
}
