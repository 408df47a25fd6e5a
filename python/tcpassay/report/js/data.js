// The results in the page: `tcpassay.report` (texts, findings, checks, coverage) and `tcpassay.runs` (the table of runs).
"use strict";

{
  const { byId } = tcpassay;

  // All data of the page, which are read before anything is drawn.
  const read = async () => {
    const report = JSON.parse(byId("report").textContent ?? "");
    const runs = await tcpassay.unpack("runs");
    const at = (place) => runs.arrays[place];
    runs.outcome = at(runs.outcome);
    for (const factor of [...runs.factors, ...runs.members]) factor.codes = at(factor.codes);
    for (const metric of runs.metrics) metric.values = at(metric.values);
    runs.metric = new Map(runs.metrics.map((metric) => [metric.name, metric]));
    runs.factor = new Map([...runs.factors, ...runs.members].map((factor) => [factor.name, factor]));
    addOwn(runs);
    runs.place = new Map();
    runs.of = new Map();
    for (let n = runs.count - 1; n >= 0; n--) runs.place.set(key(runs.case[n], runs.seed[n]), n);
    for (let n = 0; n < runs.count; n++) runs.of.set(runs.case[n], [...(runs.of.get(runs.case[n]) ?? []), n]);
    runs.findings = Array.from({ length: runs.count }, () => []);
    for (const finding of report.findings) {
      finding.run = runs.place.get(key(finding.case, finding.seed)) ?? runs.of.get(finding.case)?.[0] ?? null;
      if (finding.run !== null) runs.findings[finding.run].push(finding);
    }
    runs.drawn = Array.from(
      { length: runs.count },
      (_, n) => document.getElementById(`curves-${n}`) !== null,
    );
    tcpassay.report = report;
    tcpassay.runs = runs;
  };

  const key = (name, seed) => `${name} ${seed}`;

  // Seeds and outcomes can be selected like the levels of a parameter if there are several.
  const addOwn = (runs) => {
    const seeds = [...new Set(runs.seed)].sort((a, b) => a - b);
    const seed = {
      name: "seed",
      levels: seeds.map(String),
      codes: runs.seed.map((one) => seeds.indexOf(one)),
      ordered: true,
      own: true,
      doc: "Seed of the run's random streams",
    };
    const outcome = {
      name: "outcome",
      levels: runs.outcomes,
      codes: runs.outcome,
      ordered: false,
      own: true,
      doc: "How the run ended",
    };
    runs.own = [seed, outcome].filter(
      (factor) => factor.levels.length > 1 && factor.levels.length <= 50 && !runs.factor.has(factor.name),
    );
    for (const factor of runs.own) runs.factor.set(factor.name, factor);
  };

  // The indices of the runs that have one of the selected levels of each filtered factor (and findings, if selected).
  const selected = ({ where = {}, only = "" }) => {
    const { runs } = tcpassay;
    const chosen = Object.entries(where).flatMap(([name, levels]) => {
      const factor = runs.factor.get(name);
      return factor
        ? [{ codes: factor.codes, wanted: new Set(levels.map((level) => factor.levels.indexOf(level))) }]
        : [];
    });
    const made = [];
    for (let n = 0; n < runs.count; n++) {
      if (only === "findings" && !runs.findings[n].length) continue;
      if (chosen.every(({ codes, wanted }) => wanted.has(codes[n]))) made.push(n);
    }
    return made;
  };

  const level = (factor, run) => factor.levels[factor.codes[run]];

  // The levels that distinguish a run from the others.
  const label = (run) =>
    tcpassay.runs.factors
      .map((factor) => `${factor.name.split(".").at(-1)}=${level(factor, run)}`)
      .join(", ");

  // The factors by which runs can be split: those with several levels.
  const splits = () =>
    [...tcpassay.runs.factors, ...tcpassay.runs.members, ...tcpassay.runs.own].filter(
      (factor) => factor.levels.length > 1,
    );

  tcpassay.data = { read, selected, level, label, splits };
}
