// The checks of the plan with their results, failed checks first.
"use strict";

{
  const { h, section, table, units } = tcpassay;
  const SIGNS = { "<=": "≤", ">=": "≥", "==": "=", "!=": "≠" };

  const sign = (check) => (Object.hasOwn(SIGNS, check.op) ? SIGNS[check.op] : String(check.op));

  // The run of a verdict, or the run that decided it, with a link to its page.
  const subject = (one) => {
    const of = tcpassay.runs.of.get(one.case) ?? [];
    const run = of.find((place) => tcpassay.runs.seed[place] === one.seed);
    return run === undefined ? one.subject : h("a", { href: tcpassay.state.toRun(run) }, one.subject);
  };

  // A check of the plan, with each run or statistic that it was applied to.
  const claim = (verdicts, open) => {
    const unit = tcpassay.runs.metric.get(verdicts[0].metric)?.unit ?? "";
    const amount = (value) => (value === null || value === undefined ? "–" : units.amount(value, unit));
    const failed = verdicts.filter((one) => !one.holds),
      [first] = verdicts;
    const same = verdicts.every((one) => one.limit === first.limit);
    const columns = [
      {
        title: "",
        value: (one) => (one.holds ? 1 : 0),
        cell: (one) =>
          h("span", { class: `badge ${one.holds ? "good" : "error"}` }, one.holds ? "holds" : "fails"),
      },
      { title: "run", value: (one) => one.subject, cell: subject },
      { title: "observed", number: true, value: (one) => one.observed, cell: (one) => amount(one.observed) },
      {
        title: "must be",
        number: true,
        value: (one) => one.limit,
        cell: (one) => `${sign(one)} ${amount(one.limit)}`,
      },
      { title: "", value: (one) => one.note },
    ];
    return h(
      "details",
      { class: "group", open },
      h(
        "summary",
        {},
        h("span", { class: `badge ${failed.length ? "error" : "good"}` }, failed.length ? "fails" : "holds"),
        h("strong", {}, `${first.metric} ${sign(first)} ${same ? amount(first.limit) : "…"}`),
        h(
          "span",
          { class: "soft" },
          verdicts.length === 1
            ? first.subject
            : failed.length
              ? `in ${failed.length} of ${verdicts.length}`
              : `in all ${verdicts.length}`,
        ),
        h("span", { class: "soft" }, first.why),
      ),
      table(columns, verdicts, { sort: [0, false], most: 20, label: `${first.metric} ${first.op}` }),
    );
  };

  const draw = () => {
    const { checks } = tcpassay.report;
    if (!checks.length) return null;
    const claims = new Map();
    for (const one of checks) {
      const name = JSON.stringify([one.metric, one.op, one.value, one.why]);
      claims.set(name, [...(claims.get(name) ?? []), one]);
    }
    const fails = (verdicts) => verdicts.some((one) => !one.holds);
    const ordered = [...claims.values()].sort((a, b) => fails(b) - fails(a));
    const broken = ordered.filter(fails).length;
    return section(
      "checks",
      "Checks",
      broken && ordered.length === 1
        ? "The check of the plan fails."
        : broken
        ? `${broken} of ${ordered.length} checks of the plan ${broken === 1 ? "fails" : "fail"}.`
        : ordered.length === 1
          ? "The check of the plan holds."
          : `All ${ordered.length} checks of the plan hold.`,
      ordered.map((verdicts, n) => claim(verdicts, n === 0 && fails(verdicts))),
    );
  };

  tcpassay.checks = { draw };
}
