// What the plan says must hold, and whether it did; what did not comes first.
"use strict";

{
  const { h, section, table, units } = tcpassay;
  const SIGNS = { "<=": "≤", ">=": "≥", "==": "=", "!=": "≠" };

  const draw = () => {
    const { report, runs } = tcpassay;
    if (!report.checks.length) return null;
    const failed = report.checks.filter((check) => !check.holds).length;
    const unit = (check) => runs.metric.get(check.metric)?.unit ?? "";
    const value = (check, number) => (number === null || number === undefined ? "–" : units.amount(number, unit(check)));
    const columns = [
      { title: "", value: (check) => (check.holds ? 1 : 0), cell: (check) => h("span", { class: `badge ${check.holds ? "good" : "error"}` }, check.holds ? "holds" : "fails") },
      { title: "metric", value: (check) => check.metric },
      { title: "of", value: (check) => check.subject },
      { title: "observed", number: true, value: (check) => check.observed, cell: (check) => value(check, check.observed) },
      { title: "must be", number: true, value: (check) => check.limit, cell: (check) => `${SIGNS[check.op] ?? check.op} ${value(check, check.limit)}` },
      { title: "why", value: (check) => check.note || check.why },
    ];
    return section("checks", "Checks", failed ? `${failed} of ${report.checks.length} claims of the plan do not hold.` : "Every claim of the plan holds.",
      h("details", { open: failed > 0 || report.checks.length <= 12 }, h("summary", {}, `All ${report.checks.length}`), table(columns, report.checks, { sort: [0, false], most: 40, label: "Checks" })));
  };

  Object.assign(tcpassay, { checks: { draw } });
}
