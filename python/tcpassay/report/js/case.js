// The page of one run: its findings, its curves, its settings and its metrics beside those of the other runs.
"use strict";

{
  const { h, table, command, state, units, stats, data, look, timeline, findings } = tcpassay;

  const unknown = (view) =>
    h(
      "section",
      {},
      h("h2", {}, "No such case"),
      h(
        "p",
        {},
        `There is no case ${view.case}${view.seed === undefined ? "" : ` with seed ${view.seed}`} in this report. `,
        h("a", { href: state.back() }, "All runs"),
      ),
    );

  const locate = (view) => {
    const { runs } = tcpassay;
    const of = runs.of.get(view.case) ?? [];
    return view.seed === undefined ? of[0] : of.find((run) => String(runs.seed[run]) === view.seed);
  };

  const settings = (run) => {
    const { runs, report } = tcpassay;
    const rows = [
      ...[...runs.factors, ...runs.members].map((factor) => [
        factor.name,
        data.level(factor, run),
        factor.levels.length > 1,
      ]),
      ...Object.entries(report.fixed).map(([name, value]) => [name, value, false]),
    ];
    return h(
      "dl",
      { class: "pairs" },
      rows.map(([name, value, varies]) => [
        h("dt", {}, name),
        h("dd", {}, varies ? h("b", {}, value) : value),
      ]),
    );
  };

  // Each metric of the run, with its rank among the displayed runs.
  const metrics = (run, shown) => {
    const { runs } = tcpassay;
    const rows = runs.metrics
      .filter((metric) => !Number.isNaN(metric.values[run]))
      .map((metric) => {
        const sorted = stats.sort(
          shown.map((one) => metric.values[one]).filter((value) => !Number.isNaN(value)),
        );
        const value = metric.values[run];
        const below =
          sorted.filter((one) => one < value).length + sorted.filter((one) => one === value).length / 2;
        return {
          metric,
          value,
          median: stats.quantile(sorted, 0.5),
          rank: sorted.length > 1 ? below / sorted.length : NaN,
          spread: sorted[0] !== sorted.at(-1),
        };
      });
    return table(
      [
        {
          title: "metric",
          value: (row) => row.metric.name,
          cell: (row) => h("span", { title: row.metric.doc }, row.metric.name),
        },
        {
          title: "this run",
          number: true,
          value: (row) => row.value,
          cell: (row) => units.amount(row.value, row.metric.unit),
        },
        {
          title: "median",
          number: true,
          value: (row) => row.median,
          cell: (row) => units.amount(row.median, row.metric.unit),
        },
        {
          title: "rank among displayed runs",
          value: (row) => row.rank,
          cell: (row) =>
            row.spread && !Number.isNaN(row.rank)
              ? h(
                  "span",
                  { class: "rank", title: `${units.percent(row.rank)} of the displayed runs have lower values` },
                  h("i", { style: `left:${100 * row.rank}%` }),
                )
              : "",
        },
      ],
      rows,
      { label: "Metrics of this run" },
    );
  };

  // The requested and the measured properties of the path.
  const environment = (curves) => {
    const some = curves?.environment?.filter((row) => row.asked !== null) ?? [];
    if (!some.length) return null;
    const unit = (row) => ({ ns: ["s", 1e-9] })[row.unit] ?? [row.unit === "share" ? "1" : row.unit, 1];
    const value = (row, number) => units.amount(number * unit(row)[1], unit(row)[0]);
    return [
      h("h3", {}, "The path: requested and measured"),
      table(
        [
          { title: "what", value: (row) => `${row.entity} ${row.property}` },
          { title: "asked", number: true, value: (row) => row.asked, cell: (row) => value(row, row.asked) },
          {
            title: "measured",
            number: true,
            value: (row) => row.measured,
            cell: (row) => value(row, row.measured),
          },
        ],
        some,
        { label: "Environment" },
      ),
    ];
  };

  const flows = (curves) => {
    if (!curves?.flows.length) return null;
    const { counters, tcp } = {
      counters: (flow, name) => flow.counters?.[name],
      tcp: (flow, name) => flow.tcp?.[name],
    };
    const amount = (title, value, unit) => ({
      title,
      number: true,
      value,
      cell: (flow) => units.amount(value(flow), unit),
    });
    return [
      h("h3", {}, "Flows"),
      table(
        [
          { title: "flow", value: (flow) => flow.name },
          {
            title: "from, to",
            value: (flow) => flow.from,
            cell: (flow) => h("span", { class: "setting" }, `${flow.from} → ${flow.to}`),
          },
          { title: "controller", value: (flow) => flow.cc },
          amount("read", (flow) => counters(flow, "read_bytes"), "B"),
          amount("retransmitted", (flow) => counters(flow, "retransmitted_bytes"), "B"),
          amount("timeouts", (flow) => tcp(flow, "timeouts"), ""),
          amount("recoveries", (flow) => tcp(flow, "recoveries"), ""),
          amount("CE packets", (flow) => counters(flow, "ce_packets"), ""),
        ],
        curves.flows,
        { label: "Flows" },
      ),
      curves.senders > curves.flows.length &&
        h(
          "p",
          { class: "lead" },
          `${curves.flows.length} of ${curves.senders} flows: those with findings, then those with most timeouts and bytes.`,
        ),
    ];
  };

  // The distribution of the latencies of all packets of this run; elsewhere a run has one value per metric.
  const latencies = (element, curves) => {
    const style = look.style(),
      at = (place) => curves.arrays[place];
    const all = curves.distributions.map((one) => ({ ...one, x: Array.from(at(one.x)), y: at(one.y) }));
    const { unit, by } = units.scale("s", Math.max(...all.map((one) => one.x.at(-1))));
    const positive = all
      .flatMap((one) => one.x)
      .filter((value) => value > 0)
      .map((value) => value / by);
    if (!positive.length) return;
    // The delay of an empty queue is zero, which has no logarithm: such values are drawn at the left edge.
    const least = Math.min(...positive);
    look.chart(
      element,
      "latency",
      {
        grid: { left: 64, right: 12, top: 30, bottom: 46 },
        legend: look.legend(all.map((one) => one.title)),
        xAxis: look.logarithmic(units.named("Latency", unit), positive),
        yAxis: look.axis("Cumulative share of packets", { min: 0, max: 1, scale: false, nameGap: 42 }),
        tooltip: look.tooltip({
          trigger: "item",
          formatter: ({ seriesName, value, color }) =>
            look.tip(seriesName, [
              ["latency", `${units.number(value[0], 5)} ${unit}`, color],
              ["share", units.percent(value[1], 2)],
            ]),
        }),
        series: all.map((one, n) => ({
          name: one.title,
          type: "line",
          step: "end",
          color: style.series[n % style.series.length],
          showSymbol: one.x.length < 2,
          triggerLineEvent: true,
          lineStyle: { width: 2 },
          data: one.x.map((value, k) => [Math.max(value / by, least), one.y[k]]),
        })),
      },
      280,
    );
  };

  const draw = (view, shown) => {
    const { runs, report } = tcpassay,
      run = locate(view);
    if (run === undefined) return unknown(view);
    const at = shown.indexOf(run),
      others = (runs.of.get(runs.case[run]) ?? []).filter((one) => one !== run);
    const beside = (place, text) => {
      const other = shown[place];
      return other === undefined
        ? h("span", { class: "soft" }, text)
        : h(
            "a",
            {
              href: state.link({
                case: runs.case[other],
                seed: runs.seed[other],
                t: undefined,
                flow: undefined,
                f: undefined,
              }),
              rel: text.startsWith("←") ? "prev" : "next",
            },
            text,
          );
    };
    const outcome = runs.outcomes[runs.outcome[run]],
      own = runs.findings[run];
    const canvas = h("div", { class: "timeline" }),
      controls = h("div", { class: "controls" }),
      notes = h("p", { class: "lead" }),
      measured = h("div"),
      latency = h("div", {
        class: "chart",
        role: "img",
        "aria-label": "Distribution of latencies in this run",
      });
    const repeat =
      own.find((one) => one.replay)?.replay ??
      `${report.replay} ${runs.case[run]}${others.length ? ` --seed ${runs.seed[run]}` : ""}`;
    const made = h(
      "section",
      { id: "case" },
      h(
        "nav",
        { class: "crumbs", "aria-label": "Runs" },
        h("a", { href: state.back() }, "All runs"),
        h("span", { class: "space" }),
        beside(at < 0 ? -1 : at - 1, "← previous"),
        h("span", { class: "soft" }, at < 0 ? "" : `${at + 1} of ${shown.length}`),
        beside(at < 0 ? -1 : at + 1, "next →"),
      ),
      h(
        "h2",
        {},
        `Case ${runs.case[run]}`,
        h("span", { class: "soft" }, ` seed ${runs.seed[run]}`),
        outcome !== "done" &&
          h("span", { class: `badge ${runs.expected.includes(run) ? "good" : "error"}` }, outcome),
      ),
      h(
        "p",
        { class: "lead" },
        data.label(run),
        others.length > 0 && [
          " · other seeds: ",
          others.map((one) => [
            h(
              "a",
              { href: state.link({ case: runs.case[one], seed: runs.seed[one], t: undefined, f: undefined }) },
              String(runs.seed[one]),
            ),
            " ",
          ]),
        ],
      ),
      runs.messages[run] && h("pre", {}, runs.messages[run]),
      outcome !== "not run" && command(repeat),
      own.map((finding, n) =>
        findings.card(finding, { alone: true, selected: own.length > 1 && n === timeline.chosen(run) }),
      ),
      h("h3", {}, "Time series"),
      controls,
      canvas,
      notes,
      runs.drawn[run] &&
        h("div", { class: "two" }, h("div", {}, h("h3", {}, "Latency in this run"), latency), measured),
      h(
        "div",
        { class: "two" },
        h("div", {}, h("h3", {}, "Metrics"), metrics(run, shown)),
        h("div", {}, h("h3", {}, "Settings"), settings(run)),
      ),
    );
    made.ready = async () => {
      if (!runs.drawn[run]) {
        canvas.replaceChildren(
          h(
            "p",
            { class: "empty" },
            "The curves of this run are not in this file, because the plan did not keep its recording ([keep]) or the report had reached its maximum size. The command above repeats the run; with --out DIR it keeps the recording.",
          ),
        );
        return;
      }
      const curves = await tcpassay.unpack(`curves-${run}`);
      if (!made.isConnected) return;
      controls.replaceChildren(
        ...[
          timeline.choice(curves),
          h("span", { class: "soft" }, "Drag to zoom, double-click for all; keys: ← → + − 0"),
        ].filter(Boolean),
      );
      const drawn = timeline.draw(canvas, curves, run);
      notes.replaceChildren(...(drawn?.notes ?? []));
      if (drawn && curves.flows.length) canvas.before(timeline.legend(curves));
      if (curves.distributions.length) latencies(latency, curves);
      else latency.replaceChildren(h("p", { class: "empty" }, "The recording has no latencies."));
      measured.replaceChildren(...[environment(curves), flows(curves)].flat().filter(Boolean));
      tcpassay.curves = curves;
    };
    return made;
  };

  tcpassay.run_page = { draw };
}
