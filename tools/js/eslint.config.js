// The report's scripts are classic scripts in one page: they share `tcpassay` and Apache ECharts.
import js from "@eslint/js";
import globals from "globals";

export default [
  {
    files: ["python/tcpassay/report/js/*.js"],
    ...js.configs.recommended,
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "script",
      globals: { ...globals.browser, tcpassay: "readonly", echarts: "readonly" },
    },
    rules: {
      ...js.configs.recommended.rules,
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-redeclare": ["error", { builtinGlobals: false }],
    },
  },
];
