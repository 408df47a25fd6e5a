// The series of one run, one below the other on one time axis, with its events and its findings. Drag to zoom, double-click
// or press 0 for the whole run, arrow keys to move, + and - to zoom.
"use strict";

{
  const { h, tabs, state, units, look } = tcpassay;
  const HEIGHT = { throughput: 120, cwnd: 110, rtt: 110, alpha: 80, queue: 90, counts: 70 };
  const LEFT = 92,
    RIGHT = 18,
    GAP = 30;
  const LANE = 17;

  // The flows with curves: the selected ones, otherwise all.
  const flowsOf = (curves) => {
    const names = curves.flows
      .map((flow) => flow.name)
      .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const wanted = state.now().flow;
    return { names, shown: new Set(wanted && names.includes(wanted) ? [wanted] : names) };
  };

  const panels = (curves, flows, colour, x) => {
    const style = look.style(),
      at = (place) => curves.arrays[place];
    const made = curves.panels.flatMap((panel) => {
      // Thresholds of several flows would hide the windows.
      const some = panel.curves.filter(
        (curve) =>
          (curve.owner === undefined || flows.has(curve.owner)) &&
          (curve.owner === curve.name || curve.owner === undefined || flows.size === 1),
      );
      if (!some.length) return [];
      const { unit, by } = units.scale(
        panel.unit,
        Math.max(0, ...some.map((curve) => at(curve.y).reduce((a, b) => Math.max(a, b), 0))),
      );
      const series = some.map((curve) => {
        const own = {
          name: curve.name,
          data: Array.from(at(curve.x), (ns, n) => [x(ns), at(curve.y)[n] / by]),
        };
        if (panel.key === "counts")
          return {
            ...own,
            type: "bar",
            barMaxWidth: 4,
            barMinWidth: 1,
            barGap: "-100%",
            color: curve.name === "drops" ? style.bad : style.warn,
            data: own.data,
          };
        const total = panel.key === "throughput" && curve.flow === undefined && some.length > 1;
        const color = curve.owner === undefined ? style.ink : colour(curve.owner),
          threshold = curve.owner !== undefined && curve.owner !== curve.name;
        if (panel.key === "rtt" && !curve.smoothed)
          return {
            ...own,
            type: "scatter",
            symbolSize: own.data.length > 1200 ? 2 : 3.5,
            color,
            itemStyle: { opacity: 0.7 },
            large: true,
            largeThreshold: 500,
          };
        return {
          ...own,
          type: "line",
          showSymbol: own.data.length < 2,
          symbolSize: 3,
          color,
          lineStyle: {
            width: total || threshold ? 1 : 1.3,
            opacity: total ? 0.55 : 1,
            type: threshold ? "dashed" : "solid",
          },
          areaStyle: panel.key === "queue" ? { opacity: 0.15 } : undefined,
          z: total ? 1 : 2,
        };
      });
      if (panel.key === "throughput" && curves.bottleneck?.rate_bps) {
        series[0].markLine = {
          silent: true,
          symbol: "none",
          lineStyle: { color: style.soft, type: "dashed", width: 1 },
          label: {
            formatter: "capacity",
            position: "insideEndTop",
            distance: 3,
            color: style.soft,
            fontSize: 10,
            backgroundColor: style.paper,
            padding: [1, 3],
          },
          data: [{ yAxis: curves.bottleneck.rate_bps / by }],
        };
      }
      const log = panel.key === "rtt" && wide(series);
      return [
        {
          key: panel.key,
          title: log ? `${panel.title}, log scale` : panel.title,
          unit,
          series,
          height: HEIGHT[panel.key] ?? 90,
          zero: panel.key !== "rtt",
          log,
        },
      ];
    });
    return made;
  };

  // Whether the values are so far apart that a linear axis would show the largest only.
  const wide = (series) => {
    const all = series.flatMap((one) => one.data.map(([, value]) => value)).sort((a, b) => a - b);
    return all.length > 0 && all[0] > 0 && all.at(-1) > 20 * all[all.length >> 1];
  };

  // Events in lanes, one for each kind.
  const lanes = (curves, flows, x) => {
    const style = look.style(),
      at = (place) => curves.arrays[place];
    const colours = {
      timeout: style.bad,
      retransmit: style.warn,
      recovery: style.series[4],
      cwr: style.series[5],
      spurious: style.series[3],
      forgotten: style.bad,
    };
    const names = new Map(curves.flows.map((flow) => [flow.name, Number(flow.name.split(".").at(-1))]));
    const places = new Set([...flows].map((name) => names.get(name)));
    const some = curves.lanes
      .map((lane) => {
        const flow = at(lane.flow);
        // The reverse direction of a connection is the next flow; its events belong to the sender's flow.
        const own = Array.from(at(lane.x), (ns, n) => [ns, flow[n]]).filter(
          ([, place]) => places.size === names.size || places.has(place) || places.has(place - 1),
        );
        return { ...lane, own };
      })
      .filter((lane) => lane.own.length);
    if (!some.length) return null;
    const rows = some.map((lane) => lane.title);
    return {
      key: "events",
      title: "",
      rows,
      height: LANE * rows.length + 6,
      series: some.map((lane, row) => ({
        name: lane.title,
        type: "scatter",
        symbol: "rect",
        symbolSize: [2, 11],
        large: true,
        largeThreshold: 500,
        color: colours[lane.key] ?? style.soft,
        data: lane.own.map(([ns]) => [x(ns), row]),
      })),
    };
  };

  // A faint band over all panels at the first occurrence of the selected finding.
  const bands = (findings, x) => {
    const style = look.style();
    const merged = [];
    for (const { start_ns, first_end_ns, severity } of [...findings].sort(
      (a, b) => a.start_ns - b.start_ns,
    )) {
      const last = merged.at(-1);
      if (last && start_ns <= last.end)
        Object.assign(last, { end: Math.max(last.end, first_end_ns), bad: last.bad || severity === "error" });
      else merged.push({ start: start_ns, end: first_end_ns, bad: severity === "error" });
    }
    return {
      silent: true,
      data: merged.map(({ start, end, bad }) => [
        { xAxis: x(start), itemStyle: { color: bad ? style.bad : style.warn, opacity: 0.13 } },
        { xAxis: x(end) },
      ]),
    };
  };

  const draw = (element, curves, run) => {
    const { findings } = tcpassay.runs,
      style = look.style();
    const seconds = curves.duration_ns >= 20e9;
    const per = seconds ? 1e9 : 1e6,
      unit = seconds ? "s" : "ms";
    const x = (ns) => ns / per,
      end = x(curves.duration_ns);
    const { names, shown } = flowsOf(curves);
    const colour = colourOf(names);
    const marked = [findings[run][chosen(run)]].filter(Boolean);
    const sequence = tcpassay.sequence.panel(curves, shown, colour, x);
    const all = [...panels(curves, shown, colour, x), lanes(curves, shown, x), sequence].filter(Boolean);
    if (!all.length) {
      element.replaceChildren(
        h("p", { class: "empty" }, "The recording has neither series nor events ([collect] in the plan)."),
      );
      return;
    }
    const zoomed = (state.now().t ?? "").split(",").map(Number);
    const [from, to] =
      zoomed.length === 2 && zoomed.every(Number.isFinite) ? zoomed.map((ms) => x(ms * 1e6)) : [0, end];
    let top = 30;
    const grids = [],
      xAxes = [],
      yAxes = [],
      series = [],
      titles = [];
    all.forEach((panel, n) => {
      grids.push({ left: LEFT, right: RIGHT, top, height: panel.height });
      const last = n === all.length - 1;
      xAxes.push(
        look.axis(last ? `Time (${unit})` : "", {
          gridIndex: n,
          min: 0,
          max: end,
          scale: false,
          nameGap: 24,
          axisLabel: { show: last, color: style.soft, fontSize: 11, hideOverlap: true },
          axisTick: { show: last },
          axisPointer: {
            show: true,
            label: { show: false },
            lineStyle: { color: style.soft, type: "solid", width: 1 },
            snap: false,
          },
          axisLine: { show: true, onZero: false, lineStyle: { color: style.line } },
        }),
      );
      yAxes.push(
        panel.rows
          ? {
              type: "category",
              gridIndex: n,
              data: panel.rows,
              inverse: true,
              axisLabel: { color: style.soft, fontSize: 10.5, interval: 0 },
              axisTick: { show: false },
              axisLine: { show: false },
              splitLine: { show: true, lineStyle: { color: style.line } },
            }
          : look.axis("", {
              gridIndex: n,
              type: panel.log ? "log" : "value",
              ...fit(panel, from, to),
              axisLine: { show: false },
              axisTick: { show: false },
            }),
      );
      titles.push({
        text: panel.rows
          ? "Events"
          : panel.key === "sequence"
            ? `${panel.title}, ${panel.unit}`
            : units.named(panel.title, panel.unit),
        left: 0,
        top: top - 19,
        padding: 0,
        textStyle: { color: style.ink, fontSize: 12, fontWeight: 600 },
      });
      panel.series.forEach((one, k) =>
        series.push({
          ...one,
          panel: panel.key,
          xAxisIndex: n,
          yAxisIndex: n,
          markArea: k === 0 && marked.length ? bands(marked, x) : undefined,
        }),
      );
      top += panel.height + (panel.rows ? 26 : GAP);
    });
    const indices = all.map((_, n) => n);
    const canvas = element.firstElementChild ?? h("div", { class: "chart", tabindex: "0", role: "img" });
    canvas.setAttribute(
      "aria-label",
      `Time series: ${all.map((panel) => panel.title || "events").join(", ")}`,
    );
    if (!canvas.parentElement) element.replaceChildren(canvas);
    const option = {
      title: titles,
      grid: grids,
      xAxis: xAxes,
      yAxis: yAxes,
      series,
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      tooltip: look.tooltip({
        trigger: "axis",
        axisPointer: { type: "line" },
        formatter: (points) => describe(points, all, unit),
      }),
      dataZoom: [
        {
          type: "inside",
          xAxisIndex: indices,
          startValue: from,
          endValue: to,
          filterMode: "none",
          zoomOnMouseWheel: "ctrl",
          moveOnMouseMove: false,
          moveOnMouseWheel: "shift",
        },
        {
          type: "slider",
          xAxisIndex: indices,
          startValue: from,
          endValue: to,
          filterMode: "none",
          height: 18,
          bottom: 4,
          left: LEFT,
          right: RIGHT,
          brushSelect: false,
          showDetail: false,
          borderColor: style.line,
          fillerColor: `${style.accent}22`,
          handleStyle: { color: style.accent },
          dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
        },
      ],
      toolbox: look.dragOptions({ yAxisIndex: "none", xAxisIndex: indices }),
    };
    const made = look.chart(canvas, "timeline", option, top + 52);
    listen(canvas, made, all, end, per);
    return { notes: [sequence?.note].filter(Boolean), names };
  };

  // The values at the pointer, by panel.
  const describe = (points, all, unit) => {
    if (!points.length) return "";
    const rows = [];
    for (const panel of all) {
      if (panel.rows) continue;
      for (const point of points
        .filter(
          (one) =>
            panel.series.some((series) => series.name === one.seriesName && series.data.length) &&
            one.axisIndex === all.indexOf(panel),
        )
        .slice(0, 6)) {
        rows.push([
          `${panel.key === "sequence" ? "Sequence number" : panel.title}${point.seriesName === "bottleneck" ? "" : `, ${point.seriesName}`}`,
          `${units.number(point.value[1], panel.key === "sequence" ? 9 : 5)} ${panel.unit}`,
          point.color,
        ]);
      }
    }
    return look.tip(`${units.number(points[0].axisValue, 7)} ${unit}`, rows);
  };

  const bound = new WeakSet();

  // The range of the vertical axis for the visible part of a panel, including the next points outside of it.
  const fit = (panel, start, stop) => {
    let low = panel.zero ? 0 : Infinity,
      high = panel.zero ? 0 : -Infinity;
    for (const { data: points, bars, type } of panel.series) {
      const data = bars ?? points; // [time, value] or [time, low, high]
      const beside = type === "line" ? 1 : 0;
      const first = Math.max(0, lower(data, start) - beside),
        last = Math.min(data.length, lower(data, stop + stop * 1e-12) + beside);
      for (let n = first; n < last; n++) {
        low = Math.min(low, data[n][1]);
        high = Math.max(high, data[n].at(-1));
      }
    }
    if (!(low <= high)) [low, high] = [0, 1];
    if (panel.log) {
      const steps = [1, 2, 5, 10],
        decade = 10 ** Math.floor(Math.log10(low)),
        above = 10 ** Math.floor(Math.log10(high));
      return {
        min: (steps.findLast((step) => step * decade <= low * 1.001) ?? 1) * decade,
        max: (steps.find((step) => step * above >= high * 0.999) ?? 10) * above,
      };
    }
    if (low === high) high = low + (Math.abs(low) || 1) * (panel.zero ? 1 : 0.1);
    const parts = panel.height > 150 ? 6 : 3,
      rough = (high - low) / parts;
    const decade = 10 ** Math.floor(Math.log10(rough)),
      interval = ([1, 2, 2.5, 5, 10].find((step) => step * decade >= rough * 0.999) ?? 10) * decade;
    return {
      min: Math.floor(low / interval + 1e-9) * interval,
      max: Math.ceil(high / interval - 1e-9) * interval,
      interval,
    };
  };

  // The first index whose time is not before `time`.
  const lower = (data, time) => {
    let low = 0,
      high = data.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (data[middle][0] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const listen = (canvas, made, all, end, per) => {
    if (bound.has(canvas)) return;
    bound.add(canvas);
    const window_ = () => {
      const { startValue, endValue } = made.getOption().dataZoom[0];
      return [startValue, endValue];
    };
    const zoom = (start, stop) => {
      const width = Math.min(end, Math.max(stop - start, end * 1e-6)),
        first = Math.min(Math.max(0, start), end - width);
      made.dispatchAction({
        type: "dataZoom",
        batch: [0, 1].map((dataZoomIndex) => ({ dataZoomIndex, startValue: first, endValue: first + width })),
      });
    };
    const note = () => {
      const [start, stop] = window_();
      made.setOption({ yAxis: all.map((panel) => (panel.rows ? {} : fit(panel, start, stop))) });
      const whole = start <= 0 && stop >= end;
      state.set(
        {
          t: whole
            ? undefined
            : [start, stop].map((value) => Number(((value * per) / 1e6).toFixed(6))).join(","),
        },
        { quiet: true },
      );
    };
    made.on("datazoom", note);
    look.dragging(made, () => zoom(0, end));
    canvas.addEventListener("keydown", (event) => {
      const [start, stop] = window_(),
        width = stop - start;
      const moves = {
        ArrowLeft: [-0.25, -0.25],
        ArrowRight: [0.25, 0.25],
        "+": [0.25, -0.25],
        "=": [0.25, -0.25],
        "-": [-0.5, 0.5],
      };
      if (event.key === "0") zoom(0, end);
      else if (moves[event.key])
        zoom(start + moves[event.key][0] * width, stop + moves[event.key][1] * width);
      else return;
      event.preventDefault();
    });
    canvas.zoom = zoom;
  };

  // The index of the selected finding: that of the address, or the first one.
  const chosen = (run) => {
    const place = Number(state.now().f ?? 0);
    return place in tcpassay.runs.findings[run] ? place : 0;
  };

  const colourOf = (names) => (name) =>
    look.style().series[names.indexOf(name) % look.style().series.length];

  // The legend: colours of the flows, and the meaning of other lines.
  const legend = (curves) => {
    const { names, shown } = flowsOf(curves),
      colour = colourOf(names);
    const of = new Map(curves.flows.map((flow) => [flow.name, flow]));
    const entry = (name) => {
      const flow = of.get(name);
      return h(
        "li",
        {},
        h("i", { style: `background:${colour(name)}` }),
        `${name} (${flow.from} \u2192 ${flow.to}${flow.cc ? `, ${flow.cc}` : ""})`,
      );
    };
    return h(
      "ul",
      { class: "legend", "aria-label": "Flows by colour" },
      names.filter((name) => shown.has(name)).map(entry),
      names.length > 1 && h("li", {}, h("i", { class: "all" }), "all flows, bottleneck"),
    );
  };

  // The selection of a flow if there are several.
  const choice = (curves) => {
    const { names, shown } = flowsOf(curves);
    if (names.length < 2) return null;
    return tabs(
      "Flows shown",
      [["", "all flows"], ...names.map((name) => [name, name])],
      shown.size === 1 ? [...shown][0] : "",
      (name) => state.set({ flow: name || undefined }),
    );
  };

  tcpassay.timeline = { draw, choice, legend, chosen };
}
