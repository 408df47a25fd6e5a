// The filter bar: it shows which runs are displayed, and selects runs by the levels of parameters.
"use strict";

{
  const { h, state, data, plural } = tcpassay;
  const CLOSED = 6; // factors beyond which the choices are folded away at first
  const NARROW = 700; // pixels up to which they are folded away, too
  /** @type {boolean | null} */
  let open = null;

  const change = (name, levels) => {
    const where = Object.assign(Object.create(null), state.now().where);
    if (levels.length) where[name] = levels;
    else delete where[name];
    state.set({ where });
  };

  const flip = (factor, level) => {
    const chosen = state.now().where[factor.name] ?? [];
    const next = chosen.includes(level) ? chosen.filter((one) => one !== level) : [...chosen, level];
    change(factor.name, next.length === factor.levels.length ? [] : next);
  };

  // For each level, the number of runs that would be displayed if it were selected, given all other filters.
  const counts = (factor, view) => {
    const where = { ...view.where };
    delete where[factor.name];
    const made = new Array(factor.levels.length).fill(0);
    for (const run of data.selected({ where, only: view.only })) made[factor.codes[run]]++;
    return made;
  };

  const row = (factor, view) => {
    const chosen = view.where[factor.name] ?? [],
      count = counts(factor, view);
    return h(
      "div",
      { class: "factor", role: "group", "aria-label": factor.name },
      h("span", { class: "name", title: factor.doc }, factor.name),
      h(
        "span",
        { class: "levels" },
        factor.levels.map((level, n) =>
          h(
            "button",
            {
              type: "button",
              class: "level",
              "data-factor": factor.name,
              "data-level": level,
              "aria-pressed": String(chosen.includes(level)),
              on: { click: () => flip(factor, level) },
            },
            level,
            h("small", {}, count[n]),
          ),
        ),
      ),
    );
  };

  const draw = (element, view, shown) => {
    const factors = data.splits(),
      { runs, report } = tcpassay;
    open ??= factors.length <= CLOSED && innerWidth > NARROW;
    // Restore the keyboard focus, because the bar is redrawn after every selection.
    const held = document.activeElement?.closest?.(".level");
    const focus = held instanceof HTMLElement && element.contains(held) ? [held.dataset.factor, held.dataset.level] : null;
    const chips = Object.entries(view.where).map(([name, levels]) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          title: "Remove this filter",
          on: { click: () => change(name, []) },
        },
        `${name} = ${levels.join(" or ")}`,
        h("b", { "aria-hidden": "true" }, "×"),
      ),
    );
    if (view.only)
      chips.push(
        h(
          "button",
          { type: "button", class: "chip", on: { click: () => state.set({ only: undefined }) } },
          "with findings",
          h("b", { "aria-hidden": "true" }, "×"),
        ),
      );
    element.replaceChildren(
      h(
        "div",
        { class: "bar" },
        h(
          "strong",
          { "aria-live": "polite" },
          shown.length === runs.count
            ? plural(runs.count, "run")
            : `${shown.length.toLocaleString("en")} of ${plural(runs.count, "run")}`,
        ),
        chips,
        chips.length > 1 &&
          h(
            "button",
            {
              type: "button",
              class: "plain",
              on: { click: () => state.set({ where: {}, only: undefined }) },
            },
            "Show all",
          ),
        h("span", { class: "space" }),
        report.findings.length > 0 &&
          !view.only &&
          h(
            "button",
            { type: "button", class: "plain", on: { click: () => state.set({ only: "findings" }) } },
            "Only with findings",
          ),
        factors.length > 0 &&
          h(
            "button",
            {
              type: "button",
              class: "plain",
              "aria-expanded": String(open),
              "aria-controls": "factors",
              on: {
                click: () => {
                  open = !open;
                  draw(element, state.now(), shown);
                },
              },
            },
            open ? "Hide filters" : "Filter",
          ),
      ),
      h(
        "div",
        { id: "factors", hidden: !open },
        factors.map((factor) => row(factor, view)),
      ),
    );
    if (focus)
      [...element.querySelectorAll(".level")]
        .find((one) => one.dataset.factor === focus[0] && one.dataset.level === focus[1])
        ?.focus();
  };

  tcpassay.filters = { draw };
}
