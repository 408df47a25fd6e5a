// A metric by the levels of two parameters: means with Student's 95 % confidence intervals, as a chart and as a table; and
// a row for each case, over its seeds.
"use strict";

{
  const { h, section, select, tabs, table, state, units, stats, data, look } = tcpassay;
  const CONTROLLER = "stack.cc";
  const NONE = "-";
  const MOST = 12; // levels across; more columns and lines cannot be told apart

  // The 97.5 % quantile of Student's distribution with 1, 2, ... degrees of freedom.
  const T95 = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12,
    2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
  ];

  const mean = (values) => {
    const count = values.length,
      middle = values.reduce((a, b) => a + b, 0) / count;
    if (count < 2) return { mean: middle, half: null, count };
    const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (count - 1);
    return { mean: middle, half: (T95[count - 2] ?? 1.96) * Math.sqrt(variance / count), count };
  };

  const text = (one, unit) => {
    if (!one) return "";
    if (one.half === null) return units.amount(one.mean, unit);
    const { unit: name, by } = units.scale(unit, one.mean);
    const ends = `${units.number(one.mean / by)} ± ${units.number(one.half / by, 2)}`;
    return name ? `${ends} ${name}` : ends;
  };

  // What tells a run from that of another seed: seeds whose runs are equal in every metric are the same run, because
  // the case has no random events, and are not independent samples.
  const mark = (run) => tcpassay.runs.metrics.map((metric) => metric.values[run]).join(" ");

  // The independent values of some runs, as in the tables of `tcpassay table` (levels.py): one for each seed, the mean
  // over its cases, of seeds that all cases have. Without such seeds each run is one.
  const independent = (metric, among) => {
    const { runs } = tcpassay,
      cases = new Map();
    for (const run of among) {
      const of = cases.get(runs.case[run]) ?? new Map();
      cases.set(runs.case[run], of.set(runs.seed[run], run));
    }
    const each = [...cases.values()];
    const seeds = each.length ? [...each[0].keys()].filter((seed) => each.every((of) => of.has(seed))) : [];
    if (each.length > 1 && seeds.length < 2) return among.map((run) => metric.values[run]);
    const steps = new Map(seeds.map((seed) => [each.map((of) => mark(of.get(seed))).join("|"), seed]));
    return [...steps.values()].map(
      (seed) => each.reduce((sum, of) => sum + metric.values[of.get(seed)], 0) / each.length,
    );
  };

  // Means by the indices of the levels of `down` and `across`, over the displayed runs that have the metric.
  const cells = (metric, down, across, shown) => {
    const groups = new Map();
    for (const run of shown) {
      if (Number.isNaN(metric.values[run])) continue;
      const key = `${down.codes[run]} ${across ? across.codes[run] : 0}`;
      groups.set(key, groups.get(key) ?? []);
      groups.get(key).push(run);
    }
    return new Map([...groups].map(([key, among]) => [key, mean(independent(metric, among))]));
  };

  const chart = (context) => {
    const { metric, down, across, means, rows, columns } = context,
      style = look.style();
    const colours = across ? look.palette(across) : [style.accent];
    const largest = Math.max(...[...means.values()].map((one) => Math.abs(one.mean) + (one.half ?? 0)), 0);
    const { unit, by } = units.scale(metric.unit, largest);
    const wide = 0.5 / Math.max(columns.length, 1);
    const offset = (n) => (n - (columns.length - 1) / 2) * wide;
    const points = (column, n) =>
      rows.flatMap((row, place) => {
        const one = means.get(`${row} ${column}`);
        return one ? [[place + offset(n), one.mean / by, (one.mean - (one.half ?? 0)) / by, (one.mean + (one.half ?? 0)) / by]] : [];
      });
    const names = columns.map((column) => (across ? across.levels[column] : metric.name));
    return {
      grid: { left: 70, right: 16, top: across ? 34 : 14, bottom: 52 },
      legend: across ? look.legend(names) : undefined,
      xAxis: [
        {
          type: "category",
          data: rows.map((row) => down.levels[row]),
          name: down.name,
          nameLocation: "middle",
          nameGap: 32,
          nameTextStyle: { color: style.soft },
          axisLabel: { color: style.ink, fontSize: 12, hideOverlap: true },
          axisTick: { show: false },
          axisLine: { lineStyle: { color: style.soft } },
        },
        { type: "value", min: -0.5, max: rows.length - 0.5, show: false },
      ],
      yAxis: look.axis(units.named(metric.name, unit), { nameGap: 50 }),
      tooltip: look.tooltip({
        trigger: "item",
        formatter: ({ seriesName, value, color }) =>
          look.tip(down.levels[rows[Math.round(value[0])]], [
            [seriesName, `${units.number(value[1], 5)} ${unit}`, color],
            ["95 % interval", `${units.number(value[2], 5)} to ${units.number(value[3], 5)} ${unit}`],
          ]),
      }),
      series: columns.flatMap((column, n) => {
        const color = colours[column % colours.length],
          own = points(column, n);
        return [
          {
            name: names[n],
            type: "line",
            xAxisIndex: 1,
            color,
            symbol: "circle",
            symbolSize: 7,
            lineStyle: { width: down.ordered ? 1.5 : 0 },
            data: own,
          },
          {
            name: names[n],
            type: "custom",
            xAxisIndex: 1,
            color,
            silent: true,
            encode: { x: 0, y: [1, 2, 3] },
            renderItem: (_, api) => {
              const [x, low] = api.coord([api.value(0), api.value(2)]),
                [, high] = api.coord([api.value(0), api.value(3)]);
              const line = (x1, y1, x2, y2) => ({
                type: "line",
                shape: { x1, y1, x2, y2 },
                style: { stroke: color, lineWidth: 1.5 },
              });
              return {
                type: "group",
                children: [line(x, low, x, high), line(x - 4, low, x + 4, low), line(x - 4, high, x + 4, high)],
              };
            },
            data: own,
          },
        ];
      }),
    };
  };

  const grid = (context) => {
    const { metric, down, across, means, rows, columns } = context;
    const at = (column) => (row) => means.get(`${row} ${column}`);
    return table(
      [
        { title: down.name, value: (row) => row, cell: (row) => down.levels[row] },
        ...columns.map((column) => ({
          title: across ? across.levels[column] : "mean",
          number: true,
          value: (row) => at(column)(row)?.mean,
          cell: (row) => {
            const one = at(column)(row);
            return one
              ? h("span", { title: `${one.count} independent ${one.count === 1 ? "value" : "values"}` }, text(one, metric.unit))
              : "";
          },
        })),
      ],
      rows,
      { label: `${metric.name} by ${down.name}` },
    );
  };

  // One row per case: its varied parameters, and the metrics averaged over its seeds.
  const byCase = (shown) => {
    const { runs, report } = tcpassay;
    const metrics = [...new Set([state.now().metric, ...report.metrics, "goodput", "rtt_p50", "rtt_p99"])]
      .flatMap((name) => runs.metric.get(name) ?? [])
      .slice(0, 6);
    const cases = new Map();
    for (const run of shown) cases.set(runs.case[run], [...(cases.get(runs.case[run]) ?? []), run]);
    const over = (metric, row) => {
      const known = row.filter((run) => !Number.isNaN(metric.values[run]));
      return known.length ? mean(independent(metric, known)) : null;
    };
    return table(
      [
        {
          title: "case",
          value: (row) => runs.case[row[0]],
          cell: (row) => h("a", { href: state.toRun(row[0]) }, runs.case[row[0]]),
        },
        { title: "seeds", number: true, value: (row) => row.length },
        ...metrics.map((metric) => ({
          title: metric.name,
          doc: metric.doc,
          number: true,
          value: (row) => over(metric, row)?.mean,
          cell: (row) => text(over(metric, row), metric.unit) || "\u2013",
        })),
        { title: "settings", value: (row) => data.label(row[0]) },
      ],
      [...cases.values()],
      { most: 50, label: "Cases, mean over seeds" },
    );
  };

  const draw = (shown) => {
    const { runs, report } = tcpassay,
      view = state.now(),
      splits = data.splits().filter((factor) => factor.name !== "seed");
    if (!runs.metrics.length || !splits.length) return null;
    const metric =
      runs.metric.get(view.metric) ??
      runs.metric.get(tcpassay.distributions.first([...report.metrics, "goodput", "throughput"])) ??
      runs.metrics[0];
    const named = (name) => splits.find((factor) => factor.name === name);
    const ranked = splits
      .map((factor) => {
        const groups = factor.levels.map(() => /** @type {number[]} */ ([]));
        for (const run of shown)
          if (!Number.isNaN(metric.values[run])) groups[factor.codes[run]].push(metric.values[run]);
        return { factor, share: stats.explained(groups) };
      })
      .sort((a, b) => b.share - a.share)
      .map((one) => one.factor);
    const few = (factor) => factor.levels.length <= MOST;
    // Whether each level of one factor has one level of the other, so that their table would be a diagonal.
    const follows = (one, other) => {
      const of = new Map();
      return shown.every((run) => {
        const code = one.codes[run];
        if (!of.has(code)) of.set(code, other.codes[run]);
        return of.get(code) === other.codes[run];
      });
    };
    const crossed = (one, other) => one !== other && !follows(one, other) && !follows(other, one);
    const usual = named(CONTROLLER) ?? ranked.slice(1).find(few);
    const finer = usual && ranked.find((factor) => factor !== usual && few(factor) && follows(factor, usual));
    const across =
      view.across === NONE ? undefined : (named(view.across) ?? (ranked.length > 1 ? (finer ?? usual) : undefined));
    const down =
      (view.down !== across?.name ? named(view.down) : undefined) ??
      ranked.find((factor) => !across || crossed(factor, across)) ??
      across ??
      ranked[0];
    const second = across === down ? undefined : across;
    const means = cells(metric, down, second, shown);
    const present = (place, levels) => [
      ...new Set([...means.keys()].map((key) => Number(key.split(" ")[place]))),
    ].sort((a, b) => a - b).slice(0, levels);
    const context = { metric, down, across: second, means, rows: present(0), columns: present(1, MOST) };
    const several = new Set(runs.seed).size > 1,
      cases = several && view.rows === "cases";
    const canvas = h("div", {
      class: "chart",
      role: "img",
      "aria-label": `Mean of ${metric.name} by ${down.name}; the numbers are in the table below`,
    });
    const options = splits.map((factor) => [factor.name, factor.name]);
    const made = section(
      "levels",
      "By parameter",
      "Means over the displayed runs, with Student's 95 % confidence interval over the seeds: a seed counts once, with the mean over the parameters that are not shown.",
      h(
        "div",
        { class: "controls" },
        several &&
          tabs(
            "Rows",
            [
              ["", "levels"],
              ["cases", "cases, mean over seeds"],
            ],
            cases ? "cases" : "",
            (value) => state.set({ rows: value || undefined }),
          ),
        select(
          "Metric",
          runs.metrics.map((one) => [one.name, one.name]),
          metric.name,
          (value) => state.set({ metric: value }),
        ),
        !cases && select("down", options, down.name, (value) => state.set({ down: value })),
        !cases &&
          select("across", [[NONE, "nothing"], ...options], second?.name ?? NONE, (value) =>
            state.set({ across: value }),
          ),
      ),
      cases
        ? byCase(shown)
        : means.size
          ? [canvas, grid(context)]
          : h("p", { class: "empty" }, "No run that is shown has this metric."),
    );
    made.ready = () => {
      if (!cases && means.size) look.chart(canvas, "levels", chart(context), 320);
    };
    return made;
  };

  tcpassay.levels = { draw, mean };
}
