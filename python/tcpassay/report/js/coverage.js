// What was run and how complete it was: for each two parameters, the share of the pairs of their levels that a case met.
"use strict";

{
  const { h, section, select, state, units, look } = tcpassay;

  const cell = (pair, factors, i, j) => {
    const width = factors[pair.b].levels.length;
    return pair.counts[i * width + j];
  };

  // The pairs of levels of two parameters, with the number of cases that met each.
  const details = (pair) => {
    const { factors } = tcpassay.runs, [a, b] = [factors[pair.a], factors[pair.b]];
    const most = Math.max(1, ...pair.counts);
    return h("div", { class: "table" }, h("table", { class: "grid" },
      h("caption", {}, `Cases by ${a.name} (down) and ${b.name} (across): ${pair.covered} of ${pair.total} pairs met`),
      h("thead", {}, h("tr", {}, h("th"), b.levels.map((level) => h("th", { scope: "col" }, level)))),
      h("tbody", {}, a.levels.map((level, i) => h("tr", {}, h("th", { scope: "row" }, level), b.levels.map((_, j) => {
        const count = cell(pair, factors, i, j);
        if (count < 0) return h("td", { class: "number soft", title: "the plan's constraints leave no such case" }, "–");
        return h("td", { class: `number ${count ? "" : "missing"}`, style: count ? `--share:${Math.round(8 + (40 * count) / most)}%` : null }, count);
      }))))));
  };

  const chart = (element, pairs, factors, pick) => {
    const style = look.style(), names = factors.map((factor) => factor.name), size = factors.length;
    const cells = pairs.map((pair, n) => ({ value: [factors.indexOf(tcpassay.runs.factors[pair.b]), factors.indexOf(tcpassay.runs.factors[pair.a]), pair.total ? (100 * pair.covered) / pair.total : 100], pair: n }));
    const longest = Math.max(...names.map((name) => name.length));
    const margin = Math.min(220, 20 + 6.6 * longest), step = size > 24 ? 22 : size > 12 ? 28 : 36;
    const made = look.chart(element, "coverage", {
      grid: { left: margin, right: 16, top: 8, bottom: Math.min(170, 24 + 5 * longest) + 50 },
      xAxis: { type: "category", data: names, axisLabel: { color: style.soft, fontSize: 11, rotate: size > 4 ? 40 : 0, interval: 0 }, axisTick: { show: false }, axisLine: { show: false } },
      yAxis: { type: "category", data: names, inverse: true, axisLabel: { color: style.soft, fontSize: 11, interval: 0 }, axisTick: { show: false }, axisLine: { show: false } },
      visualMap: { min: 0, max: 100, orient: "horizontal", left: margin, bottom: 0, itemWidth: 12, itemHeight: 120, text: ["100 % of pairs met", "0 %"], textStyle: { color: style.soft, fontSize: 11 }, inRange: { color: [style.bad, style.warn, style.ramp[2], style.ramp[1]] }, hoverLink: false },
      tooltip: look.tooltip({ trigger: "item", formatter: ({ data }) => {
        const pair = pairs[data.pair], { factors: all } = tcpassay.runs;
        return look.tip(`${all[pair.a].name} × ${all[pair.b].name}`, [["pairs of levels met", `${pair.covered} of ${pair.total}`], ["fewest cases of a pair", String(Math.min(...pair.counts.filter((count) => count >= 0)))]]);
      } }),
      series: [{ type: "heatmap", data: cells, itemStyle: { borderColor: style.paper, borderWidth: 2 }, emphasis: { itemStyle: { borderColor: style.ink } },
        label: { show: size <= 14, fontSize: 10, formatter: ({ data }) => (data.value[2] >= 100 ? "" : `${Math.floor(data.value[2])}`) } }],
    }, Math.max(190, 70 + step * size + Math.min(170, 24 + 5 * longest)));
    made.on("click", ({ data }) => data && pick(data.pair));
  };

  const draw = () => {
    const { coverage } = tcpassay.report, { factors } = tcpassay.runs;
    const { pairs, strengths } = coverage;
    const lines = h("ul", { class: "strengths" }, strengths.map((one) => h("li", {},
      h("b", {}, units.percent(one.covered / one.total, 1)), ` of ${one.total.toLocaleString("en")} ${["", "levels", "pairs", "triples", "quadruples"][one.strength] ?? `${one.strength}-tuples`}`,
      h("span", { class: "meter wide" }, h("i", { style: `width:${(100 * one.covered) / one.total}%` })))));
    if (!pairs.length) {
      return section("coverage", "What was run", `${tcpassay.plural(coverage.cases, "case")} ran to the end.`, strengths.length ? lines : h("p", { class: "empty" }, "Nothing varies, or one parameter alone."));
    }
    const varied = factors.filter((factor) => factor.levels.length > 1);
    const canvas = h("div", { class: "chart", role: "img", "aria-label": "Share of pairs of levels met, parameter by parameter" }), detail = h("div", { "aria-live": "polite" });
    const name = (pair) => `${factors[pair.a].name} × ${factors[pair.b].name}`;
    const pick = (n) => { list.querySelector("select").value = String(n); detail.replaceChildren(details(pairs[n])); state.set({ pair: n }, { quiet: true }); };
    const worst = pairs.reduce((best, pair, n) => (pair.covered / pair.total < pairs[best].covered / pairs[best].total ? n : best), 0);
    const chosen = Math.min(Number(state.now().pair ?? worst) || 0, pairs.length - 1);
    const list = select("Pair", pairs.map((pair, n) => [String(n), name(pair)]), String(chosen), (n) => pick(Number(n)));
    detail.append(details(pairs[chosen]));
    const made = section("coverage", "What was run", `Combinations of levels met by the ${tcpassay.plural(coverage.cases, "case")} that ran to the end. Filters do not change this.`, lines,
      varied.length > 2 ? h("div", { class: "two" }, canvas, h("div", {}, list, detail)) : h("div", {}, detail));
    made.ready = () => varied.length > 2 && chart(canvas, pairs, varied, pick);
    return made;
  };

  Object.assign(tcpassay, { coverage: { draw } });
}
