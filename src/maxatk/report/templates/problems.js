// The problems: drawn from the data of the page, a few rows at a time.
(() => {
  const source = document.getElementById("problem-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const [STEP, place] = [50, document.getElementById("problem-list")];
  const state = { k: data.ks.length - 1, a: data.models.length - 1, b: 0, which: "all", text: "", sort: -1, down: false, shown: STEP };
  const value = (model, row) => data.values[model][state.k][row] ?? NaN;
  const difference = (row) => value(state.a, row) - value(state.b, row);
  const digits = (number) => (Number.isNaN(number) ? "–" : number.toFixed(3));
  const wanted = {
    all: () => true,
    "A beats B": (row) => difference(row) > 5e-7,
    "B beats A": (row) => difference(row) < -5e-7,
    equal: (row) => Math.abs(difference(row)) <= 5e-7,
  };
  const models = data.models.map((name, at) => [name, at]);
  const columns = () => [
    ...models.map(([name, at]) => [name, (row) => value(at, row)]),
    ...(state.a === state.b ? [] : [[`${data.models[state.a]} − ${data.models[state.b]}`, difference]]),
  ];

  function rows() {
    const found = data.ids.map((_, row) => row).filter((row) => data.ids[row].toLowerCase().includes(state.text) && wanted[state.which](row));
    const column = columns()[state.sort];
    const key = (row) => (Number.isNaN(column[1](row)) ? -Infinity : column[1](row));
    if (column) found.sort((x, y) => (key(x) - key(y)) * (state.down ? -1 : 1) || x - y);
    return found;
  }

  function choice(label, key, entries) {
    const chosen = make("select", undefined, { "data-key": key });
    for (const [text, entry] of entries) chosen.append(new Option(text, entry, false, entry === state[key]));
    chosen.addEventListener("change", () => {
      state[key] = typeof state[key] === "number" ? Number(chosen.value) : chosen.value;
      redraw();
    });
    const shown = make("label", `${label} `);
    shown.append(chosen);
    return shown;
  }

  function detail(row) {
    const line = make("tr", undefined, { class: "detail" });
    const cell = make("td", undefined, { class: "all", colspan: columns().length + 1 });
    const found = data.details[row];
    if (found.prompt) cell.append(make("pre", found.prompt));
    for (const run of found.runs) {
      const said = make("p");
      said.append(make("strong", run.name), `: ${run.rewards}`);
      cell.append(said);
      for (const sample of run.samples) {
        const box = make("details");
        box.append(make("summary", `sample ${sample.index}: ${sample.verdict}`));
        if (sample.text) box.append(make("pre", sample.text));
        if (sample.failure) box.append(failure(sample.failure));
        cell.append(box);
      }
    }
    line.append(cell);
    return line;
  }

  function head() {
    const line = make("tr");
    ["problem", ...columns().map(([name]) => name)].forEach((name, at) => {
      const button = make("button", name + (at && at - 1 === state.sort ? (state.down ? " ↓" : " ↑") : ""));
      button.addEventListener("click", () => {
        [state.down, state.sort] = [state.sort === at - 1 && !state.down, at - 1];
        redraw();
      });
      const cell = make("th", undefined, { scope: "col" });
      cell.append(button);
      line.append(cell);
    });
    return line;
  }

  function body(row) {
    const line = make("tr");
    const name = make("th", undefined, { scope: "row" });
    if (data.details.length) {
      const button = make("button", data.ids[row], { class: "open", "aria-expanded": "false" });
      button.addEventListener("click", () => {
        const open = line.nextElementSibling?.classList.contains("detail");
        button.setAttribute("aria-expanded", String(!open));
        if (open) line.nextElementSibling.remove();
        else line.after(detail(row));
      });
      name.append(button);
    } else name.textContent = data.ids[row];
    line.append(name, ...columns().map(([label, read]) => make("td", digits(read(row)), { "data-label": label })));
    return line;
  }

  function redraw() {
    const found = rows();
    const table = make("table", undefined, { id: "problem-table" });
    const caption = make("caption", `max@${data.ks[state.k]} of ${found.length} of ${data.ids.length} problems; a problem opens its prompt, rewards and samples.`);
    if (!data.details.length) caption.textContent = caption.textContent.replace(/; a problem .*/, ".");
    caption.append(download("problems", () => [
      ["problem", ...models.flatMap(([name]) => data.ks.map((k) => `${name} max@${k}`))],
      ...found.map((row) => [data.ids[row], ...models.flatMap(([, at]) => data.ks.map((_, k) => data.values[at][k][row] ?? ""))]),
    ]));
    const [top, bottom] = [make("thead"), make("tbody")];
    top.append(head());
    bottom.append(...found.slice(0, state.shown).map(body));
    table.append(caption, top, bottom);
    const wide = make("div", undefined, { class: "wide" });
    wide.append(table);
    place.replaceChildren(wide);
    if (found.length > state.shown) {
      const more = make("button", `show ${Math.min(4 * STEP, found.length - state.shown)} more`, { class: "more" });
      more.addEventListener("click", () => { state.shown += 4 * STEP; redraw(); });
      place.append(more);
    }
    fit();
  }

  const search = make("input", undefined, { type: "search", placeholder: "id of a problem", "aria-label": "id of a problem" });
  search.addEventListener("input", () => { state.text = search.value.toLowerCase(); redraw(); });
  const controls = make("div", undefined, { class: "controls" });
  controls.append(
    choice("N", "k", data.ks.map((k, at) => [k, at])),
    ...(models.length > 1 ? [choice("A", "a", models), choice("B", "b", models), choice("show", "which", Object.keys(wanted).map((name) => [name, name]))] : []),
    search,
  );
  place.before(controls);
  redraw();
})();
