// The findings: description, place and time, and the command that repeats the run.
"use strict";

{
  const { h, section, table, command, state, units, stats, data, plural } = tcpassay;

  const badge = (severity) =>
    h("span", { class: `badge ${severity === "error" ? "error" : "warning"}` }, severity);

  // The time window of the first occurrence, extended on both sides so that it includes the cause.
  const span = (finding) => {
    const start = finding.start_ns / 1e6,
      end = finding.first_end_ns / 1e6,
      margin = Math.max(0.3 * (end - start), 5);
    return [Math.max(0, start - margin), end + margin];
  };

  const evidence = (finding) => {
    if (!finding.rows) return null;
    const columns = [
      { title: "row", number: true, value: (row) => row.index },
      { title: "time", number: true, value: (row) => row.time_ns, cell: (row) => units.ms(row.time_ns) },
      { title: "host", value: (row) => row.host },
      { title: "flow", value: (row) => row.flow },
      { title: "event", value: (row) => (row.why ? `${row.kind}: ${row.why}` : row.kind) },
      {
        title: "values",
        value: (row) =>
          Object.entries(row.values)
            .map(([name, value]) => `${name}=${value}`)
            .join(" "),
      },
    ];
    const frames = finding.packets.length ? `; frames ${finding.packets.join(", ")} of packets.pcapng` : "";
    return h(
      "details",
      { class: "evidence" },
      h("summary", {}, `Evidence: ${plural(finding.rows, "row")} of events.parquet${frames}`),
      finding.events.length
        ? table(columns, finding.events, { label: "Rows of the event log" })
        : h("p", {}, "The rows are listed in findings.json."),
    );
  };

  // The sequence diagram of `tcpassay explain`, as an image, because images do not run scripts (the folder is untrusted).
  const drawing = (finding) =>
    finding.drawing &&
    h("img", {
      class: "drawing",
      src: `data:image/svg+xml;base64,${finding.drawing}`,
      alt: `Sequence of events: ${finding.title}`,
    });

  // The finding that represents several: an explained one, or the most frequent one.
  const example = (found) =>
    found.find((finding) => finding.drawing) ??
    found.reduce((best, finding) => (finding.count > best.count ? finding : best));

  // One finding with all details. The page of its run omits the command, which it already shows.
  const card = (finding, { alone = false, selected = false } = {}) => {
    const where = finding.run === null ? null : state.toRun(finding.run, span(finding), finding);
    return h(
      "article",
      { class: `finding ${finding.severity === "error" ? "error" : "warning"}${selected ? " selected" : ""}` },
      h(
        "h4",
        {},
        badge(finding.severity),
        ` ${finding.title}`,
        finding.count > 1 &&
          h(
            "span",
            { class: "times", title: "number of occurrences; the text describes the first one" },
            `× ${finding.count}`,
          ),
      ),
      h(
        "p",
        { class: "where" },
        !alone && where && [h("a", { href: where }, `case ${finding.case}, seed ${finding.seed}`), " · "],
        `${finding.host}, ${finding.flow} · ${units.ms(finding.start_ns)} to ${units.ms(finding.end_ns)} · `,
        alone && where && [h("a", { href: where, class: "zoom" }, "show its time and flow"), " · "],
        finding.oracle,
      ),
      h(finding.text.includes("\n") ? "pre" : "p", {}, finding.text),
      drawing(finding),
      !alone && finding.replay && command(finding.replay),
      evidence(finding),
    );
  };

  // For each parameter the levels of the runs with the finding, if not all displayed runs have these levels. Parameters with as many
  // levels as there are runs with the finding are omitted, because that is expected by chance.
  const shared = (found, shown) => {
    const hit = [...new Set(found.map((one) => one.run))].filter((run) => run !== null);
    const parts = tcpassay.runs.factors.flatMap((factor) => {
      const levels = [...new Set(hit.map((run) => factor.codes[run]))].sort((a, b) => a - b),
        all = new Set(shown.map((run) => factor.codes[run]));
      return levels.length < Math.max(hit.length, 2) && levels.length < all.size ? [{ factor, levels }] : [];
    });
    if (!parts.length)
      return h("p", { class: "shared" }, "The runs with this finding have no setting in common that distinguishes them from the other runs.");
    const alike = shown.filter((run) =>
      parts.every(({ factor, levels }) => levels.includes(factor.codes[run])),
    );
    const where = Object.fromEntries(
      parts.map(({ factor, levels }) => [factor.name, levels.map((code) => factor.levels[code])]),
    );
    return h(
      "p",
      { class: "shared" },
      h("b", {}, hit.length === 1 ? "The run with this finding has " : "All runs with this finding have "),
      parts.map(({ factor, levels }, n) => [
        n ? ", " : "",
        h(
          "span",
          { class: "setting" },
          `${factor.name} = ${levels.map((code) => factor.levels[code]).join(" or ")}`,
        ),
      ]),
      ` — of the ${plural(alike.length, "run")} with these settings ${hit.length} ${hit.length === 1 ? "has" : "have"} the finding. `,
      h("a", { href: state.link({ where: { ...state.now().where, ...where } }) }, "Show these runs"),
    );
  };

  // For each level, the number of displayed runs with findings, which indicates possible causes. A parameter is listed
  // if its levels differ significantly (chi squared, 5 %, corrected for the number of parameters).
  const spread = (found, shown) => {
    const hit = new Set(found.map((one) => one.run)),
      all = hit.size / shown.length;
    const rows = tcpassay.runs.factors
      .map((factor) => {
        const of = factor.levels.map((level) => ({ level, hits: 0, runs: 0 }));
        for (const run of shown) {
          const own = of[factor.codes[run]];
          own.runs++;
          if (hit.has(run)) own.hits++;
        }
        const levels = of.filter((one) => one.runs),
          rates = levels.map((one) => one.hits / one.runs);
        const squared = levels.reduce(
          (sum, one) => sum + (one.hits - all * one.runs) ** 2 / (one.runs * all * (1 - all)),
          0,
        );
        return {
          factor,
          levels,
          gap: Math.max(...rates) - Math.min(...rates),
          p: all < 1 ? stats.chi2(squared, levels.length - 1) : 1,
        };
      })
      .filter((row) => row.levels.length > 1)
      .sort((a, b) => a.p - b.p || b.gap - a.gap);
    if (!rows.length) return null;
    const telling = rows.filter((row) => row.p < 0.05 / rows.length),
      rest = rows.filter((row) => !telling.includes(row));
    const draw = ({ factor, levels }) =>
      h(
        "div",
        { class: "spreadrow" },
        h("span", { class: "name", title: factor.name }, factor.name),
        h(
          "span",
          { class: "rates" },
          levels.map(({ level, hits, runs }) =>
            h(
              "span",
              { class: "rate", title: `${hits} of ${runs} runs with ${factor.name} = ${level}` },
              h("span", {}, level),
              h("span", { class: "meter" }, h("i", { style: `width:${(100 * hits) / runs}%` })),
              h("b", {}, units.percent(hits / runs, hits / runs < 0.1 ? 1 : 0)),
            ),
          ),
        ),
      );
    return h(
      "div",
      { class: "spread" },
      telling.length > 0 && [
        h("h5", {}, "Share of runs with this finding by level: parameters with a significant effect"),
        telling.map(draw),
      ],
      rest.length > 0 &&
        h(
          "details",
          { class: "evidence" },
          h(
            "summary",
            {},
            telling.length
              ? "The other parameters: no significant effect"
              : "Share of runs with this finding by level: no significant effect",
          ),
          rest.map(draw),
        ),
    );
  };

  // A connection has two flows, one per direction.
  const connection = (flow) => {
    const match = /^(.*\.)(\d+)$/.exec(flow);
    return match ? `${match[1]}${Number(match[2]) >> 1}` : flow;
  };

  // Groups of findings (one oracle and title each) that have one cause: in most runs of the smaller one the larger one
  // was found, too, of the same connection and at the same time. Each cause begins with the most informative group.
  const NEAR_NS = 1e6;
  const causes = (groups) => {
    const places = groups.map((found) => {
      const of = new Map();
      for (const one of found) {
        const key = `${one.run} ${connection(one.flow)}`;
        of.set(key, [...(of.get(key) ?? []), [one.start_ns - NEAR_NS, one.end_ns + NEAR_NS]]);
      }
      return of;
    });
    const meet = (a, b) => a.some(([from, to]) => b.some(([start, end]) => start <= to && from <= end));
    const together = (small, large) => {
      const keys = [...small.keys()];
      const hits = keys.filter((key) => large.has(key) && meet(small.get(key), large.get(key))).length;
      return hits >= 0.8 * keys.length;
    };
    const made = [];
    groups.forEach((found, n) => {
      const cause = made.find((one) => together(places[n], places[one[0]]));
      if (cause) cause.push(n);
      else made.push([n]);
    });
    return made.map((places_) => places_.map((place) => groups[place]));
  };

  const about = (oracle) =>
    Object.hasOwn(tcpassay.report.oracles, oracle) ? tcpassay.report.oracles[oracle] : null;

  const group = ([found, ...others], shown, first) => {
    const [one] = found,
      oracle = about(one.oracle);
    const hit = new Set(found.map((finding) => finding.run)).size;
    const columns = [
      {
        title: "case",
        value: (row) => row.case,
        cell: (row) =>
          row.run === null ? row.case : h("a", { href: state.toRun(row.run, span(row), row) }, row.case),
      },
      { title: "seed", number: true, value: (row) => row.seed },
      { title: "settings", value: (row) => (row.run === null ? "" : data.label(row.run)) },
      { title: "host", value: (row) => row.host },
      { title: "flow", value: (row) => row.flow },
      { title: "from", number: true, value: (row) => row.start_ns, cell: (row) => units.ms(row.start_ns) },
      { title: "to", number: true, value: (row) => row.end_ns, cell: (row) => units.ms(row.end_ns) },
      { title: "times", number: true, value: (row) => row.count },
    ];
    return h(
      "details",
      { class: "group", open: first },
      h(
        "summary",
        {},
        badge(one.severity),
        h("strong", {}, one.title),
        h(
          "span",
          { class: "soft" },
          `${plural(found.length, "finding")} in ${plural(hit, "run")} of ${shown.length.toLocaleString("en")}`,
        ),
        others.length > 0 &&
          h(
            "span",
            { class: "soft also" },
            `At the same time: ${others.map((of) => `${of[0].title} (${of.length})`).join(", ")}`,
          ),
      ),
      oracle && h("p", { class: "why" }, h("b", {}, "Reason: "), oracle.why),
      shared(found, shown),
      spread(found, shown),
      card(example(found)),
      !example(found).drawing && others.flat().filter((finding) => finding.drawing).slice(0, 1).map(drawing),
      oracle &&
        h(
          "details",
          { class: "evidence" },
          h("summary", {}, `Cases in which the oracle (${one.oracle}) is wrong`),
          h("p", {}, oracle.wrong_when),
        ),
      found.length > 1 &&
        h(
          "details",
          { class: "evidence" },
          h("summary", {}, `All ${found.length}`),
          table(columns, found, { most: 50, label: one.title }),
        ),
      others.map((of) =>
        h(
          "details",
          { class: "evidence" },
          h("summary", {}, badge(of[0].severity), `${of[0].title}: ${plural(of.length, "finding")} at the same time`),
          card(example(of)),
          of.length > 1 && table(columns, of, { most: 50, label: of[0].title }),
        ),
      ),
    );
  };

  const draw = (selected) => {
    const { report, runs } = tcpassay,
      inside = new Set(selected);
    // Runs that were refused or crashed have no findings and are excluded from the counts.
    const shown = selected.filter(
      (run) => runs.outcomes[runs.outcome[run]] === "done" || runs.findings[run].length,
    );
    const groups = new Map();
    for (const finding of report.findings) {
      if (finding.run !== null && !inside.has(finding.run)) continue;
      const name = `${finding.severity} ${finding.oracle} ${finding.title}`;
      groups.set(name, [...(groups.get(name) ?? []), finding]);
    }
    const ordered = [...groups.values()].sort(
      (a, b) => Number(a[0].severity !== "error") - Number(b[0].severity !== "error") || b.length - a.length,
    );
    return section(
      "findings",
      "Findings",
      ordered.length
        ? "What the oracles found, errors first; findings of one cause are one entry. An oracle asserts what must hold for every TCP on every path."
        : null,
      ordered.length
        ? causes(ordered).map((cause, n) => group(cause, shown, n === 0))
        : h(
            "p",
            { class: "empty" },
            report.findings.length
              ? "No findings in the runs that are shown."
              : report.judged
                ? "No findings. Every finished run was judged."
                : "No findings. The runs were not judged: oracles read the event log of a run (`oracles` and `[collect] events` in the plan; `tcpassay judge`).",
          ),
    );
  };

  tcpassay.findings = { draw, card, span };
}
