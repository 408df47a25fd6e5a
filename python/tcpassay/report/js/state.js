// The displayed view is a function of the address: every view can be linked to, and the browser's back button works.
//
//   #case=1a2b3c4d5e&seed=2&t=200,450       a run, with the displayed range in milliseconds
//   #w.stack.cc=reno&w.stack.cc=cubic&metric=goodput&by=stack.cc&view=cdf
"use strict";

{
  const FILTER = "w.";

  const parse = (hash) => {
    // Without a prototype, because a parameter may have a name such as `constructor`.
    const state = Object.assign(Object.create(null), { where: Object.create(null) });
    for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (name.startsWith(FILTER)) (state.where[name.slice(FILTER.length)] ??= []).push(value);
      else state[name] = value;
    }
    return state;
  };

  const format = (state) => {
    const made = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) {
      if (name !== "where" && value !== undefined && value !== null && value !== "") made.append(name, value);
    }
    for (const [name, levels] of Object.entries(state.where ?? {}))
      for (const level of levels) made.append(FILTER + name, level);
    return `#${made}`;
  };

  const now = () => parse(location.hash);

  // The address of this view with changed entries; `undefined` removes an entry.
  const link = (change) => format({ ...now(), ...change });

  // A run's own page keeps the filters, so that the way back leads to the same selection.
  // With a finding, its flow and its time range are displayed.
  const toRun = (run, span, finding) => {
    const { runs } = tcpassay;
    return link({
      case: runs.case[run],
      seed: runs.seed[run],
      t: span && span.map((ms) => Number(ms.toFixed(3))).join(","),
      flow: finding?.flow,
      f: finding && runs.findings[run].indexOf(finding),
    });
  };

  const back = () => link({ case: undefined, seed: undefined, t: undefined, flow: undefined, f: undefined });

  // Change the view. `quiet`: without a new entry in the browser's history and without drawing.
  const set = (change, { quiet = false } = {}) => {
    const hash = link(change);
    if (quiet) history.replaceState(null, "", hash);
    else location.hash = hash;
  };

  tcpassay.state = { parse, format, now, link, toRun, back, set };
}
