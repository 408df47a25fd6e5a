// The statistics of the page. Quantiles are nearest ranks, as those of metrics and of `tcpassay.quantile` are.
"use strict";

{
  const quantile = (sorted, p) => {
    if (!sorted.length) return NaN;
    // A share such as 0.07 times 100 is a little more than 7.
    return sorted[Math.max(0, Math.ceil(p * sorted.length - 1e-9) - 1)];
  };

  const sort = (values) => Float64Array.from(values).sort();

  // Tukey's box: whiskers end at the last value within 1.5 interquartile ranges.
  const box = (sorted) => {
    const [q1, median, q3] = [0.25, 0.5, 0.75].map((p) => quantile(sorted, p));
    const reach = 1.5 * (q3 - q1);
    const low = sorted.find((value) => value >= q1 - reach),
      high = sorted.findLast((value) => value <= q3 + reach);
    return { low, q1, median, q3, high };
  };

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // The quantile function of the standard normal distribution (Acklam's rational approximation, relative error 1.2e-9).
  const normal = (p) => {
    const a = [
      -39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716,
      2.506628277459239,
    ];
    const b = [
      -54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572,
    ];
    const c = [
      -0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968,
      2.938163982698783,
    ];
    const d = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416];
    const horner = (list, x) => list.reduce((sum, factor) => sum * x + factor, 0);
    if (p > 0.5) return -normal(1 - p);
    if (p < 0.02425) {
      const q = Math.sqrt(-2 * Math.log(p));
      return horner(c, q) / (horner(d, q) * q + 1);
    }
    const q = p - 0.5,
      r = q * q;
    return (horner(a, r) * q) / (horner(b, r) * r + 1);
  };

  // The probability of a value of chi squared at least as large, by Wilson and Hilferty's cube root (good to 0.005).
  const chi2 = (value, freedom) => {
    const spread = 2 / (9 * freedom);
    return upper(((value / freedom) ** (1 / 3) - (1 - spread)) / Math.sqrt(spread));
  };

  // The upper tail of the standard normal distribution (Abramowitz and Stegun 26.2.17, error below 7.5e-8).
  const upper = (z) => {
    if (z < 0) return 1 - upper(-z);
    const t = 1 / (1 + 0.2316419 * z);
    const series =
      [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153].reduce(
        (sum, factor) => sum * t + factor,
        0,
      ) * t;
    return (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * series;
  };

  // The share of the variance of `values` that the groups explain (eta squared): 0 nothing, 1 all of it.
  const explained = (groups) => {
    const all = groups.flat();
    if (all.length < 2) return 0;
    const centre = mean(all);
    const total = all.reduce((sum, value) => sum + (value - centre) ** 2, 0);
    const between = groups
      .filter((group) => group.length)
      .reduce((sum, group) => sum + group.length * (mean(group) - centre) ** 2, 0);
    return total > 0 ? between / total : 0;
  };

  tcpassay.stats = { quantile, sort, box, mean, normal, chi2, explained };
}
