// Coverage of the runs: for each two parameters, the share of the pairs of their levels that cases contain.
"use strict";

{
  const { h, section, select, state, units, look, plural } = tcpassay;
  const TUPLES = ["", "levels", "pairs", "triples", "quadruples", "quintuples", "sextuples"];

  // The pairs of levels of two parameters, with the number of cases that contain each pair.
  const details = (pair) => {
    const most = Math.max(1, ...pair.counts),
      width = pair.columns.length;
    return h(
      "div",
      { class: "table" },
      h(
        "table",
        { class: "grid" },
        h(
          "caption",
          {},
          `Cases by ${pair.a} (down) and ${pair.b} (across): ${pair.covered} of ${pair.total} pairs covered`,
        ),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th"),
            pair.columns.map((level) => h("th", { scope: "col" }, level)),
          ),
        ),
        h(
          "tbody",
          {},
          pair.rows.map((level, i) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, level),
              pair.columns.map((_, j) => {
                const count = pair.counts[i * width + j];
                if (count < 0)
                  return h(
                    "td",
                    { class: "number soft", title: "excluded by the constraints of the plan" },
                    "–",
                  );
                return h(
                  "td",
                  {
                    class: `number ${count ? "" : "missing"}`,
                    style: count ? `--share:${Math.round(8 + (40 * count) / most)}%` : null,
                  },
                  count,
                );
              }),
            ),
          ),
        ),
      ),
    );
  };

  const chart = (element, pairs, names, pick) => {
    const style = look.style(),
      size = names.length;
    const cells = pairs.map((pair, n) => ({
      value: [
        names.indexOf(pair.b),
        names.indexOf(pair.a),
        pair.total ? (100 * pair.covered) / pair.total : 100,
      ],
      pair: n,
    }));
    const longest = Math.max(...names.map((name) => name.length));
    const left = Math.min(220, 16 + 6.2 * longest),
      below = Math.min(150, 16 + 4.4 * longest),
      step = size > 24 ? 20 : size > 12 ? 26 : 36;
    const label = { color: style.soft, fontSize: 11, interval: 0 };
    const made = look.chart(
      element,
      "coverage",
      {
        grid: { left, right: 8, top: 6, height: step * size },
        xAxis: {
          type: "category",
          data: names,
          axisLabel: { ...label, rotate: 45 },
          axisTick: { show: false },
          axisLine: { show: false },
        },
        yAxis: {
          type: "category",
          data: names,
          inverse: true,
          axisLabel: label,
          axisTick: { show: false },
          axisLine: { show: false },
        },
        visualMap: {
          min: 0,
          max: 100,
          show: false,
          inRange: {
            color: [style.bad, style.warn, look.mix(style.paper, style.accent, 0.45), style.accent],
          },
        },
        tooltip: look.tooltip({
          trigger: "item",
          formatter: ({ data }) => {
            const pair = pairs[data.pair];
            return look.tip(`${pair.a} × ${pair.b}`, [
              ["covered pairs of levels", `${pair.covered} of ${pair.total}`],
              ["fewest cases of a pair", String(Math.min(...pair.counts.filter((count) => count >= 0)))],
            ]);
          },
        }),
        series: [
          {
            type: "heatmap",
            data: cells,
            itemStyle: { borderColor: style.paper, borderWidth: 2 },
            emphasis: { itemStyle: { borderColor: style.ink } },
            label: {
              show: size <= 16,
              fontSize: 10.5,
              color: style.paper,
              formatter: ({ data }) => (data.value[2] >= 100 ? "" : String(Math.floor(data.value[2]))),
            },
          },
        ],
      },
      step * size + below + 10,
    );
    made.on("click", ({ data }) => data && pick(data.pair));
  };

  const key = () =>
    h(
      "p",
      { class: "key" },
      h("span", { class: "bar" }),
      "Colour: the share of covered pairs of levels, from 0 % to 100 %. Shares below 100 % are also numbers. A click shows the pairs.",
    );

  // The coverage at a strength or of a family, with the missing combinations.
  const line = (one) =>
    h(
      "li",
      {},
      h("b", {}, units.percent(one.total ? one.covered / one.total : 1, 1)),
      ` of ${one.total.toLocaleString("en")} ${TUPLES[one.strength]}`,
      one.name !== "all parameters" && h("span", { class: "soft" }, ` of ${one.name}`),
      one.excluded > 0 &&
        h(
          "span",
          { class: "soft", title: "combinations that the constraints of the plan exclude" },
          ` (${one.excluded.toLocaleString("en")} excluded)`,
        ),
      h(
        "span",
        { class: "meter wide" },
        h("i", { style: `width:${one.total ? (100 * one.covered) / one.total : 100}%` }),
      ),
    );

  const missing = (lines) => {
    const first = lines.find((one) => one.covered < one.total);
    if (!first?.missing.length) return null;
    const count = first.total - first.covered;
    return h(
      "details",
      { class: "evidence" },
      h(
        "summary",
        {},
        `${plural(count, TUPLES[first.strength].slice(0, -1))}${first.name === "all parameters" ? "" : ` of ${first.name}`} not covered${count > first.missing.length ? ", for example" : ""}`,
      ),
      h(
        "ul",
        {},
        first.missing.map((example) =>
          h(
            "li",
            {},
            Object.entries(example)
              .map(([name, level]) => `${name} = ${level}`)
              .join(", "),
          ),
        ),
      ),
    );
  };

  // Runs with an unexpected outcome, with their messages; each message is shown once.
  const failures = () => {
    const { runs } = tcpassay,
      expected = new Set(runs.expected),
      groups = new Map();
    for (let run = 0; run < runs.count; run++) {
      if (expected.has(run)) continue;
      const name = `${runs.outcomes[runs.outcome[run]]}${runs.messages[run] ? `: ${runs.messages[run]}` : ""}`;
      groups.set(name, [...(groups.get(name) ?? []), run]);
    }
    if (!groups.size) return null;
    return h(
      "details",
      { class: "evidence", open: true },
      h("summary", {}, `${plural(runs.count - runs.expected.length, "run")} with an unexpected outcome`),
      h(
        "ul",
        {},
        [...groups]
          .sort((a, b) => b[1].length - a[1].length)
          .slice(0, 12)
          .map(([name, of]) =>
            h(
              "li",
              {},
              `${plural(of.length, "run")} ${name.slice(0, 400)} (`,
              of
                .slice(0, 5)
                .map((run, n) => [
                  n ? ", " : "",
                  h("a", { href: state.toRun(run) }, `${runs.case[run]} seed ${runs.seed[run]}`),
                ]),
              of.length > 5 ? ", …)" : ")",
            ),
          ),
      ),
    );
  };

  const varying = () => {
    if (tcpassay.report.search) return "A search chooses values between levels, so that no combinations are counted.";
    return tcpassay.runs.factors.length ? "One parameter varies." : "Nothing varies.";
  };

  const draw = () => {
    const { pairs, lines, cases, planned } = tcpassay.report.coverage;
    const lead = `Combinations of levels in the ${plural(cases, "case")} that ran to the end${planned ? ", relative to all combinations that satisfy the constraints of the plan" : ""}. Filters do not change these numbers.`;
    if (!pairs.length)
      return section(
        "coverage",
        "Coverage",
        `${plural(cases, "case")} ran to the end. ${varying()}`,
        failures(),
      );
    const names = tcpassay.runs.factors
      .map((factor) => factor.name)
      .filter((name) => pairs.some((pair) => pair.a === name || pair.b === name));
    const canvas = h("div", {
        class: "chart",
        role: "img",
        "aria-label": "Share of covered pairs of levels for each two parameters",
      }),
      detail = h("div", { "aria-live": "polite" });
    const pick = (n) => {
      const choice = list.querySelector("select");
      if (choice) choice.value = String(n);
      detail.replaceChildren(details(pairs[n]));
      state.set({ pair: n }, { quiet: true });
    };
    const share = (pair) => (pair.total ? pair.covered / pair.total : 1);
    const worst = pairs.reduce((best, pair, n) => (share(pair) < share(pairs[best]) ? n : best), 0);
    const chosen = Math.min(Number(state.now().pair ?? worst) || 0, pairs.length - 1);
    const list = select(
      "Pair",
      pairs.map((pair, n) => [String(n), `${pair.a} × ${pair.b}`]),
      String(chosen),
      (n) => pick(Number(n)),
    );
    detail.append(details(pairs[chosen]));
    const made = section(
      "coverage",
      "Coverage",
      lead,
      failures(),
      h("ul", { class: "strengths" }, lines.map(line)),
      missing(lines),
      names.length > 2
        ? h("div", { class: "two" }, h("div", {}, canvas, key()), h("div", {}, list, detail))
        : detail,
    );
    made.ready = () => names.length > 2 && chart(canvas, pairs, names, pick);
    return made;
  };

  tcpassay.coverage = { draw };
}
