// Two models beside each other, and the problems: drawn from the data of the page, a few rows at a time.
(() => {
  const source = document.getElementById("problem-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const [STEP, place, pair] = [20, document.getElementById("problem-list"), document.getElementById("pair-table")];
  const state = { metric: 0, k: data.ks.findLastIndex((k) => k <= 8), a: data.models.length - 1, b: 0, which: "all", text: "", sort: -1, down: false, shown: STEP, open: new Set() };
  const value = (model, row) => data.values[state.metric][model][state.k][row] ?? NaN;
  const at = (k) => data.metrics[state.metric].replace("@k", `@${k}`);
  const gain = (row) => value(state.a, row) - value(state.b, row);
  // As the tables of the page and the command line: what lies halfway between two thousandths, which
  // is an odd number of sixteenths, goes to the even one. `toFixed` goes up.
  const size = (number) => {
    const magnitude = Math.abs(number);
    const goesDown = (16 * magnitude) % 4 === 1;
    return (goesDown ? magnitude - 1e-6 : magnitude).toFixed(3);
  };
  // What reads as zero has no sign.
  const minus = (number) => (number < 0 && size(number) !== "0.000" ? "−" : "");
  const plus = (number) => (number > 0 && size(number) !== "0.000" ? "+" : "");
  const digits = (number) => (number === null || Number.isNaN(number) ? "–" : minus(number) + size(number));
  const signed = (number) => plus(number) + digits(number);
  const wanted = {
    all: () => true,
    "A beats B": (row) => gain(row) > 5e-7,
    "B beats A": (row) => gain(row) < -5e-7,
    equal: (row) => Math.abs(gain(row)) <= 5e-7,
  };
  const models = data.models.map((name, at) => [name, at]);
  // Heading, value and how the value is written.
  const columns = () => [
    ...models.map(([name, at]) => [name, (row) => value(at, row), digits]),
    ...(state.a === state.b ? [] : [[`${data.models[state.a]} − ${data.models[state.b]}`, gain, signed]]),
  ];

  function rows() {
    const textOf = (row) => `${data.ids[row]} ${data.details[row]?.prompt ?? ""}`.toLowerCase();
    const matching = data.ids.map((_, row) => row).filter((row) => textOf(row).includes(state.text) && wanted[state.which](row));
    const column = columns()[state.sort];
    const key = (row) => (Number.isNaN(column[1](row)) ? -Infinity : column[1](row));
    if (column) matching.sort((x, y) => (key(x) - key(y)) * (state.down ? -1 : 1) || x - y);
    return matching;
  }

  function choice(label, key, entries) {
    const chosen = make("select", undefined, { "data-key": key });
    for (const [text, entry] of entries) chosen.append(new Option(text, entry, false, entry === state[key]));
    chosen.addEventListener("change", () => {
      state[key] = typeof state[key] === "number" ? Number(chosen.value) : chosen.value;
      for (const same of document.querySelectorAll(`select[data-key=${key}]`)) same.value = chosen.value;
      redraw();
    });
    const shown = make("label", `${label} `);
    shown.append(chosen);
    return shown;
  }

  function detail(row) {
    const line = make("tr", undefined, { class: "detail" });
    const cell = make("td", undefined, { class: "all", colspan: columns().length + 1 });
    const problem = data.details[row];
    if (problem.prompt) cell.append(make("pre", problem.prompt));
    for (const run of problem.runs) {
      const rewards = make("p");
      rewards.append(make("strong", run.name), `: ${run.rewards}`);
      cell.append(rewards);
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

  // A less B at every N: each difference beside its interval, drawn to one scale.
  function compared() {
    const [one, other] = [state.a, state.b].map((model) => data.models[model]);
    const tests = data.tests[state.metric].filter(([a, b]) => (a === state.a && b === state.b) || (a === state.b && b === state.a));
    const turned = tests.map(([a, , k, mean, low, high, p, mark, problems]) => (a === state.a
      ? { k, mean, low, high, p, mark, problems }
      : { k, mean: mean === null ? null : -mean, low: high === null ? null : -high, high: low === null ? null : -low, p, mark: { above: "below", below: "above" }[mark] ?? "", problems }));
    const ends = turned.flatMap(({ mean, low, high }) => [mean ?? 0, low ?? 0, high ?? 0]);
    const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const x = (number) => 6 + 148 * ((number - least) / (most - least || 1));
    const drawn = ({ mean, low, high }) => `<svg viewBox="0 0 160 16" aria-hidden="true"><path class="zero" d="M${x(0)} 0V16"/>${low === null ? "" : `<path d="M${x(low)} 8H${x(high)}"/>`}${mean === null ? "" : `<circle cx="${x(mean)}" cy="8" r="3.5"/>`}</svg>`;
    const table = make("table", undefined, { id: "pairs" });
    const caption = make("caption", `${one} less ${other} in ${at("N")}, paired over problems, with 95% intervals; coloured where the test tells it from zero. p is corrected for all pairs of models and all N.`);
    const heads = ["N", one, other, "difference", "", "adjusted p"];
    const cell = (text, head, name = "") => {
      const made = make("td", undefined, { "data-label": head, class: name });
      made.append(...[text].flat());
      return made;
    };
    const mean = (model, k) => {
      const [middle, low, high] = data.means[state.metric][model][k];
      return [make("span", digits(middle)), make("small", low === null ? "" : `[${digits(low)}, ${digits(high)}]`)];
    };
    const difference = ({ mean, low, high, problems }) => [
      make("span", signed(mean)), make("small", low === null ? "–" : `[${signed(low)}, ${signed(high)}]`),
      ...(problems < data.ids.length ? [make("small", `${problems.toLocaleString("en")} problems`)] : []),
    ];
    const [top, body] = [make("thead"), make("tbody")];
    const first = make("tr");
    first.append(...heads.map((name) => make("th", name, { scope: "col" })));
    top.append(first);
    for (const test of turned) {
      const row = make("tr");
      const plot = cell([], "", `interval ${test.mark}`);
      plot.innerHTML = drawn(test);
      row.append(
        make("th", `${data.ks[test.k]}`, { scope: "row" }), cell(mean(state.a, test.k), one), cell(mean(state.b, test.k), other),
        cell(difference(test), "difference", test.mark), plot, cell(test.p === null ? "–" : test.p < 0.0005 ? "<0.001" : digits(test.p), "adjusted p"),
      );
      body.append(row);
    }
    table.append(caption, top, body);
    caption.append(download("pairs", () => cells(table)));
    const wide = make("div", undefined, { class: "wide" });
    wide.append(state.a === state.b ? make("p", "Choose two different models.") : table);
    pair.replaceChildren(wide);
  }

  function head() {
    const line = make("tr");
    ["problem", ...columns().map(([name]) => name)].forEach((name, at) => {
      const button = make("button", name + (at && at - 1 === state.sort ? (state.down ? " ↓" : " ↑") : ""));
      button.addEventListener("click", () => {
        [state.down, state.sort] = [state.sort === at - 1 && !state.down, at - 1];
        redraw();
      });
      const cell = make("th", undefined, { scope: "col", "aria-sort": at - 1 !== state.sort ? "none" : state.down ? "descending" : "ascending" });
      cell.append(button);
      line.append(cell);
    });
    return line;
  }

  // An address that was typed may have the marks of an id as they are, as in HumanEval/0.
  function plainHash() {
    try { return decodeURIComponent(location.hash); } catch { return location.hash; }
  }
  const address = (row) => `#problem=${encodeURIComponent(data.ids[row])}`;

  // The problem that the address names is opened and shown, whatever the filters were.
  function visit() {
    const named = plainHash();
    const row = data.ids.findIndex((id) => `#problem=${id}` === named);
    if (row < 0) return;
    Object.assign(state, { which: "all", text: "", shown: Infinity });
    search.value = "";
    for (const same of document.querySelectorAll("select[data-key=which]")) same.value = "all";
    if (data.details.length) state.open.add(row);
    redraw();
    document.getElementById(`row-${row}`).scrollIntoView();
  }

  function body(row) {
    const line = make("tr", undefined, { id: `row-${row}` });
    const name = make("th", undefined, { scope: "row" });
    if (data.details.length) {
      const button = make("button", data.ids[row], { class: "open", "aria-expanded": "false" });
      button.addEventListener("click", () => {
        if (state.open.has(row)) state.open.delete(row);
        else state.open.add(row);
        history.replaceState(null, "", state.open.has(row) ? address(row) : "#problems");
        redraw();
      });
      name.append(button);
    } else name.textContent = data.ids[row];
    name.append(" ", make("a", "#", { href: address(row), "aria-label": `address of ${data.ids[row]}` }));
    line.append(name, ...columns().map(([label, read, write]) => make("td", write(read(row)), { "data-label": label })));
    return state.open.has(row) ? [line, detail(row)] : [line];
  }

  function redraw() {
    const matching = rows();
    const table = make("table", undefined, { id: "problem-table" });
    const caption = make("caption", `${at(data.ks[state.k])} of ${matching.length} of ${data.ids.length} problems; a problem opens its prompt, rewards and samples.`);
    if (!data.details.length) caption.textContent = caption.textContent.replace(/; a problem .*/, ".");
    caption.append(download("problems", () => [
      ["problem", ...models.flatMap(([name]) => data.ks.map((k) => `${name} ${at(k)}`))],
      ...matching.map((row) => [data.ids[row], ...models.flatMap(([, model]) => data.ks.map((_, k) => data.values[state.metric][model][k][row] ?? ""))]),
    ]));
    const [top, bottom] = [make("thead"), make("tbody")];
    top.append(head());
    bottom.append(...matching.slice(0, state.shown).flatMap(body));
    table.append(caption, top, bottom);
    const wide = make("div", undefined, { class: "wide" });
    wide.append(table);
    place.replaceChildren(wide);
    if (matching.length > state.shown) {
      const more = make("button", `show ${Math.min(4 * STEP, matching.length - state.shown)} more`, { class: "more" });
      more.addEventListener("click", () => { state.shown += 4 * STEP; redraw(); });
      place.append(more);
    }
    if (pair) compared();
    fit();
  }

  const search = make("input", undefined, { type: "search", placeholder: "id or prompt", "aria-label": "id or prompt of a problem" });
  search.addEventListener("input", () => { state.text = search.value.toLowerCase(); redraw(); });
  const controls = make("div", undefined, { class: "controls" });
  const both = () => [choice("A", "a", models), choice("B", "b", models)];
  if (pair) {
    const chosen = make("div", undefined, { class: "controls" });
    chosen.append(...both());
    pair.before(chosen);
  }
  controls.append(
    choice("N", "k", data.ks.map((k, at) => [k, at])),
    ...(models.length > 1 ? [...both(), choice("show", "which", Object.keys(wanted).map((name) => [name, name]))] : []),
    search,
  );
  place.before(controls);
  addEventListener("metric", (event) => { state.metric = data.metrics.indexOf(event.detail); redraw(); });
  addEventListener("hashchange", visit);
  redraw();
  visit();
})();
