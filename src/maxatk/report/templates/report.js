"use strict";
const make = (tag, text, attributes) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  return element;
};

// Tables that are wider than their place become cards.
function fit() {
  for (const place of document.querySelectorAll(".wide")) {
    const table = place.firstElementChild;
    table.classList.remove("cards");
    if (!table.classList.contains("strip") && table.scrollWidth > place.clientWidth) table.classList.add("cards");
  }
}
addEventListener("resize", fit);
addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); fit(); });
addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); fit(); });

// CSV: what stands below a number, such as its interval, has a column of its own.
const plain = (text) => text.trim().replaceAll("−", "-").replaceAll("–", "");
// A spreadsheet would compute what begins like a formula: a model may be named `=1+1`.
const inert = (text) => (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csv = (rows) => rows.map((row) => row.map((text) => quoted(inert(String(text)))).join(",") + "\r\n").join("");
function cells(table) {
  const parts = (cell) => [plain((cell.querySelector("span") || cell).textContent), ...[...cell.querySelectorAll("small")].map((s) => s.textContent)];
  const rows = [...table.querySelectorAll("tbody tr:not(.detail)")].map((row) => [...row.cells].map(parts));
  const heads = [...table.querySelectorAll("thead th")].map((cell) => plain(cell.textContent));
  const most = heads.map((_, at) => Math.max(1, ...rows.map((row) => row[at].length)));
  const spread = (at, cells) => [...cells, ...Array(most[at] - cells.length).fill("")];
  const named = heads.flatMap((head, at) => spread(at, [head]).map((_, part) => (part ? `${head} (${part > 1 ? "note" : "detail"})` : head)));
  return [named, ...rows.map((row) => row.flatMap((cells, at) => spread(at, cells)))];
}
function download(name, rows) {
  const link = make("a", "CSV", { class: "download", href: "#", download: `${name}.csv` });
  link.addEventListener("click", () => { link.href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv(rows())); });
  return link;
}
// Why a sample failed: its first failed test.
function failure(test) {
  const box = make("div", undefined, { class: "failure" });
  box.append(make("p", `test ${test.test + 1}: ${test.outcome}`));
  for (const [name, text] of [["input", test.input], ["expected", test.expected], ["got", test.got], ["error", test.error]]) {
    if (!text) continue;
    const part = make("div");
    part.append(make("small", name), make("pre", text));
    box.append(part);
  }
  return box;
}

// A long name may be broken behind an underscore.
for (const cell of document.querySelectorAll(".strip th[scope=row]")) {
  const parts = cell.textContent.split(/(?<=_)/);
  cell.replaceChildren(...parts.flatMap((part) => [part, make("wbr")]));
}

// The sentence to send, for the N that is chosen.
async function copy(text, button) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = make("textarea", text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}
for (const box of document.querySelectorAll(".send")) {
  const [choice, button] = [box.querySelector("select"), box.querySelector("button")];
  const messages = [...box.querySelectorAll(".message")];
  button.parentElement.hidden = false;
  choice.addEventListener("change", () => { for (const one of messages) one.hidden = one.dataset.k !== choice.value; });
  button.addEventListener("click", () => copy(messages.find((one) => !one.hidden).textContent, button));
}

// The switch between max@N and pass@N: everything on the page follows it.
const metrics = document.getElementById("metric");
function decideBy(metric) {
  for (const part of document.querySelectorAll("[data-metric]")) part.hidden = part.dataset.metric !== metric;
  for (const button of metrics.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.by === metric));
  fit();
  dispatchEvent(new CustomEvent("metric", { detail: metric }));
}
if (metrics) {
  metrics.hidden = false;
  for (const button of metrics.querySelectorAll("button")) button.addEventListener("click", () => decideBy(button.dataset.by));
}

function downloads(place) {
  for (const table of place.querySelectorAll("table[id]")) table.caption.append(download(table.id, () => cells(table)));
}
downloads(document.querySelector("main"));
if (metrics) decideBy(metrics.querySelector("button").dataset.by);
fit();
