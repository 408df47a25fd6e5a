// The head of the page with the plan and five summary numbers, and its foot with the command that repeats the plan.
"use strict";

{
  const { h, state, units, plural } = tcpassay;

  const figure = (value, label, kind = "", href = "") =>
    h(
      href ? "a" : "div",
      { class: `figure ${kind}`, href: href || null },
      h("strong", {}, value),
      h("span", {}, label),
    );

  const head = (element) => {
    const { report, runs } = tcpassay;
    const cases = runs.of.size,
      seeds = new Set(runs.seed).size;
    const done = runs.outcome.reduce((sum, code) => sum + Number(runs.outcomes[code] === "done"), 0);
    const expected = new Set(runs.expected),
      refused = runs.expected.filter((run) => runs.outcomes[runs.outcome[run]] !== "done").length;
    const rest = runs.outcomes.flatMap((name, code) => {
      const count = runs.outcome.reduce((sum, one, run) => sum + Number(one === code && !expected.has(run)), 0);
      return count && name !== "done"
        ? [`${count.toLocaleString("en")} ${name}`]
        : count
          ? [`${count.toLocaleString("en")} not refused although expected`]
          : [];
    });
    const held = report.checks.filter((check) => check.holds).length;
    const pairs = report.coverage.lines.find((one) => one.strength === 2);
    const errors = report.findings.filter((one) => one.severity === "error").length;
    const met = new Set(report.findings.map((one) => one.run)).size;
    element.replaceChildren(
      ...[
        h(
          "p",
          { class: "brand" },
          h("a", { href: "#" }, "tcpassay"),
          h("span", {}, `report, version ${report.version}`),
          report.status !== "complete" &&
            h(
              "span",
              { class: "badge warning" },
              report.status === "unknown" ? "without result.json" : report.status,
            ),
        ),
        h("h1", {}, report.plan.name),
        report.plan.doc && h("p", { class: "doc" }, report.plan.doc),
        h(
          "div",
          { class: "figures" },
          figure(
            report.findings.length.toLocaleString("en"),
            report.findings.length
              ? `findings in ${plural(met, "run")}${errors ? `, ${errors} of them errors` : ""}`
              : "findings",
            errors ? "bad" : report.findings.length ? "warn" : "",
            "#findings",
          ),
          report.checks.length > 0 &&
            figure(
              `${held} / ${report.checks.length}`,
              "checks hold",
              held < report.checks.length ? "bad" : "good",
              "#checks",
            ),
          figure(
            done.toLocaleString("en"),
            `${done === 1 ? "run" : "runs"} done${refused ? `, ${refused.toLocaleString("en")} refused as expected` : ""}${rest.length ? `; ${rest.join(", ")}` : ""}`,
            rest.length ? "warn" : "",
            "#runs",
          ),
          figure(
            `${cases.toLocaleString("en")} × ${seeds}`,
            `${cases === 1 ? "case" : "cases"} × ${seeds === 1 ? "seed" : "seeds"}`,
            "",
            "#runs",
          ),
          pairs &&
            figure(units.percent(pairs.covered / pairs.total), "of pairs of levels covered", "", "#coverage"),
        ),
        report.undetermined > 0 &&
          h(
            "div",
            { class: "problems bad", role: "note" },
            h(
              "strong",
              {},
              `${plural(report.undetermined, "repetition")} differed from the first run of the same case and seed.`,
            ),
            " On this substrate a run must repeat byte for byte; result.json lists them.",
          ),
        report.problems.length > 0 &&
          h(
            "div",
            { class: "problems", role: "note" },
            h("strong", {}, `${plural(report.problems.length, "file")} could not be read; this page omits their content.`),
            h(
              "ul",
              {},
              report.problems.slice(0, 20).map((problem) => h("li", {}, problem)),
            ),
            report.problems.length > 20 && h("p", {}, `and ${report.problems.length - 20} more`),
          ),
      ].filter(Boolean),
    );
    // These links scroll to sections of this page; the address continues to define the view.
    for (const link of element.querySelectorAll("a.figure")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        if (state.now().case) location.hash = state.back();
        requestAnimationFrame(() =>
          document.querySelector(link.getAttribute("href"))?.scrollIntoView({ behavior: "smooth" }),
        );
      });
    }
  };

  const provenance = () => {
    const { report } = tcpassay;
    const pairs = (entries) =>
      h(
        "dl",
        { class: "pairs" },
        entries.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? "–")]),
      );
    return tcpassay.section(
      "origin",
      "Provenance",
      "Every number on this page can be repeated from the result folder alone.",
      h(
        "details",
        {},
        h("summary", {}, "Environment"),
        pairs([
          ["folder", report.folder],
          ["version", report.version],
          ["status", report.status],
          ...Object.entries(report.environment),
        ]),
      ),
      h(
        "details",
        {},
        h("summary", {}, `Parameters that are equal in all cases (${Object.keys(report.fixed).length})`),
        pairs(Object.entries(report.fixed)),
      ),
      h("details", {}, h("summary", {}, "The plan"), h("pre", {}, report.plan.text)),
      h(
        "p",
        { class: "lead" },
        `Curves of ${report.drawn.toLocaleString("en")} of ${plural(report.recorded, "recording")} are in this file. Charts are drawn by Apache ECharts ${echarts.version} (Apache License 2.0; this file contains its licence text).`,
      ),
    );
  };

  tcpassay.summary = { head, provenance };
}
