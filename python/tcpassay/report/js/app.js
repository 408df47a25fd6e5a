// Draws the view that the address (URL fragment) defines, and redraws it when the address changes.
"use strict";

{
  const {
    byId,
    h,
    data,
    state,
    look,
    filters,
    summary,
    findings,
    checks,
    coverage,
    reach,
    kcov,
    better,
    search,
    levels,
    distributions,
    tradeoff,
    limits,
    table_of_runs,
    run_page,
  } = tcpassay;
  const main = byId("main");
  /** @type {{ case?: string, seed?: string, scroll?: number } | null} */
  let before = null;

  const overview = (shown) => [
    search.draw(),
    findings.draw(shown),
    checks.draw(),
    better.draw(),
    levels.draw(shown),
    coverage.draw(),
    reach.draw(),
    kcov.draw(),
    distributions.draw(shown),
    tradeoff.draw(shown),
    limits.draw(shown),
    table_of_runs.draw(shown),
    summary.provenance(),
  ];

  const draw = async () => {
    const view = state.now(),
      shown = data.selected(view);
    const same = before !== null && before.case === view.case && before.seed === view.seed;
    const scroll = scrollY,
      focused = focusPath();
    look.release(main);
    filters.draw(byId("filters"), view, shown);
    document.body.classList.toggle("single", view.case !== undefined);
    const parts = (view.case === undefined ? overview(shown) : [run_page.draw(view, shown)]).filter(Boolean);
    main.replaceChildren(...parts);
    for (const part of parts) await part.ready?.();
    document.title = view.case === undefined ? tcpassay.title : `${view.case} · ${tcpassay.title}`;
    if (same) {
      scrollTo(0, scroll);
      refocus(focused);
    } else if (before !== null) {
      scrollTo(0, view.case === undefined ? (before.scroll ?? 0) : main.offsetTop - 54);
      main.focus({ preventScroll: true });
    }
    before = { case: view.case, seed: view.seed, scroll: view.case === undefined ? scrollY : before?.scroll };
    document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready ?? 0) + 1);
  };

  // A control that changed the view is redrawn; the keyboard focus is restored.
  const focusPath = () => {
    const element = document.activeElement;
    if (!element || !main.contains(element) || !element.closest(".controls")) return null;
    const owner = element.closest("section")?.id,
      all = [...document.querySelectorAll(`#${owner} .controls :is(select, button, input)`)];
    return [owner, all.indexOf(element)];
  };

  const refocus = (path) => {
    if (!path) return;
    const control = document.querySelectorAll(`#${path[0]} .controls :is(select, button, input)`)[path[1]];
    if (control instanceof HTMLElement) control.focus({ preventScroll: true });
  };

  const start = async () => {
    tcpassay.title = document.title;
    await data.read();
    summary.head(byId("head"));
    addEventListener("hashchange", draw);
    addEventListener(
      "scroll",
      () => {
        if (before && before.case === undefined) before.scroll = scrollY;
      },
      { passive: true },
    );
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    await draw();
  };

  start().catch((error) => {
    main.replaceChildren(h("p", { class: "empty" }, "This report could not be drawn: ", String(error)));
    throw error;
  });
}
