// max@k and pass@k of pasted rewards, in the browser: nothing is sent anywhere. docs/metrics.md has the page.
"use strict";

const bestOfN = (() => {
  // The estimate of appendix C.1 for one problem: sum over i >= k of C(i-1, k-1) / C(n, k) r_(i).
  // The weight of the largest reward is k / n, and each smaller one's follows from the one above it.
  function maxAtK(rewards, k) {
    const scored = rewards.filter((r) => !Number.isNaN(r)).sort((a, b) => a - b);
    const n = scored.length;
    if (k > n) return NaN;
    let weight = k / n, total = 0;
    for (let i = n; i >= k; i--) {
      total += weight * scored[i - 1];
      weight *= i > 1 ? (i - k) / (i - 1) : 0;
    }
    return total;
  }

  const passAtK = (rewards, k) => maxAtK(rewards.map((r) => (Number.isNaN(r) ? NaN : Number(r >= 1))), k);

  // Lanczos' approximation with g = 7, exact to 1e-15.
  function logGamma(x) {
    const c = [676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406,
      12.507343278686905, -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7];
    const shifted = x - 1;
    const sum = c.reduce((s, value, i) => s + value / (shifted + i + 1), 0.9999999999998099);
    const t = shifted + 7.5;
    return 0.5 * Math.log(2 * Math.PI) + (shifted + 0.5) * Math.log(t) - t + Math.log(sum);
  }

  // The regularized incomplete beta function by Lentz's continued fraction.
  function incompleteBeta(x, a, b) {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
    const away = (v) => (Math.abs(v) < 1e-300 ? 1e-300 : v);
    let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), f = d;
    for (let m = 1; m < 500; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / away(1 + even * d); c = away(1 + even / c); f *= d * c;
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / away(1 + odd * d); c = away(1 + odd / c); f *= d * c;
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    const scale = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
    return (Math.exp(scale) * f) / a;
  }

  // The chance that Student's variable is further from 0 than t.
  const twoSided = (t, df) => incompleteBeta(df / (df + t * t), df / 2, 0.5);

  function tQuantile(level, df) {
    let low = 0, high = 1;
    while (twoSided(high, df) > 1 - level) high *= 2;
    for (let step = 0; step < 100; step++) {
      const middle = (low + high) / 2;
      if (twoSided(middle, df) > 1 - level) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  const rounding = 1e-9; // numbers that are closer are equal, but for the rounding of a sum

  // Mean with its error and the 95% interval of Student's t over problems, which equal values do not have.
  function interval(values) {
    const known = values.filter((v) => !Number.isNaN(v));
    const n = known.length;
    const mean = n ? known.reduce((a, b) => a + b, 0) / n : NaN;
    if (n < 2) return { mean, low: NaN, high: NaN, error: NaN, problems: n };
    const error = Math.sqrt(known.reduce((s, v) => s + (v - mean) ** 2, 0) / (n - 1) / n);
    if (!(error > rounding)) return { mean, low: NaN, high: NaN, error, problems: n };
    const half = tQuantile(0.95, n - 1) * error;
    return { mean, low: mean - half, high: mean + half, error, problems: n };
  }

  // That of a metric, cut at 0 and 1 where all values lie between, as `maxatk score` does.
  function metricInterval(values) {
    const whole = interval(values);
    const inUnit = values.every((v) => Number.isNaN(v) || (v >= 0 && v <= 1));
    return inUnit ? { ...whole, low: Math.max(0, whole.low), high: Math.min(1, whole.high) } : whole;
  }

  function number(text, line) {
    const trimmed = text.trim();
    if (/^(|nan|null|none|na)$/i.test(trimmed)) return NaN;
    if (/^(true|false)$/i.test(trimmed)) return Number(/true/i.test(trimmed));
    const value = Number(trimmed);
    if (!Number.isFinite(value)) throw new Error(`line ${line}: a reward must be a finite number, got "${trimmed.slice(0, 40)}"`);
    return value;
  }

  const IDS = ["problem", "problem_id", "task_id", "prompt", "id"];

  // Map from problem to rewards. With a header that names `reward` a line is a sample; else a line is a problem.
  function parse(text) {
    const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).map((line, i) => [line, i + 1]).filter(([line]) => line.trim());
    if (!lines.length) return new Map();
    const separator = ["\t", ";", ","].find((s) => lines[0][0].includes(s)) ?? ",";
    const cells = ([line]) => line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
    const header = cells(lines[0]).map((name) => name.toLowerCase());
    const reward = header.findIndex((name) => ["reward", "score"].includes(name));
    return reward >= 0 ? samples(lines.slice(1), cells, header, reward) : rows(lines, cells);
  }

  function samples(lines, cells, header, reward) {
    const problem = header.findIndex((name) => IDS.includes(name));
    if (problem < 0) throw new Error("beside the column reward one must be called problem, problem_id, task_id, prompt or id");
    const found = new Map();
    for (const line of lines) {
      const row = cells(line);
      if (!found.has(row[problem])) found.set(row[problem], []);
      found.get(row[problem]).push(number(row[reward] ?? "", line[1]));
    }
    return found;
  }

  function rows(lines, cells) {
    const isNumber = (cell) => cell === "" || Number.isFinite(Number(cell)) || /^(nan|true|false|null|none|na)$/i.test(cell);
    // A header names its columns: a first line with numbers in it is a problem, and a bad cell in it an error.
    const head = cells(lines[0]);
    const titled = lines.length > 1 && (IDS.includes(head[0].toLowerCase()) || head.every((cell) => cell === "" || !isNumber(cell)));
    const named = lines.slice(titled ? 1 : 0).some((line) => !isNumber(cells(line)[0]));
    const found = new Map();
    lines.slice(titled ? 1 : 0).forEach((line, i) => {
      const row = cells(line);
      const name = named ? row.shift() : String(i + 1);
      if (found.has(name)) throw new Error(`line ${line[1]}: the problem "${name.slice(0, 40)}" has two lines`);
      found.set(name, row.map((cell) => number(cell, line[1])));
    });
    return found;
  }

  // 1, 2, 4, ... up to the most scored samples that any problem has, and that number.
  function ks(tables) {
    const most = Math.max(0, ...tables.flatMap((t) => [...t.values()].map((r) => r.filter((v) => !Number.isNaN(v)).length)));
    const found = [];
    for (let k = 1; k < most; k *= 2) found.push(k);
    return most ? [...found, most] : [];
  }

  const column = (table, metric, k) => [...table.values()].map((rewards) => metric(rewards, k));

  // B minus A over the problems that both have, tested as `maxatk compare` does: p is never below that of flipping the
  // signs of the problems that differ, which is all there is where the differences have no spread.
  function difference(a, b, metric, k) {
    const shared = [...a.keys()].filter((name) => b.has(name));
    const differences = shared.map((name) => metric(b.get(name), k) - metric(a.get(name), k));
    const found = interval(differences);
    const signs = Math.min(1, 2 ** (1 - differences.filter((v) => Math.abs(v) >= rounding).length));
    if (!(found.error > rounding)) return { ...found, p: signs };
    return { ...found, p: Math.max(signs, twoSided(found.mean / found.error, found.problems - 1)) };
  }

  return { maxAtK, passAtK, metricInterval, tQuantile, parse, ks, column, difference };
})();

(() => {
  if (typeof document === "undefined") return;
  const root = document.getElementById("rewards");
  if (!root) return;
  const inputs = ["a", "b"].map((id) => root.querySelector(`#rewards-${id}`));
  const output = root.querySelector("output");
  const three = (v) => (Number.isNaN(v) ? "-" : v.toFixed(3));
  const shown = (i) => `${three(i.mean)} [${three(i.low)}, ${three(i.high)}]`;

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function tableOf(heads, lines) {
    const table = element("table"), head = element("tr"), body = element("tbody");
    heads.forEach((name) => head.append(element("th", name, { scope: "col" })));
    for (const [first, ...rest] of lines) {
      const row = element("tr");
      row.append(element("th", first, { scope: "row" }), ...rest.map((cell) => element("td", cell)));
      body.append(row);
    }
    const top = element("thead");
    top.append(head);
    table.append(top, body);
    return table;
  }

  function svg(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Curves of max@k against k on a logarithmic axis, with intervals.
  function figure(ks, curves) {
    const picture = svg("svg", { viewBox: "0 0 480 240", role: "img", "aria-label": "max@k against k; the table has the numbers" });
    const all = curves.flatMap((c) => c.points.map((p) => p.mean)).filter((v) => !Number.isNaN(v));
    const low = Math.min(0, ...all), high = Math.max(1, ...all);
    const x = (k) => 45 + (415 * Math.log2(k)) / Math.max(1, Math.log2(ks[ks.length - 1]));
    const y = (v) => 205 - (185 * (Math.min(Math.max(v, low), high) - low)) / (high - low); // intervals end at the frame
    for (const v of [low, (low + high) / 2, high]) {
      picture.append(svg("line", { x1: 45, x2: 460, y1: y(v), y2: y(v), class: "grid" }), svg("text", { x: 38, y: y(v) + 4, "text-anchor": "end" }, v.toFixed(2)));
    }
    ks.forEach((k) => picture.append(svg("text", { x: x(k), y: 225, "text-anchor": "middle" }, k)));
    curves.forEach(({ name, points }, index) => {
      const kept = points.map((p, i) => [p, ks[i]]).filter(([p]) => !Number.isNaN(p.mean));
      picture.append(svg("polyline", { points: kept.map(([p, k]) => `${x(k)},${y(p.mean)}`).join(" "), class: `curve-${index}` }));
      for (const [p, k] of kept) {
        if (!Number.isNaN(p.low)) picture.append(svg("line", { x1: x(k), x2: x(k), y1: y(p.low), y2: y(p.high), class: `curve-${index}` }));
      }
      const [last, k] = kept[kept.length - 1] ?? [{ mean: low }, 1];
      picture.append(svg("text", { x: x(k), y: y(last.mean) - 6, "text-anchor": "end" }, name));
    });
    return picture;
  }

  function verdict(ks, differences) {
    const side = (d) => (d.p > 0.05 ? "" : d.mean > 0 ? "B" : "A");
    const of = (name) => ks.filter((k, i) => side(differences[i]) === name);
    const parts = ["A", "B"].filter((name) => of(name).length).map((name) => `${name} is better for k = ${of(name).join(", ")}`);
    return parts.length ? `${parts.join("; ")}. Elsewhere p is above 0.05.` : "At no k is p 0.05 or less.";
  }

  function render() {
    output.replaceChildren();
    try {
      const tables = inputs.map((input) => bestOfN.parse(input.value)).filter((table) => table.size);
      const ks = bestOfN.ks(tables);
      if (!ks.length) return;
      const curves = tables.map((t, i) => ({ name: "AB"[i], points: ks.map((k) => bestOfN.metricInterval(bestOfN.column(t, bestOfN.maxAtK, k))) }));
      const passes = tables.map((t) => ks.map((k) => bestOfN.metricInterval(bestOfN.column(t, bestOfN.passAtK, k))));
      const heads = ["k", ...curves.flatMap((c) => (tables.length > 1 ? [`max@k ${c.name}`, `pass@k ${c.name}`] : ["max@k", "pass@k"]))];
      const lines = ks.map((k, i) => [k, ...curves.flatMap((c, t) => [shown(c.points[i]), shown(passes[t][i])])]);
      output.append(element("p", tables.map((t, i) => `${"AB"[i]}: ${t.size} problem${t.size === 1 ? "" : "s"}`).join(", ")), figure(ks, curves), tableOf(heads, lines));
      if (tables.length > 1) {
        const differences = ks.map((k) => bestOfN.difference(...tables, bestOfN.maxAtK, k));
        output.append(element("h2", "B - A"), element("p", verdict(ks, differences)),
          tableOf(["k", "difference of max@k", "p", "problems"], ks.map((k, i) => [k, shown(differences[i]), three(differences[i].p), differences[i].problems])));
      }
    } catch (error) {
      output.append(element("p", error.message, { role: "alert" }));
    }
  }

  inputs.forEach((input) => {
    input.addEventListener("input", render);
    input.addEventListener("dragover", (event) => event.preventDefault());
    input.addEventListener("drop", async (event) => {
      const file = event.dataTransfer.files[0];
      if (!file) return;
      event.preventDefault();
      input.value = await file.text();
      render();
    });
  });
  root.querySelector("button").addEventListener("click", () => {
    inputs[0].value = "1,1,1,1\n1,1,1,0\n0,0,0,0\n1,1,0,1\n0,0,0,0.5\n1,1,1,1\n0,0,0,0\n1,0.5,1,1";
    inputs[1].value = "1,0,0,0.5\n0,1,0,0\n0,1,0,0\n0,0,0,1\n1,0,0,0\n0,0.5,1,0\n0,0,1,0\n0,1,0,0";
    render();
  });
  render();
})();
