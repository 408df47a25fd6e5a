// The lines, branches and functions that the runs executed, of a kernel that counts them (gcov).
"use strict";

{
  const { h, section, table, plural, units } = tcpassay;
  const of = (kind) => ({
    title: kind,
    number: true,
    value: (one) => (one[kind].of ? one[kind].reached / one[kind].of : 0),
    cell: (one) =>
      one[kind].of
        ? `${one[kind].reached.toLocaleString("en")} of ${one[kind].of.toLocaleString("en")} (${units.percent(one[kind].reached / one[kind].of)})`
        : "",
  });

  const draw = () => {
    const { kernel_coverage: kernels } = tcpassay.report;
    if (!kernels.length) return null;
    return section(
      "kernel-coverage",
      "Code of the kernel",
      "The code of TCP and of the queue disciplines that the runs executed, counted by gcov in the kernel.",
      kernels.map((one) =>
        h(
          "details",
          { class: "group", open: true },
          h("summary", {}, h("strong", {}, one.kernel), ` ${plural(one.runs, "run")}`),
          table([{ title: "file", value: (file) => file.file }, of("lines"), of("branches"), of("functions")], one.files, {
            most: 60,
            label: `coverage of ${one.kernel}`,
          }),
        ),
      ),
    );
  };

  tcpassay.kcov = { draw };
}
