// The page of `maxatk view`: the figures and tables of the runs, a step, a group, a prompt, a search.
(() => {
  const [place, figures] = [document.getElementById("place"), make("div", undefined, { class: "figures" })];
  const [STEP, POLL, SIDE] = [50, 2000, 24];
  let [state, version, shown] = [null, "", STEP];
  const digits = (value) => (value === null || value === undefined ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(3));
  const link = (text, hash, rel) => make("a", text, { href: hash, ...(rel ? { rel } : {}) });
  async function ask(name, query) {
    const answer = await fetch(`api/${name}?${new URLSearchParams(query)}`);
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error);
    return body;
  }
  // Tables come as markup of the report, in which every text is escaped.
  function tables({ html }) {
    const box = make("div");
    box.innerHTML = html;
    downloads(box);
    return box;
  }
  const paused = (spent) => new Promise((done) => setTimeout(done, spent));

  // The server draws the figures, one after the other, for at most a tenth of the time.
  async function draw() {
    const [begun, asked] = [performance.now(), version];
    for (const [key, caption] of state.figures) {
      const { svg } = await ask("figure", { key });
      let figure = [...figures.children].find((one) => one.dataset.key === key);
      if (!figure) {
        figure = make("figure", undefined, { "data-key": key });
        figures.append(figure);
      }
      const drawn = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
      figure.replaceChildren(document.importNode(drawn, true), make("figcaption", caption));
    }
    figures.dataset.version = asked;
    await paused(9 * (performance.now() - begun));
  }
  // A click into the figure of a training opens the nearest step.
  place.addEventListener("click", (event) => {
    const svg = event.target.closest("figure svg");
    if (!svg || svg.parentElement.dataset.key.endsWith("@k")) return;
    const [box, [left, right, first, last]] = [svg.getBoundingClientRect(), svg.dataset.x.split(" ").map(Number)];
    const wanted = first + (last - first) * ((event.clientX - box.left) / box.width - left) / (right - left);
    const nearest = state.runs.flatMap((run, number) => run.steps.map((step) => [Math.abs(step - wanted), number, step])).filter(([, , step]) => step > 0).sort((a, b) => a[0] - b[0])[0];
    if (nearest) location.hash = `#step/${nearest[1]}/${nearest[2]}`;
  });

  async function overview() {
    const page = await ask("tables", { most: shown });
    const parts = [figures, tables(page)];
    if (page.more) {
      const more = make("button", `show ${Math.min(4 * STEP, page.more)} more`, { class: "more" });
      more.addEventListener("click", () => { shown += 4 * STEP; show(); });
      parts.push(more);
    }
    return parts;
  }

  function neighbours(up, hash, values, at, called = String) {
    const line = make("nav", undefined, { "aria-label": "neighbours" });
    if (at > 0) line.append(link(`← ${called(values[at - 1])}`, hash(values[at - 1]), "prev"));
    line.append(link("up", up, "up"));
    if (at >= 0 && at < values.length - 1) line.append(link(`${called(values[at + 1])} →`, hash(values[at + 1]), "next"));
    return line;
  }
  async function stepPage([run, step]) {
    const steps = state.runs[run].steps;
    return [
      make("h2", `${state.runs[run].name}: step ${step}`),
      neighbours("#", (other) => `#step/${run}/${other}`, steps, steps.indexOf(Number(step))),
      tables(await ask("groups", { run, step })),
    ];
  }

  // The lines of a text that the longest common subsequence with another one leaves over.
  function leftOver(lines, others) {
    const table = Array.from({ length: lines.length + 1 }, () => new Uint16Array(others.length + 1));
    for (let i = lines.length - 1; i >= 0; i--) {
      for (let j = others.length - 1; j >= 0; j--) {
        table[i][j] = lines[i] === others[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    const over = new Set();
    for (let i = 0, j = 0; i < lines.length;) {
      if (j < others.length && lines[i] === others[j]) { i++; j++; }
      else if (j < others.length && table[i][j + 1] >= table[i + 1][j]) j++;
      else over.add(i++);
    }
    return over;
  }
  function text(sample, best) {
    const [box, lines, others] = [make("pre"), sample.text.split("\n"), best.text.split("\n")];
    const over = sample === best || lines.length * others.length > 1e6 ? new Set() : leftOver(lines, others);
    lines.forEach((line, at) => {
      const end = at < lines.length - 1 ? "\n" : "";
      box.append(over.has(at) ? make("mark", line) : line, end);
    });
    return box;
  }
  // Every difference is marked against `best`, which is called so where it beats another.
  function completion(sample, number, best, beats, named, other) {
    const top = sample === best && beats;
    const box = make("section", undefined, top ? { class: "top" } : {});
    const numbers = make("p", undefined, { class: "numbers" });
    const facts = [
      ...(sample.advantage === undefined ? [] : [["advantage", digits(sample.advantage)]]),
      ...(other === undefined ? [] : [[`under ${named}`, digits(other)]]),
      ...(Number.isFinite(sample.tokens) ? [["tokens", digits(sample.tokens)]] : []), ...Object.entries(sample.rewards || {}).map(([name, value]) => [name, digits(value)]),
      ...(sample.tests ? [["tests", `${sample.passed} of ${sample.tests}${sample.outcome ? `, ${sample.outcome.replaceAll("_", " ")}` : ""}`]] : []),
    ];
    numbers.append(...facts.map(([name, value]) => make("span", `${name}: ${value}`)));
    box.append(make("h3", `${number + 1}: ${sample.reward === null ? "unscored" : `reward ${digits(sample.reward)}`}${top ? ", the best" : ""}`), numbers);
    if (sample.failure) box.append(failure(sample.failure));
    box.append(text(sample, best));
    return box;
  }
  function side(group, named) {
    if (!group.samples.length) return make("p", "There are no samples here.");
    const [whole, box] = [make("div"), make("div", undefined, { class: "group" })];
    const best = group.samples.reduce((one, other) => ((other.reward ?? -Infinity) > (one.reward ?? -Infinity) ? other : one));
    const beats = group.samples.some((sample) => sample.reward !== best.reward);
    const order = group.samples.map((sample, at) => [sample, at]).sort((a, b) => (b[0].reward ?? -Infinity) - (a[0].reward ?? -Infinity));
    const more = make("button", "", { class: "more" });
    const extend = () => {
      box.append(...order.splice(0, SIDE).map(([sample, at]) => completion(sample, at, best, beats, named, group.other?.[at])));
      more.textContent = `show ${Math.min(SIDE, order.length)} of ${order.length} more`;
      if (!order.length) more.remove();
    };
    more.addEventListener("click", extend);
    whole.append(box, more);
    extend();
    return whole;
  }
  function chooser(name, entries, chosen, go) {
    const [shown, select] = [make("label", `${name} `), make("select", undefined, { "aria-label": name })];
    select.append(...entries.map(([text, value]) => new Option(text, value, false, value === chosen)));
    select.addEventListener("change", () => go(select.value));
    shown.append(select);
    return shown;
  }
  // A group under the method that is chosen; where that is refused without it, and why.
  async function groupAt(where, choice) {
    try { return [await ask("group", { ...where, ...choice }), ""]; }
    catch (error) { return [await ask("group", where), error.message]; }
  }
  const refused = (refusal) => (refusal ? [make("p", refusal, { class: "error" })] : []);
  async function groupPage([run, step, at, method = "-", k, beside]) {
    const choice = method === "-" ? {} : { method, k };
    const [group, refusal] = await groupAt({ run, step, place: at }, choice);
    const named = method !== "-" && !refusal ? `${method}, k = ${k}` : "";
    const name = `${state.runs[run].name}${Number(step) ? `: step ${step}` : ""}`;
    const go = (changed) => {
      const next = { method, k: k || group.k, beside: beside || "", ...changed };
      location.hash = `#group/${run}/${step}/${at}/${next.method}/${next.k}${next.beside === "" ? "" : `/${next.beside}`}`;
    };
    // The nearest group of the same prompt in every other run.
    const near = new Map();
    for (const one of group.drawn.filter(([number]) => number !== Number(run)).sort((a, b) => Math.abs(b[1] - step) - Math.abs(a[1] - step))) near.set(one[0], one);
    const other = near.get(Number(beside)) || [...near.values()].pop();
    const controls = make("div", undefined, { class: "controls" });
    if (group.method !== undefined) {
      const [size, shownSize] = [make("input", undefined, { type: "number", min: 1, value: k || group.k, "aria-label": "k" }), make("label", "k ")];
      size.addEventListener("change", () => go({ k: size.value }));
      shownSize.append(size);
      controls.append(chooser("method", [["as trained", "-"], ...state.methods.map((one) => [one, one])], method, (value) => go({ method: value })), shownSize);
    }
    if (near.size > 1) controls.append(chooser("beside", [...near.keys()].sort((a, b) => a - b).map((one) => [state.runs[one].name, String(one)]), String(other[0]), (value) => go({ beside: value })));
    const up = Number(step) ? `#step/${run}/${step}` : "#";
    const parts = [
      make("h2", `${name}${group.id === null ? "" : `, ${group.id}`}`),
      neighbours(up, (next) => `#group/${run}/${step}/${next}${k ? `/${method}/${k}` : ""}`, [...Array(group.count).keys()], Number(at), (place) => `${place + 1} of ${group.count}`),
      ...(group.prompt ? [make("pre", group.prompt)] : []), controls,
      make("p", `${group.method === undefined ? "" : `Trained with ${typeof group.method === "string" ? group.method : JSON.stringify(group.method)}, k = ${group.k}. `}Lines in which a completion differs from the first one here are marked.`, { class: "soft" }),
      ...refused(refusal), side(group, named),
    ];
    if (other) {
      const [number, where, index] = other;
      const chosen = named && state.runs[number].trained ? choice : {};
      const [besides, reason] = await groupAt({ run: number, step: where, place: index }, chosen);
      parts.push(make("h2", `${state.runs[number].name}${where ? `: step ${where}` : ""}, the same prompt`), ...refused(reason), side(besides, named));
    }
    if (group.drawn.length > 1) parts.push(link(`the prompt was drawn ${group.drawn.length} times`, `#prompt/${group.group}`));
    return parts;
  }
  const listing = (name, caption) => async ([wanted]) => [
    make("h2", caption(wanted)), neighbours("#", String, [], -1), tables(await ask("groups", { [name]: wanted })),
  ];

  const PAGES = { step: stepPage, group: groupPage, prompt: listing("prompt", () => "One prompt"), search: listing("text", (wanted) => `Groups with “${wanted}”`) };
  async function show() {
    const hash = location.hash;
    const [name, ...rest] = hash.slice(1).split("/").map(decodeURIComponent);
    let parts;
    try { parts = await (name in PAGES ? PAGES[name](rest) : overview()); }
    catch (error) { parts = [make("p", error.message, { class: "error" }), link("up", "#", "up")]; }
    if (location.hash !== hash) return;
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    place.replaceChildren(...parts);
    if (focused) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    place.dataset.page = hash || "#";
    fit();
  }
  async function poll() {
    const begun = performance.now();
    try {
      const newest = await ask("state", { known: version });
      if (newest.version !== version) {
        const first = state === null;
        [state, version] = [newest, newest.version];
        const keys = state.figures.map(([key]) => key);
        for (const one of [...figures.children]) if (!keys.includes(one.dataset.key)) one.remove(); // of a run that is gone
        document.getElementById("runs").replaceChildren(...state.runs.map((run) => {
          const line = make("li");
          const swatch = make("span", undefined, { class: "swatch" });
          swatch.style.setProperty("--line", run.color);
          line.append(swatch, `${run.name}: ${run.progress}`);
          return line;
        }));
        const here = location.hash.slice(1).split("/")[0];
        if (first || !(here in PAGES)) await show();
      }
    } catch (error) { if (state === null) place.replaceChildren(make("p", error.message, { class: "error" })); }
    setTimeout(poll, Math.max(POLL, 9 * (performance.now() - begun)));
  }
  async function keepDrawn() {
    const wanted = state && figures.isConnected && figures.dataset.version !== version;
    try { if (wanted) await draw(); } catch (error) { await paused(POLL); }
    setTimeout(keepDrawn, 50);
  }
  const search = document.getElementById("search");
  search.addEventListener("change", () => { location.hash = search.value ? `#search/${encodeURIComponent(search.value)}` : "#"; });
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target.matches("input, select");
    if (event.key === "Escape" && typing) event.target.blur();
    const rel = { ArrowLeft: "prev", ArrowRight: "next", Escape: "up" }[event.key];
    if (typing || !(rel || event.key === "/")) return;
    event.preventDefault();
    if (rel) place.querySelector(`a[rel=${rel}]`)?.click();
    else search.focus();
  });
  poll();
  keepDrawn();
})();
