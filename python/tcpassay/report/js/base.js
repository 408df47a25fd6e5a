// Functions used by the other scripts of the page. Each script is a block and adds its shared functions to `tcpassay`.
"use strict";

/** @type {Tcpassay} */
const tcpassay = Object.create(null);

{
  // Creates an element. `properties` are attributes, except `on` (listeners); children are nodes or text, never HTML: names and
  // values come from result folders and are untrusted.
  const h = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on")
        for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(
      ...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false),
    );
    return element;
  };

  // Returns an element of the page's template, which contains every id that the scripts use.
  /** @param {string} id */
  const byId = (id) => {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no element #${id}`);
    return element;
  };

  // A section of the page, with a heading and one sentence of explanation.
  const section = (id, title, lead, ...children) =>
    h(
      "section",
      { id, "aria-labelledby": `${id}-title` },
      h("h2", { id: `${id}-title` }, title),
      lead && h("p", { class: "lead" }, lead),
      ...children,
    );

  // A selection list of [value, label] pairs.
  const select = (label, options, value, change) => {
    const list = h(
      "select",
      { on: { change: () => change(list.value) } },
      options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
    );
    return h("label", { class: "choice" }, h("span", {}, label), list);
  };

  // A group of buttons of which one is pressed.
  const tabs = (label, options, value, change) =>
    h(
      "div",
      { class: "tabs", role: "group", "aria-label": label },
      options.map(([key, text]) =>
        h(
          "button",
          { type: "button", "aria-pressed": String(key === value), on: { click: () => change(key) } },
          text,
        ),
      ),
    );

  const toggle = (label, on, change) => {
    const box = h("input", { type: "checkbox", on: { change: () => change(box.checked) } });
    box.checked = on;
    return h("label", { class: "choice" }, box, h("span", {}, label));
  };

  // A command that can be copied. Without the clipboard (a page from a file may have none) it selects the text.
  const command = (text) => {
    const code = h("code", {}, text);
    const button = h("button", { type: "button", class: "copy", on: { click: copy } }, "Copy");
    async function copy() {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 1500);
      } catch {
        getSelection()?.selectAllChildren(code);
      }
    }
    return h("div", { class: "command" }, code, button);
  };

  // A table whose columns are { title, value(row), cell(row)?, number? }; a click on a heading sorts.
  /**
   * @param {any[]} columns
   * @param {any[]} rows
   * @param {{ sort?: [number, boolean] | null, most?: number, label?: string }} [options]
   */
  const table = (columns, rows, { sort = null, most = 200, label = "" } = {}) => {
    let by = sort ? sort[0] : -1,
      down = sort ? sort[1] : false,
      shown = most;
    const body = h("tbody"),
      more = h("p", { class: "more" });
    const compare = (a, b) => {
      const absent = (x) => x === null || x === undefined || Number.isNaN(x);
      if (absent(a) || absent(b)) return Number(absent(a)) - Number(absent(b)); // absent values come last in both orders
      const order =
        typeof a === "number" && typeof b === "number"
          ? a - b
          : String(a).localeCompare(String(b), undefined, { numeric: true });
      return down ? -order : order;
    };
    const heads = columns.map((column, place) =>
      h(
        "th",
        { scope: "col", class: column.number && "number", title: column.doc },
        h(
          "button",
          {
            type: "button",
            on: {
              click: () => {
                down = by === place ? !down : Boolean(column.number);
                by = place;
                draw();
              },
            },
          },
          column.title,
        ),
      ),
    );
    const draw = () => {
      const ordered =
        by < 0
          ? rows
          : rows
              .map((row) => [columns[by].value(row), row])
              .sort((a, b) => compare(a[0], b[0]))
              .map(([, row]) => row);
      heads.forEach((head, place) =>
        head.setAttribute("aria-sort", place === by ? (down ? "descending" : "ascending") : "none"),
      );
      body.replaceChildren(
        ...ordered.slice(0, shown).map((row) =>
          h(
            "tr",
            {},
            columns.map((column) =>
              h(
                "td",
                { class: column.number && "number", "data-title": column.title },
                column.cell ? column.cell(row) : String(column.value(row) ?? ""),
              ),
            ),
          ),
        ),
      );
      const left = ordered.length - Math.min(shown, ordered.length);
      more.replaceChildren(
        ...(left
          ? [
              h(
                "button",
                {
                  type: "button",
                  on: {
                    click: () => {
                      shown += 5 * most;
                      draw();
                    },
                  },
                },
                `Show ${Math.min(left, 5 * most)} more`,
              ),
              ` of ${left} not shown`,
            ]
          : []),
      );
    };
    draw();
    return h(
      "div",
      { class: "table", role: "region", tabindex: "0", "aria-label": label },
      h("table", {}, h("thead", {}, h("tr", {}, heads)), body),
      more,
    );
  };

  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  tcpassay.byId = byId;
  tcpassay.h = h;
  tcpassay.section = section;
  tcpassay.select = select;
  tcpassay.tabs = tabs;
  tcpassay.toggle = toggle;
  tcpassay.command = command;
  tcpassay.table = table;
  tcpassay.plural = plural;
}
