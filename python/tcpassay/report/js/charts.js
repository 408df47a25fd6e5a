// Appearance and behaviour of all charts. Colours come from the style sheet, which defines the light and the dark theme.
"use strict";

{
  const known = new Map(); // by light or dark

  const style = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (!known.has(dark)) known.set(dark, read());
    return known.get(dark);
  };

  const read = () => {
    const all = getComputedStyle(document.documentElement);
    const get = (name) => all.getPropertyValue(`--${name}`).trim();
    return {
      ink: get("ink"),
      soft: get("soft"),
      line: get("line"),
      paper: get("paper"),
      accent: get("accent"),
      bad: get("bad"),
      warn: get("warn"),
      series: Array.from({ length: 8 }, (_, n) => get(`c${n}`)),
      ramp: [get("ramp0"), get("ramp1"), get("ramp2"), get("ramp3"), get("ramp4")],
      font: all.fontFamily || "sans-serif",
    };
  };

  // Above some thousand points a series is drawn as one shape instead of one object per point.
  const MANY = 2000;

  const mix = (a, b, share) => {
    const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const [x, y] = [parts(a), parts(b)];
    return `#${x
      .map((value, n) =>
        Math.round(value + (y[n] - value) * share)
          .toString(16)
          .padStart(2, "0"),
      )
      .join("")}`;
  };

  // A colour for each level: amounts get a ramp from dark to light, names get colours that differ.
  const palette = (factor) => {
    const { series, ramp } = style();
    const count = factor.levels.length;
    if (factor.ordered && count > 2) {
      return factor.levels.map((_, n) => {
        const at = (n / (count - 1)) * (ramp.length - 1),
          low = Math.min(Math.floor(at), ramp.length - 2);
        return mix(ramp[low], ramp[low + 1], at - low);
      });
    }
    return factor.levels.map((_, n) => series[n % series.length]);
  };

  // Options of an axis; `extra` overrides the defaults.
  const axis = (name, extra = {}) => {
    const look = style();
    return {
      type: "value",
      name,
      nameLocation: "middle",
      nameGap: 30,
      scale: true,
      nameTextStyle: { color: look.soft, fontSize: 12 },
      axisLine: { show: true, onZero: false, lineStyle: { color: look.soft } },
      axisTick: { show: true, lineStyle: { color: look.soft } },
      axisLabel: {
        color: look.soft,
        fontSize: 11,
        hideOverlap: true,
        formatter: (value) => tcpassay.units.number(value, 6),
      },
      splitLine: { lineStyle: { color: look.line } },
      ...extra,
    };
  };

  // A logarithmic axis around these values, with ticks at 1, 2 and 5 of each decade (1 alone over many decades).
  const logarithmic = (name, values, extra = {}) => {
    const low = values.reduce((a, b) => Math.min(a, b), Infinity),
      high = values.reduce((a, b) => Math.max(a, b), 0);
    const first = Math.floor(Math.log10(low)),
      last = Math.ceil(Math.log10(high));
    const steps = last - first > 4 ? [1] : [1, 2, 5];
    const ticks = Array.from({ length: last - first + 1 }, (_, n) =>
      steps.map((step) => step * 10 ** (first + n)),
    ).flat();
    const min = ticks.findLast((tick) => tick <= low) ?? ticks[0],
      max = ticks.find((tick) => tick >= high * (1 - 1e-9)) ?? ticks[ticks.length - 1];
    const own = axis(name, { type: "log", min, max, ...extra });
    const customValues = ticks.filter((tick) => tick >= min && tick <= max);
    return {
      ...own,
      axisTick: { ...own.axisTick, customValues },
      axisLabel: { ...own.axisLabel, customValues },
    };
  };

  // The content of a tooltip as an element, so that no text is interpreted as HTML.
  const tip = (title, rows) => {
    const { h } = tcpassay;
    return h(
      "div",
      { class: "tip" },
      title && h("strong", {}, title),
      h(
        "table",
        {},
        rows.map(([name, value, colour]) =>
          h(
            "tr",
            {},
            h("td", {}, colour && h("i", { style: `background:${colour}` }), name),
            h("td", { class: "number" }, value),
          ),
        ),
      ),
    );
  };

  const tooltip = (extra) => {
    const look = style();
    return {
      confine: true,
      transitionDuration: 0,
      backgroundColor: look.paper,
      borderColor: look.line,
      padding: 0,
      textStyle: { color: look.ink, fontSize: 12 },
      ...extra,
    };
  };

  const legend = (names, extra = {}) => {
    const look = style();
    return {
      type: "scroll",
      top: 0,
      left: 0,
      itemWidth: 18,
      itemHeight: 8,
      itemGap: 16,
      icon: "roundRect",
      itemStyle: { opacity: 1 },
      textStyle: { color: look.ink, fontSize: 12 },
      data: names,
      ...extra,
    };
  };

  // The options that let one drag a rectangle to zoom; `dragging` turns it on, and a double-click shows all again. The tool's
  // icons are not needed.
  const dragOptions = (axes) => ({
    showTitle: false,
    itemSize: 0,
    top: -40,
    feature: { dataZoom: { ...axes, filterMode: "none", brushStyle: { color: `${style().accent}33` } } },
  });

  const dragging = (made, all) => {
    made.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
    made.getZr().on("dblclick", all);
  };

  const live = new Map();
  const resize = new ResizeObserver((entries) => {
    for (const { target } of entries) live.get(target)?.resize();
  });

  // A chart in an element of this height. `name` is how tests and the console find it: tcpassay.charts.get(name).
  const chart = (element, name, option, height) => {
    element.style.height = `${height}px`;
    let made = live.get(element);
    if (!made) {
      made = echarts.init(element, null, { renderer: "canvas" });
      live.set(element, made);
      resize.observe(element);
    }
    made.setOption(
      { animation: false, textStyle: { fontFamily: style().font }, aria: { enabled: true }, ...option },
      { notMerge: true },
    );
    named.set(name, made);
    return made;
  };

  const named = new Map();

  // Disposes of the charts in an element that will be replaced.
  const release = (within) => {
    for (const [element, made] of live) {
      if (!within.contains(element)) continue;
      resize.unobserve(element);
      made.dispose();
      live.delete(element);
      for (const [name, one] of named) if (one === made) named.delete(name);
    }
  };

  tcpassay.look = {
    MANY,
    style,
    palette,
    axis,
    logarithmic,
    tip,
    tooltip,
    legend,
    dragOptions,
    dragging,
    chart,
    release,
    mix,
  };
  tcpassay.charts = named;
}
