// The table of all runs that are shown.
"use strict";

{
  const { h, section, table, state, units, data } = tcpassay;
  const USUAL = [
    "goodput",
    "saturation",
    "rtt_p50",
    "rtt_p99",
    "loss_rate",
    "retransmission_rate",
    "timeouts",
    "jain_flows",
  ];
  const FACTORS = 10; // parameters that have columns of their own; the metrics precede them if there are many
  const FEW = 6;

  const draw = (shown) => {
    const { runs, report } = tcpassay,
      view = state.now();
    const factors = runs.factors.filter((factor) => factor.levels.length > 1);
    const metrics = [
      ...new Set([view.metric, ...report.metrics, ...(report.metrics.length > 2 ? [] : USUAL)]),
    ]
      .flatMap((name) => runs.metric.get(name) ?? [])
      .slice(0, 9);
    const measured = metrics.map((metric) => ({
      title: metric.name,
      doc: metric.doc,
      number: true,
      value: (run) => metric.values[run],
      cell: (run) => units.amount(metric.values[run], metric.unit),
    }));
    const several = runs.outcomes.length > 1 || runs.outcomes[0] !== "done";
    const columns = [
      {
        title: "case",
        value: (run) => runs.case[run],
        cell: (run) => h("a", { href: state.toRun(run) }, runs.case[run]),
      },
      { title: "seed", number: true, value: (run) => runs.seed[run] },
      several && {
        title: "outcome",
        value: (run) => runs.outcomes[runs.outcome[run]],
        cell: (run) => h("span", { title: runs.messages[run] }, runs.outcomes[runs.outcome[run]]),
      },
      {
        title: "findings",
        number: true,
        value: (run) => runs.findings[run].length,
        cell: (run) =>
          runs.findings[run].length
            ? h(
                "span",
                { class: `badge ${runs.findings[run][0].severity === "error" ? "error" : "warning"}` },
                runs.findings[run].length,
              )
            : "",
      },
      ...(factors.length > FEW ? measured : []),
      // One column per parameter would be too wide.
      factors.length > FACTORS && { title: "settings", value: (run) => data.label(run) },
      ...(factors.length > FACTORS ? [] : factors)
        .map((factor) => ({
          title: factor.name,
          doc: factor.doc,
          value: (run) => (factor.ordered ? factor.codes[run] : data.level(factor, run)),
          cell: (run) => data.level(factor, run),
        })),
      ...(factors.length > FEW ? [] : measured),
      {
        title: "curves",
        value: (run) => Number(runs.drawn[run]),
        cell: (run) => (runs.drawn[run] ? "yes" : ""),
      },
    ].filter(Boolean);
    const find = h("input", {
      type: "search",
      placeholder: "case …",
      "aria-label": "Go to a case",
      on: {
        keydown: (event) => {
          const wanted = find.value.trim();
          const run =
            event.key === "Enter" && wanted
              ? (shown.find((one) => runs.case[one].startsWith(wanted)) ??
                runs.case.findIndex((name) => name.startsWith(wanted)))
              : -1;
          if (run >= 0) location.hash = state.toRun(run);
        },
      },
    });
    return section(
      "runs",
      "Runs",
      "A click on a heading sorts the table; a click on a case opens its page.",
      h("div", { class: "controls" }, find),
      table(columns, shown, { most: 50, label: "Runs" }),
    );
  };

  tcpassay.table_of_runs = { draw };
}
