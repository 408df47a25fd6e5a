// What kept the senders from sending, as shares of their time, for each level of a factor.
"use strict";

{
  const { h, section, state, units, stats, data, look } = tcpassay;
  const LIMITS = [
    "application",
    "nagle",
    "send_buffer",
    "receive_window",
    "congestion_window",
    "pacing",
    "host_queue",
    "recovery",
    "timers",
  ];
  const REST = "not divided";

  // The mean of a share over runs that have it.
  const mean = (group, metric) => {
    const values = group.runs.map((run) => metric.values[run]).filter((value) => !Number.isNaN(value));
    return values.length ? stats.mean(values) : 0;
  };

  const draw = (shown) => {
    const { runs } = tcpassay;
    const limits = LIMITS.flatMap((name) => {
      const metric = runs.metrics.find((one) => one.name === `time_${name}`);
      return metric ? [{ name: name.replace("_", " "), metric }] : [];
    });
    const known = shown.filter((run) => limits.some(({ metric }) => !Number.isNaN(metric.values[run])));
    if (!known.length) return null;
    const splits = data.splits();
    const factor = splits.find((one) => one.name === state.now().by) ?? splits[0];
    const groups = (factor?.levels ?? ["all runs"])
      .map((level, n) => ({ level, runs: known.filter((run) => !factor || factor.codes[run] === n) }))
      .filter((group) => group.runs.length);
    const shares = limits.map(({ name, metric }) => ({
      name,
      values: groups.map((group) => mean(group, metric)),
    }));
    const rest = groups.map((_, n) => Math.max(0, 1 - shares.reduce((sum, one) => sum + one.values[n], 0)));
    if (rest.some((share) => share >= 0.005)) shares.push({ name: REST, values: rest });
    const all = shares.filter((one) => one.values.some((share) => share >= 0.005));
    const canvas = h("div", { class: "chart", role: "img", "aria-label": "shares of time by limit" });
    const made = section(
      "limits",
      "What kept the senders from sending",
      `Shares of the time of the senders (metrics time_*), means of the runs that are shown${factor ? `, by ${factor.name}` : ""}. A kernel does not divide all of it.`,
      canvas,
    );
    made.ready = () => {
      const style = look.style();
      look.chart(
        canvas,
        "limits",
        {
          grid: { left: 10, right: 20, top: 34, bottom: 46, containLabel: true },
          legend: look.legend(all.map((one) => one.name)),
          xAxis: look.axis("share of time (%)", { min: 0, max: 100, scale: false }),
          yAxis: {
            type: "category",
            inverse: true,
            data: groups.map((group) => group.level),
            axisLabel: { color: style.soft },
          },
          tooltip: look.tooltip({
            trigger: "axis",
            axisPointer: { type: "shadow" },
            formatter: (points) =>
              look.tip(
                points[0].name,
                points.map((point) => [point.seriesName, units.percent(point.value / 100, 1), point.color]),
              ),
          }),
          series: all.map((one, n) => ({
            name: one.name,
            type: "bar",
            stack: "time",
            barMaxWidth: 22,
            color: one.name === REST ? style.line : style.series[n % style.series.length],
            data: one.values.map((share) => 100 * share),
          })),
        },
        90 + 28 * groups.length,
      );
    };
    return made;
  };

  tcpassay.limits = { draw };
}
