// Which controller is better for which metric, at each level of another factor.
"use strict";

{
  const { h, section, table } = tcpassay;

  const draw = () => {
    const { better } = tcpassay.report;
    if (!better) return null;
    const confidence = `${100 * better.confidence} %`;
    const columns = [
      { title: "metric", value: (one) => one.metric },
      { title: "best", value: (one) => one.best },
      ...(better.rows.some((one) => one.better) ? [{ title: "better", value: (one) => one.better }] : []),
      { title: "medians", value: (one) => one.medians },
      { title: "against the best median", value: (one) => one.against },
    ];
    if (better.by) columns.unshift({ title: better.by, value: (one) => one.level });
    return section(
      "better",
      "Which controller is better",
      `Values of ${better.parameter}, any two of them compared by a signed-rank test on pairs of runs that differ in nothing else, at a confidence of ${confidence}, corrected for all metrics, pairs of values and levels.`,
      h("div", { class: "stacked" }, table(columns, better.rows, { most: 60, label: "controllers" })),
    );
  };

  tcpassay.better = { draw };
}
