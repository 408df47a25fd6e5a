// Which behaviours the runs reached, how often, and what the plan requires of them.
"use strict";

{
  const { h, section, table, plural } = tcpassay;
  const required = (one) => {
    if (!one.required) return "";
    const met = one.runs >= one.required;
    return h("span", { class: `badge ${met ? "good" : "error"}` }, met ? "reached" : `needs ${plural(one.required, "run")}`);
  };

  const rows = (some, label) =>
    table(
      [
        { title: "behaviour", value: (one) => one.name },
        { title: "runs", number: true, value: (one) => one.runs, cell: (one) => one.runs.toLocaleString("en") },
        { title: "times", number: true, value: (one) => one.times, cell: (one) => one.times.toLocaleString("en") },
        { title: "required", value: (one) => one.required, cell: required },
      ],
      some,
      { sort: [1, true], most: 40, label },
    );

  const draw = () => {
    const { reached } = tcpassay.report;
    if (!reached.length) return null;
    const missed = reached.filter((one) => one.required > one.runs);
    const regimes = reached.filter((one) => one.regime),
      events = reached.filter((one) => !one.regime);
    const lead = missed.length
      ? `${plural(missed.length, "behaviour")} that the plan requires ${missed.length === 1 ? "was" : "were"} not reached: ${missed.map((one) => one.name).join(", ")}.`
      : `${plural(reached.filter((one) => one.runs).length, "behaviour")} in the event logs of the runs. An oracle can find violations only in behaviours that the runs reach.`;
    return section(
      "reach",
      "Reached behaviour",
      lead,
      regimes.length > 0 && rows(regimes, "regimes"),
      events.length > 0 &&
        h(
          "details",
          { class: "group", open: false },
          h("summary", {}, h("strong", {}, `${plural(events.length, "kind")} of events with their reasons`)),
          rows(events, "events"),
        ),
    );
  };

  tcpassay.reach = { draw };
}
