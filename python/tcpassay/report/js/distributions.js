// How a metric is distributed over the runs, split by any parameter: box plots, cumulative distributions, Q-Q plots,
// and a table of the same numbers.
"use strict";

{
  const { h, section, select, tabs, toggle, table, state, units, stats, data, look } = tcpassay;
  const DOTS = 3000; // runs beyond which a box shows outliers only
  const NONE = "";

  const first = (names) =>
    names.find((name) => tcpassay.runs.metric.has(name)) ?? tcpassay.runs.metrics[0]?.name;

  // The runs of each level that have the metric; without a split, all of them.
  const split = (metric, factor, shown) => {
    const groups = (factor?.levels ?? ["all runs"]).map((level) => ({ level, runs: [] }));
    for (const run of shown)
      if (!Number.isNaN(metric.values[run])) groups[factor ? factor.codes[run] : 0].runs.push(run);
    return groups
      .map((group, n) => ({ ...group, n, sorted: stats.sort(group.runs.map((run) => metric.values[run])) }))
      .filter((group) => group.runs.length);
  };

  // The parameter whose levels explain most of the metric's variance, which is the default split.
  const telling = (metric, shown) => {
    const ranked = tcpassay.runs.factors
      .filter((factor) => factor.levels.length > 1)
      .map((factor) => {
        const groups = factor.levels.map(() => /** @type {number[]} */ ([]));
        for (const run of shown)
          if (!Number.isNaN(metric.values[run])) groups[factor.codes[run]].push(metric.values[run]);
        return { factor, share: stats.explained(groups) };
      });
    return ranked.sort((a, b) => b.share - a.share);
  };

  const spreadOf = (n) => ((n * 0.618034) % 1) - 0.5; // jitter that is the same each time

  const boxes = (context) => {
    const { groups, colours, by, named } = context,
      style = look.style();
    const dots = context.count <= DOTS;
    const points = (group, at) => {
      const { low, high } = stats.box(group.sorted);
      return group.runs
        .filter((run) => dots || context.values[run] < low || context.values[run] > high)
        .map((run) => ({ value: [at + 0.55 * spreadOf(run), context.values[run] / by], run }));
    };
    return {
      grid: { left: 64, right: 16, top: 14, bottom: 60 },
      xAxis: [
        {
          type: "category",
          data: groups.map((group) => group.level),
          name: context.split,
          nameLocation: "middle",
          nameGap: 34,
          nameTextStyle: { color: style.soft },
          axisLabel: { color: style.ink, fontSize: 12, hideOverlap: true },
          axisTick: { show: false },
          axisLine: { lineStyle: { color: style.soft } },
        },
        { type: "value", min: -0.5, max: groups.length - 0.5, show: false },
      ],
      yAxis: context.axis(named, { nameGap: 46 }),
      tooltip: look.tooltip({
        trigger: "item",
        formatter: ({ seriesType, dataIndex, data: point }) => {
          if (seriesType !== "boxplot")
            return look.tip(`case ${tcpassay.runs.case[point.run]}, seed ${tcpassay.runs.seed[point.run]}`, [
              [context.metric.name, units.amount(context.values[point.run], context.metric.unit)],
              ...tcpassay.runs.factors.map((factor) => [factor.name, data.level(factor, point.run)]),
            ]);
          const one = stats.box(groups[dataIndex].sorted);
          return look.tip(
            groups[dataIndex].level,
            Object.entries({
              runs: groups[dataIndex].runs.length,
              "upper whisker": one.high,
              "third quartile": one.q3,
              median: one.median,
              "first quartile": one.q1,
              "lower whisker": one.low,
            }).map(([name, value], n) => [
              name,
              n ? units.amount(value, context.metric.unit) : String(value),
            ]),
          );
        },
      }),
      series: [
        {
          type: "boxplot",
          boxWidth: [12, 70],
          data: groups.map((group) => {
            const { low, q1, median, q3, high } = stats.box(group.sorted);
            return {
              value: [low, q1, median, q3, high].map((value) => value / by),
              itemStyle: { color: `${colours[group.n]}22`, borderColor: colours[group.n], borderWidth: 1.6 },
            };
          }),
        },
        ...groups.map((group, at) => ({
          type: "scatter",
          xAxisIndex: 1,
          color: colours[group.n],
          symbolSize: dots && context.count > 600 ? 3 : 5,
          itemStyle: { opacity: 0.55 },
          data: points(group, at),
          large: true,
          largeThreshold: look.MANY,
        })),
      ],
    };
  };

  const cdf = (context) => {
    const { groups, colours, by, named } = context;
    return {
      grid: { left: 64, right: 16, top: 34, bottom: 50 },
      legend: look.legend(groups.map((group) => group.level)),
      xAxis: context.axis(named),
      yAxis: look.axis("Cumulative share of runs", { min: 0, max: 1, nameGap: 46, scale: false }),
      tooltip: look.tooltip({
        trigger: "item",
        formatter: ({ seriesName, value, color }) =>
          look.tip(seriesName, [
            [named, units.number(value[0], 5), color],
            ["share of runs", units.percent(value[1], 1)],
          ]),
      }),
      series: groups.map((group) => ({
        name: group.level,
        type: "line",
        step: "end",
        showSymbol: group.runs.length <= 60,
        symbolSize: 5,
        symbol: "circle",
        lineStyle: { width: 2 },
        color: colours[group.n],
        triggerLineEvent: true,
        data: [
          [group.sorted[0] / by, 0],
          ...Array.from(group.sorted, (value, n) => [value / by, (n + 1) / group.sorted.length]),
        ],
      })),
    };
  };

  // Each level against the first; the points are the quantiles of the smaller of the two. A single one against a normal
  // distribution.
  const qq = (context) => {
    const { groups, colours, by, named } = context,
      style = look.style();
    const base = groups.find((group) => group.level === context.base) ?? groups[0];
    const alone = groups.length < 2;
    const lines = alone
      ? [
          {
            group: base,
            points: Array.from(base.sorted, (value, n) => [
              stats.normal((n + 0.5) / base.sorted.length),
              value / by,
            ]),
          },
        ]
      : groups
          .filter((group) => group !== base)
          .map((group) => {
            const count = Math.min(group.sorted.length, base.sorted.length, 500);
            return {
              group,
              points: Array.from({ length: count }, (_, n) =>
                [base, group].map(
                  (one) => stats.quantile(one.sorted, count > 1 ? n / (count - 1) : 0.5) / by,
                ),
              ),
            };
          });
    const ends = alone
      ? []
      : [
          Math.min(...groups.map((group) => group.sorted[0])),
          Math.max(...groups.map((group) => group.sorted.at(-1))),
        ].map((value) => value / by);
    return {
      grid: { left: 64, right: 16, top: 34, bottom: 50 },
      legend: look.legend(lines.map(({ group }) => group.level)),
      xAxis: alone ? look.axis("Quantile of a normal distribution") : context.axis(`${named}, ${base.level}`),
      yAxis: context.axis(alone ? named : `${named}, other levels`, { nameGap: 46 }),
      tooltip: look.tooltip({
        trigger: "item",
        formatter: ({ seriesName, value, color }) =>
          look.tip("", [
            [alone ? "normal" : base.level, units.number(value[0], 5)],
            [seriesName, units.number(value[1], 5), color],
          ]),
      }),
      series: [
        ...lines.map(({ group, points }) => ({
          name: group.level,
          type: "scatter",
          symbolSize: 6,
          color: colours[group.n],
          itemStyle: { opacity: 0.75 },
          data: points,
        })),
        ...(alone
          ? []
          : [
              {
                name: "equal",
                type: "line",
                data: ends.map((value) => [value, value]),
                showSymbol: false,
                silent: true,
                lineStyle: { color: style.soft, width: 1, type: "dashed" },
                tooltip: { show: false },
              },
            ]),
      ],
    };
  };

  const numbers = (context) => {
    const at = (p) => (group) => stats.quantile(group.sorted, p);
    const column = (title, value) => ({
      title,
      number: true,
      value,
      cell: (group) => units.amount(value(group), context.metric.unit),
    });
    const columns = [
      { title: context.split || "runs", value: (group) => group.level },
      { title: "runs", number: true, value: (group) => group.runs.length },
      column("5 %", at(0.05)),
      column("25 %", at(0.25)),
      column("median", at(0.5)),
      column("75 %", at(0.75)),
      column("95 %", at(0.95)),
      column("mean", (group) => stats.mean(group.sorted)),
    ];
    return table(columns, context.groups, { label: "Quantiles" });
  };

  const draw = (shown) => {
    const { runs, report } = tcpassay,
      view = state.now();
    if (!runs.metrics.length)
      return section("metrics", "Metrics", null, h("p", { class: "empty" }, "No run has a metric."));
    const metric =
      runs.metric.get(view.metric) ??
      runs.metric.get(first([...report.metrics, "goodput", "throughput"])) ??
      runs.metrics[0];
    const ranked = telling(metric, shown);
    const named = view.by === undefined ? ranked[0]?.factor.name : view.by;
    const factor = data.splits().find((one) => one.name === named);
    const kind = ["box", "cdf", "qq"].includes(view.view) ? view.view : "box";
    const groups = split(metric, factor, shown);
    const absent = (factor?.levels ?? []).filter((level) => !groups.some((group) => group.level === level));
    const all = groups.flatMap((group) => [group.sorted[0], group.sorted.at(-1)]);
    const { unit, by } = units.scale(metric.unit, Math.max(...all.map(Math.abs), 0));
    const positive = all.every((value) => value > 0);
    const log = view.log === "1" && positive;
    const axis = (title, extra) =>
      log
        ? look.logarithmic(
            title,
            all.map((value) => value / by),
            extra,
          )
        : look.axis(title, extra);
    const context = {
      axis,
      metric,
      values: metric.values,
      groups,
      by,
      named: units.named(metric.name, unit),
      split: factor?.name ?? NONE,
      base: view.base,
      colours: factor ? look.palette(factor) : [look.style().accent],
      count: groups.reduce((sum, group) => sum + group.runs.length, 0),
    };
    const canvas = h("div", {
      class: "chart",
      role: "img",
      "aria-label": `${metric.name} by ${factor?.name ?? "nothing"}; the numbers are in the table below`,
    });
    const shares = new Map(ranked.map((one) => [one.factor.name, one.share]));
    const options = data
      .splits()
      .map((one) => [
        one.name,
        shares.has(one.name) ? `${one.name} (${units.percent(shares.get(one.name))})` : one.name,
      ]);
    const made = section(
      "metrics",
      "Metrics",
      "One value per run. The number after each parameter is the share of the metric's variance that its levels explain.",
      h(
        "div",
        { class: "controls" },
        select(
          "Metric",
          runs.metrics.map((one) => [one.name, one.name]),
          metric.name,
          (value) => state.set({ metric: value }),
        ),
        select("split by", [[NONE, "nothing"], ...options], factor?.name ?? NONE, (value) =>
          state.set({ by: value === NONE ? "-" : value, base: undefined }),
        ),
        tabs(
          "Kind of chart",
          [
            ["box", "Box"],
            ["cdf", "CDF"],
            ["qq", "QQ"],
          ],
          kind,
          (value) => state.set({ view: value }),
        ),
        kind === "qq" &&
          groups.length > 1 &&
          select(
            "against",
            groups.map((group) => [group.level, group.level]),
            context.base ?? groups[0].level,
            (value) => state.set({ base: value }),
          ),
        positive && toggle("log scale", log, (on) => state.set({ log: on ? "1" : undefined })),
      ),
      h(
        "p",
        { class: "lead" },
        metric.doc,
        { higher: "; higher is better", lower: "; lower is better" }[metric.good] ?? "",
        ".",
      ),
      absent.length > 0 &&
        h("p", { class: "lead absent" }, `No run that is shown has a value for ${factor?.name} = ${absent.join(", ")}.`),
      groups.length
        ? [canvas, numbers(context)]
        : h("p", { class: "empty" }, "No run that is shown has this metric."),
    );
    made.ready = () => {
      if (!groups.length) return;
      const drawn = look.chart(canvas, "distribution", { box: boxes, cdf, qq }[kind](context), 380);
      drawn.on(
        "click",
        ({ data: point }) => point?.run !== undefined && (location.hash = state.toRun(point.run)),
      );
    };
    return made;
  };

  tcpassay.distributions = { draw, first };
}
