// The result of a search: the best cases, and the best value by number of runs.
"use strict";

{
  const { h, section, table, units, look, state } = tcpassay;

  const best = (search) =>
    table(
      [
        {
          title: search.metric,
          number: true,
          value: (one) => one.value,
          cell: (one) => one.text,
        },
        { title: "case", value: (one) => one.case, cell: (one) => h("a", { href: state.toRun(one.run) }, one.case) },
        { title: "settings", value: (one) => one.settings },
      ],
      search.best,
      { sort: null, label: "best cases" },
    );

  const chart = (canvas, search) => {
    const { unit, by } = units.scale(search.unit, Math.max(...search.path.map(([, value]) => Math.abs(value))));
    const last = search.path[search.path.length - 1];
    // The best value is constant until a better one is found, and up to the end of the search.
    const points = [...search.path, [search.runs, last[1]]].map(([runs, value]) => [runs, value / by]);
    look.chart(
      canvas,
      "search",
      {
        grid: { left: 64, right: 20, top: 20, bottom: 50 },
        xAxis: look.axis("runs"),
        yAxis: look.axis(units.named(search.metric, unit), { nameGap: 46 }),
        tooltip: look.tooltip({
          trigger: "item",
          formatter: ({ data: [runs, value] }) =>
            look.tip(`after run ${runs}`, [[search.metric, units.amount(value * by, search.unit)]]),
        }),
        series: [{ type: "line", step: "end", data: points, symbolSize: 5, color: look.style().ink }],
      },
      260,
    );
  };

  const draw = () => {
    const { search } = tcpassay.report;
    if (!search) return null;
    const canvas = h("div", { class: "chart", role: "img", "aria-label": "the best value over the runs" });
    const made = section(
      "search",
      "Search",
      search.lead,
      search.best.length > 0 && best(search),
      search.path.length > 0 && canvas,
    );
    made.ready = () => search.path.length > 0 && chart(canvas, search);
    return made;
  };

  tcpassay.search = { draw };
}
