// What the report's scripts share. Each script adds its part to `tcpassay`; the type check compares what a script provides and
// what others use with this list. Values from the page's data (`runs`, `report`) are not typed: Python's tests check their form.

/** Apache ECharts, which the page loads before these scripts. */
declare const echarts: any;

type Child = Node | string | number | boolean | null | undefined | Child[];
/** A part of the page; `ready` draws its charts once it is in the document. */
type Section = HTMLElement & { ready?: () => unknown };
type Limits = [low: number, high: number];
type Where = Record<string, string[]>;
/** The part of the address behind `#`: filters in `where`, everything else as text. */
type View = Record<string, any> & { where: Where };
/** The key and the text of a choice. */
type Option = string[];

type Numbers = Float64Array | Float32Array | Uint32Array | Uint16Array;
/** A parameter, the seed or the outcome, with its level in each run. */
interface Factor extends Omit<FactorData, "codes"> {
  codes: ArrayLike<number>;
  own?: boolean;
}
/** A metric and its value in each run; NaN if it is absent. */
interface Metric extends Omit<MetricData, "values"> {
  values: Numbers;
}
/** A finding with the index of its run, or null if its run is not in the page. */
interface Finding extends FindingData {
  run: number | null;
}
interface Report extends Omit<WholePage, "findings"> {
  findings: Finding[];
}
/** All runs; arrays have an element for each run. */
interface Runs extends Omit<RunsData, "outcome" | "factors" | "members" | "metrics"> {
  outcome: Uint16Array;
  factors: Factor[];
  members: Factor[];
  metrics: Metric[];
  /** Seed and outcome, if they have several levels. */
  own: Factor[];
  metric: Map<string, Metric>;
  factor: Map<string, Factor>;
  /** The run of a case and a seed. */
  place: Map<string, number>;
  /** The runs of a case. */
  of: Map<string, number[]>;
  findings: Finding[][];
  /** Whether the page has the curves of a run. */
  drawn: boolean[];
}
/** The curves of a run. */
interface Curves extends CurvesData {
  arrays: Numbers[];
}

interface Tcpassay {
  title: string;
  report: Report;
  runs: Runs;
  /** The curves of the run that is shown, for tests and the console. */
  curves: Curves | null;
  /** Charts by name, for tests and the console. */
  charts: Map<string, any>;
  byId(id: string): HTMLElement;
  h(tag: string, properties?: Record<string, any>, ...children: Child[]): any;
  section(id: string, title: string, lead: Child, ...children: Child[]): Section;
  select(label: string, options: Option[], value: string | undefined, change: (key: string) => void): HTMLElement;
  tabs(label: string, options: Option[], value: string | undefined, change: (key: string) => void): HTMLElement;
  toggle(label: string, on: boolean, change: (on: boolean) => void): HTMLElement;
  command(text: string): HTMLElement;
  table(columns: any[], rows: any[], options?: { sort?: [number, boolean] | null; most?: number; label?: string }): HTMLElement;
  plural(count: number, noun: string): string;
  unpack(id: string): Promise<any>;
  units: {
    scale(unit: string, largest: number): any;
    number(value: number | null | undefined, digits?: number): string;
    amount(value: number | null | undefined, unit: string, digits?: number): string;
    named(title: string, unit: string): string;
    ms(ns: number): string;
    percent(share: number, digits?: number): string;
  };
  stats: {
    quantile(sorted: ArrayLike<number>, p: number): number;
    sort(values: Iterable<number>): Float64Array;
    box(sorted: Float64Array): any;
    mean(values: number[]): number;
    normal(p: number): number;
    chi2(value: number, freedom: number): number;
    explained(groups: number[][]): any;
  };
  state: {
    parse(hash: string): View;
    format(state: Record<string, any>): string;
    now(): View;
    link(change: Record<string, any>): string;
    toRun(run: number, span?: Limits | number[], finding?: Finding): string;
    back(): string;
    set(change: Record<string, any>, options?: { quiet?: boolean }): void;
  };
  data: {
    read(): Promise<void>;
    selected(view: { where?: Where; only?: string }): number[];
    level(factor: Factor, run: number): string;
    label(run: number): string;
    splits(): Factor[];
  };
  look: {
    MANY: number;
    style(): any;
    palette(factor: Factor | undefined): any;
    axis(name: string, extra?: any): any;
    logarithmic(name: string, values: number[], extra?: any): any;
    tip(title: string, rows: any[]): any;
    tooltip(extra?: any): any;
    legend(names: any, extra?: any): any;
    dragOptions(axes: any): any;
    dragging(made: any, all?: any): void;
    chart(element: HTMLElement, name: string, option: any, height: number): any;
    release(within: Element): void;
    mix(a: string, b: string, share: number): string;
  };
  filters: { draw(element: HTMLElement, view: View, shown: number[]): void };
  summary: { head(element: HTMLElement): void; provenance(): Section };
  findings: { draw(selected: number[]): any; card(finding: Finding, options?: { alone?: boolean; selected?: boolean }): HTMLElement; span(finding: Finding): number[] };
  checks: { draw(): any };
  coverage: { draw(): any };
  reach: { draw(): any };
  kcov: { draw(): any };
  better: { draw(): any };
  search: { draw(): any };
  levels: { draw(shown: number[]): any; mean(values: number[]): any };
  distributions: { draw(shown: number[]): any; first(names: string[]): string };
  tradeoff: { draw(shown: number[]): any };
  limits: { draw(shown: number[]): any };
  table_of_runs: { draw(shown: number[]): any };
  run_page: { draw(view: View, shown: number[]): any };
  timeline: { draw(element: any, curves: Curves, run: number): any; choice(curves: Curves): any; legend(curves: Curves): any; chosen(run: number): number };
  sequence: { panel(curves: Curves, flows: any, colour: any, x: any): any };
}
