// Numbers with the customary units: Mbit/s, ms, KB (1000 bytes).
"use strict";

{
  const PREFIXED = {
    "bit/s": [
      ["Gbit/s", 1e9],
      ["Mbit/s", 1e6],
      ["Kbit/s", 1e3],
      ["bit/s", 1],
    ],
    B: [
      ["GB", 1e9],
      ["MB", 1e6],
      ["KB", 1e3],
      ["B", 1],
    ],
    s: [
      ["s", 1],
      ["ms", 1e-3],
      ["µs", 1e-6],
      ["ns", 1e-9],
    ],
  };

  // The suitable unit for values up to `largest`, and its divisor.
  const scale = (unit, largest) => {
    const steps = PREFIXED[unit];
    if (!steps) return { unit: unit === "1" ? "" : unit, by: 1 };
    const [name, by] = steps.find(([, step]) => Math.abs(largest) >= step) ?? steps.at(-1);
    return largest ? { unit: name, by } : { unit: unit === "s" ? "ms" : unit, by: unit === "s" ? 1e-3 : 1 };
  };

  // A number with at most `digits` significant digits, without an exponent if possible.
  const number = (value, digits = 4) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e15 || size < 1e-6) return value.toExponential(2);
    if (Number.isInteger(value) && size < 1e6) return String(value);
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    const text = value.toFixed(Math.min(places, 12));
    return (text.includes(".") ? text.replace(/\.?0+$/, "") : Number(text).toLocaleString("en")).replace(
      "-",
      "−",
    );
  };

  const amount = (value, unit, digits = 4) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const { unit: name, by } = scale(unit, value);
    // The name of the metric contains what is counted: 3, not 3 packets.
    return name && (PREFIXED[unit] || unit.includes("/"))
      ? `${number(value / by, digits)} ${name}`
      : number(value / by, digits);
  };

  // The title of an axis.
  const named = (title, unit) => (unit ? `${title} (${unit})` : title);

  // A time in nanoseconds, in the format of the findings.
  const ms = (ns) =>
    `${(ns / 1e6).toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3, useGrouping: false })} ms`;

  const percent = (share, digits = 0) => {
    const value = 100 * share;
    // An incomplete share is not rounded to 100 %, and a share above zero not to 0 %.
    if (share < 1 && Number(value.toFixed(digits)) === 100)
      return `> ${(100 - 10 ** -digits).toFixed(digits)} %`;
    if (share > 0 && Number(value.toFixed(digits)) === 0) return `< ${(10 ** -digits).toFixed(digits)} %`;
    return `${value.toFixed(digits)} %`;
  };

  tcpassay.units = { scale, number, amount, named, ms, percent };
}
