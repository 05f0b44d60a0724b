"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const wishesDark = window.matchMedia("(prefers-color-scheme: dark)");

  // -- light and dark ------------------------------------------------------------------------------------------------

  function setTheme(name) {
    root.dataset.theme = name;
    draw();
  }

  function color(name) {
    return getComputedStyle(root).getPropertyValue(`--${name.replace(/_/g, "-")}`).trim();
  }

  /** Colours are given by role ("role:best") in fields that end in "color": the theme says what they are. */
  function themed(value, key) {
    if (Array.isArray(value)) return value.map((item) => themed(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, themed(item, name)]));
    }
    const isRole = typeof value === "string" && /color$/.test(key) && value.startsWith("role:");
    return isRole ? color(value.slice(5)) : value;
  }

  // -- plots ---------------------------------------------------------------------------------------------------------

  function layoutOf(figure) {
    const axis = { gridcolor: color("grid"), linecolor: color("line"), zerolinecolor: color("line"), fixedrange: true };
    const layout = themed(figure.layout, "");
    for (const name of Object.keys(layout)) {
      if (!/^[xy]axis/.test(name)) continue;
      layout[name] = { automargin: true, ...axis, ...layout[name] };
      if (layout[name].title) layout[name].title.standoff = 8;
    }
    return {
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: color("ink"), family: getComputedStyle(document.body).fontFamily, size: 12 },
      margin: { l: 56, r: 12, t: 34, b: 44 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
      hovermode: "closest",
      dragmode: false,
      hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { color: color("ink") }, align: "left" },
      ...layout,
    };
  }

  function draw() {
    for (const figure of figures) {
      const place = document.getElementById(`plot-${figure.name}`);
      const traces = themed(figure.traces, "");
      Plotly.react(place, traces, layoutOf(figure), { responsive: true, displayModeBar: false });
    }
  }

  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  });
  wishesDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  setTheme(wishesDark.matches ? "dark" : "light");

  // paper is white, and as wide as it is
  const PAPER = 640;
  let before = "";
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    setTheme("light");
    for (const place of document.querySelectorAll(".plot")) Plotly.relayout(place, { width: PAPER });
  });
  window.addEventListener("afterprint", () => {
    for (const place of document.querySelectorAll(".plot")) Plotly.relayout(place, { width: null, autosize: true });
    setTheme(before);
  });

  // -- the table of trials -------------------------------------------------------------------------------------------

  const table = document.getElementById("trials-table");

  function sortBy(header) {
    const place = header.cellIndex;
    const current = header.getAttribute("aria-sort");
    const turned = { ascending: "descending", descending: "ascending" };
    const direction = turned[current] || header.dataset.first;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const numeric = header.classList.contains("number");
    const key = (row) => row.cells[place].dataset.key;
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // unknown ones last
      return sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
    });
    table.tBodies[0].append(...rows);
  }

  function filter() {
    const words = document.getElementById("filter-text").value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    const outcome = document.getElementById("filter-outcome").value;
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) && (!outcome || row.dataset.outcome === outcome);
      row.hidden = !fits;
      shown += fits;
    }
    const all = table.tBodies[0].rows.length;
    document.getElementById("trials-count").textContent = shown === all ? "" : `${shown} of ${all} shown`;
  }

  if (table) {
    for (const header of table.tHead.rows[0].cells) {
      const button = header.querySelector("button");
      if (button) button.addEventListener("click", () => sortBy(header));
    }
    document.getElementById("filter-text").addEventListener("input", filter);
    document.getElementById("filter-outcome").addEventListener("change", filter);
  }

  // -- copying -------------------------------------------------------------------------------------------------------

  /** A file:// page has no clipboard of its own in every browser: select the text, so that one key copies it. */
  function select(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        select(button.parentElement.querySelector("code"));
        button.textContent = "Press Ctrl+C";
      }
    });
  }
})();
