// The page of `maxatk view`: what has been logged, a step, a group, a prompt, a search.
(() => {
  const place = document.getElementById("place");
  const [STEP, POLL] = [50, 2000];
  let [state, version, shown] = [null, "", STEP];
  const digits = (value) => (value === null || value === undefined ? "–" : Number.isInteger(value) ? String(value) : value.toFixed(3));
  const link = (text, hash, rel) => make("a", text, { href: hash, ...(rel ? { rel } : {}) });
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  async function ask(name, query) {
    const answer = await fetch(`api/${name}?${new URLSearchParams(query)}`);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  }

  // A table of the report: cells are texts or elements, the first of a row names it.
  function grid(id, caption, heads, rows) {
    const [table, top, bottom, line] = [make("table", undefined, { id }), make("thead"), make("tbody"), make("tr")];
    line.append(...heads.map((head) => make("th", head, { scope: "col" })));
    top.append(line);
    for (const [first, ...others] of rows) {
      const [row, name] = [make("tr"), make("th", undefined, { scope: "row" })];
      name.append(first);
      row.append(name, ...others.map((cell, at) => {
        const found = make("td", undefined, { "data-label": heads[at + 1] });
        found.append(cell);
        return found;
      }));
      bottom.append(row);
    }
    const said = make("caption", caption);
    said.append(download(id, () => cells(table)));
    table.append(said, top, bottom);
    const wide = make("div", undefined, { class: "wide" });
    wide.append(table);
    return wide;
  }

  // Points are what was logged, lines their running mean over 15% of them, as in the report.
  function smoothed(values) {
    const reach = Math.floor(0.15 * values.length / 2);
    return values.map((_, at) => {
      const each = Math.min(reach, at, values.length - 1 - at);
      const part = values.slice(at - each, at + each + 1);
      return part.reduce((sum, value) => sum + value, 0) / part.length;
    });
  }
  function chart(key, caption, at) {
    const curves = state.runs.map((run) => run.rows.filter((row) => row[at] !== null && row[at] !== undefined && row[0] !== null).map((row) => [row[0], row[at]]));
    const all = curves.flat();
    if (!all.length) return null;
    const [width, height, left, base] = [400, 170, 44, 148];
    const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    const [[first, last], [low, high]] = [range(all.map(([x]) => x)), range(all.map(([, y]) => y))];
    const x = (step) => left + (width - left - 8) * (last > first ? (step - first) / (last - first) : 0.5);
    const y = (value) => base - (base - 12) * (high > low ? (value - low) / (high - low) : 0.5);
    const figure = make("figure");
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `${key} from step ${first} to ${last}, from ${digits(low)} to ${digits(high)}` });
    curves.forEach((points, run) => {
      const [color, means] = [state.runs[run].color, smoothed(points.map(([, value]) => value))];
      svg.append(
        draw("path", { d: points.map(([step, value]) => `M${x(step).toFixed(1)} ${y(value).toFixed(1)}h0`).join(""), stroke: color, "stroke-width": 4, "stroke-linecap": "round", opacity: 0.45, fill: "none" }),
        draw("path", { d: points.map(([step], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(means[i]).toFixed(1)}`).join(""), stroke: color, "stroke-width": 2, fill: "none" }),
      );
    });
    for (const [text, px, py, anchor] of [[digits(high), left - 4, 16, "end"], [digits(low), left - 4, base, "end"], [String(first), left, 164, "start"], [String(last), width - 8, 164, "end"]]) {
      svg.append(draw("text", { x: px, y: py, "text-anchor": anchor }, text));
    }
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const wanted = first + (last - first) * (((event.clientX - box.left) / box.width) * width - left) / (width - left - 8);
      const nearest = state.runs.flatMap((run, number) => run.steps.map((step) => [Math.abs(step - wanted), number, step])).sort((a, b) => a[0] - b[0])[0];
      if (nearest) location.hash = `#step/${nearest[1]}/${nearest[2]}`;
    });
    figure.append(svg, make("figcaption", `${key}: ${caption}`));
    return figure;
  }

  function overview() {
    const figures = make("div", undefined, { class: "figures" });
    state.quantities.forEach(([key, caption], at) => figures.append(chart(key, caption, at + 1) || ""));
    const found = state.runs.flatMap((run, number) => {
      const logged = new Map(run.rows.map((row) => [row[0], row]));
      return run.steps.map((step) => [step, number, logged.get(step) || []]);
    }).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    const name = (step, run) => (state.runs.length > 1 ? `${step}, ${state.runs[run].name}` : String(step));
    const keys = state.quantities.map(([key]) => key);
    const rows = found.slice(0, shown).map(([step, run, row]) => [link(name(step, run), `#step/${run}/${step}`), ...keys.map((_, at) => digits(row[at + 1]))]);
    const parts = [figures, grid("steps", `${found.length} steps with groups, the last first; a step opens its prompts, and so does a click into a figure.`, ["step", ...keys], rows)];
    if (found.length > shown) {
      const more = make("button", `show ${Math.min(4 * STEP, found.length - shown)} more`, { class: "more" });
      more.addEventListener("click", () => { shown += 4 * STEP; show(); });
      parts.push(more);
    }
    return parts;
  }

  const rewardsText = (rewards) => {
    const counts = new Map();
    for (const reward of [...rewards].sort((a, b) => (b ?? -Infinity) - (a ?? -Infinity))) counts.set(digits(reward), (counts.get(digits(reward)) || 0) + 1);
    return [...counts].map(([reward, count]) => `${reward === "–" ? "unscored" : reward} × ${count}`).join(", ");
  };
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  const scored = (rewards) => rewards.filter((reward) => reward !== null);
  const title = (group) => `${group.id === null ? "" : `${group.id}: `}${group.prompt.slice(0, 80) || "–"}`;
  const groupRow = (group, run, step, at) => [
    link(title(group), `#group/${run}/${step}/${at}`), rewardsText(group.rewards), digits(mean(scored(group.rewards))),
    digits(scored(group.rewards).length ? Math.max(...scored(group.rewards)) : null), group.silent ? "none" : "yes",
  ];
  const HEADS = ["prompt", "rewards", "mean", "best", "signal"];
  function neighbours(up, hash, values, at) {
    const line = make("nav", undefined, { "aria-label": "neighbours" });
    if (at > 0) line.append(link(`← ${values[at - 1]}`, hash(values[at - 1]), "prev"));
    line.append(link("up", up, "up"));
    if (at >= 0 && at < values.length - 1) line.append(link(`${values[at + 1]} →`, hash(values[at + 1]), "next"));
    return line;
  }

  async function stepPage([run, step]) {
    const { groups } = await ask("step", { run, step });
    const steps = state.runs[run].steps;
    return [
      make("h2", `${state.runs[run].name}: step ${step}`),
      neighbours("#", (other) => `#step/${run}/${other}`, steps, steps.indexOf(Number(step))),
      grid("groups", `${groups.length} groups that were kept; a prompt opens its completions.`, HEADS, groups.map((group, at) => groupRow(group, run, step, at))),
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
  function completion(sample, number, best, named, other) {
    const box = make("section", undefined, sample === best ? { class: "top" } : {});
    const said = make("p", undefined, { class: "numbers" });
    const facts = [
      ["advantage", digits(sample.advantage)], ...(other === undefined ? [] : [[`under ${named}`, digits(other)]]),
      ["tokens", digits(sample.tokens)], ...Object.entries(sample.rewards || {}).map(([name, value]) => [name, digits(value)]),
      ...(sample.outcome ? [["tests", `${sample.passed} of ${sample.tests}, ${sample.outcome.replaceAll("_", " ")}`]] : []),
    ];
    said.append(...facts.map(([name, value]) => make("span", `${name}: ${value}`)));
    box.append(make("h3", `${number + 1}: ${sample.reward === null ? "unscored" : `reward ${digits(sample.reward)}`}${sample === best ? ", the best" : ""}`), said);
    if (sample.failure) box.append(failure(sample.failure));
    box.append(text(sample, best));
    return box;
  }
  function side(found, named) {
    const box = make("div", undefined, { class: "group" });
    const best = found.samples.reduce((one, other) => ((other.reward ?? -Infinity) > (one.reward ?? -Infinity) ? other : one));
    const order = found.samples.map((sample, at) => [sample, at]).sort((a, b) => (b[0].reward ?? -Infinity) - (a[0].reward ?? -Infinity));
    box.append(...order.map(([sample, at]) => completion(sample, at, best, named, found.other?.[at])));
    return box;
  }
  function methods(run, step, at, method, k) {
    const [chosen, size, box] = [make("select", undefined, { "aria-label": "method" }), make("input", undefined, { type: "number", min: 1, value: k, "aria-label": "k" }), make("div", undefined, { class: "controls" })];
    chosen.append(new Option("as trained", ""), ...state.methods.map((name) => new Option(name, name, false, name === method)));
    const go = () => { location.hash = `#group/${run}/${step}/${at}${chosen.value ? `/${chosen.value}/${size.value}` : ""}`; };
    chosen.addEventListener("change", go);
    size.addEventListener("change", go);
    const [one, two] = [make("label", "compare the advantages with those of "), make("label", "k ")];
    one.append(chosen);
    two.append(size);
    box.append(one, two);
    return box;
  }
  async function groupPage([run, step, at, method, k]) {
    const choice = method ? { method, k } : {};
    let [found, said] = [null, ""];
    try { found = await ask("group", { run, step, place: at, ...choice }); }
    catch (error) {
      said = error.message;
      found = await ask("group", { run, step, place: at });
    }
    const { groups } = await ask("step", { run, step });
    const named = method && !said ? `${method}, k = ${k}` : "";
    const parts = [
      make("h2", `${state.runs[run].name}: step ${step}${found.id === null ? "" : `, ${found.id}`}`),
      neighbours(`#step/${run}/${step}`, (other) => `#group/${run}/${step}/${other}${method ? `/${method}/${k}` : ""}`, groups.map((_, number) => number), Number(at)),
      make("pre", found.prompt), methods(run, step, at, method, k || found.k),
      make("p", `Trained with ${typeof found.method === "string" ? found.method : JSON.stringify(found.method)}, k = ${found.k}. What differs from the best is marked.`, { class: "soft" }),
      ...(said ? [make("p", said, { class: "error" })] : []), side(found, named),
    ];
    const others = found.drawn.filter((one) => one.run !== Number(run));
    const near = others.sort((a, b) => Math.abs(a.step - step) - Math.abs(b.step - step))[0];
    if (near) {
      const other = await ask("group", { ...near, ...(named ? choice : {}) });
      parts.push(make("h2", `${state.runs[near.run].name}: step ${near.step}, the same prompt`), side(other, named));
    }
    if (found.drawn.length > 1) parts.push(link(`the prompt was drawn ${found.drawn.length} times`, `#prompt/${found.group}`));
    return parts;
  }
  async function found(caption, groups) {
    const name = (group) => (state.runs.length > 1 ? `${group.step}, ${state.runs[group.run].name}` : String(group.step));
    const rows = groups.map((group) => [...groupRow(group, group.run, group.step, group.place), name(group)]);
    return [make("h2", caption), neighbours("#", String, [], -1), grid("found", "A prompt opens its completions.", [...HEADS, "step"], rows)];
  }
  const promptPage = async ([key]) => found("One prompt", (await ask("prompt", { key })).drawn);
  async function searchPage([wanted]) {
    const { groups, most } = await ask("search", { text: wanted });
    return found(`${groups.length === most ? `the first ${most}` : groups.length} groups with “${wanted}”`, groups);
  }

  const PAGES = { step: stepPage, group: groupPage, prompt: promptPage, search: searchPage };
  async function show() {
    const hash = location.hash;
    const [name, ...rest] = hash.slice(1).split("/").map(decodeURIComponent);
    let parts;
    try { parts = name in PAGES ? await PAGES[name](rest) : overview(); }
    catch (error) { parts = [make("p", error.message, { class: "error" }), link("up", "#", "up")]; }
    if (location.hash !== hash) return;
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    place.replaceChildren(...parts);
    if (focused) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    place.dataset.page = hash || "#";
    fit();
  }
  async function poll() {
    try {
      const found = await ask("state", { known: version });
      if (found.version !== version) {
        const first = state === null;
        [state, version] = [found, found.version];
        document.getElementById("runs").replaceChildren(...state.runs.map((run) => {
          const line = make("li");
          const swatch = make("span", undefined, { class: "swatch" });
          swatch.style.setProperty("--line", run.color);
          const last = run.rows.length ? run.rows[run.rows.length - 1][0] : 0;
          line.append(swatch, `${run.name}: step ${last}${run.about.max_steps ? ` of ${run.about.max_steps}` : ""}${run.ended ? ", ended" : ""}`);
          return line;
        }));
        const here = location.hash.slice(1).split("/")[0];
        if (first || !(here in PAGES)) await show();
      }
    } catch (error) { if (state === null) place.replaceChildren(make("p", error.message, { class: "error" })); }
    setTimeout(poll, POLL);
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
})();
