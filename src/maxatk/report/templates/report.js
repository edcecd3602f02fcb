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
const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csv = (rows) => rows.map((row) => row.map((text) => quoted(String(text))).join(",") + "\r\n").join("");
function cells(table) {
  const parts = (cell) => [plain((cell.querySelector("span") || cell).textContent), ...[...cell.querySelectorAll("small")].map((s) => s.textContent)];
  const rows = [...table.querySelectorAll("tbody tr:not(.detail)")].map((row) => [...row.cells].map(parts));
  const heads = [...table.querySelectorAll("thead th")].map((cell) => plain(cell.textContent));
  const most = heads.map((_, at) => Math.max(1, ...rows.map((row) => row[at].length)));
  const spread = (at, found) => [...found, ...Array(most[at] - found.length).fill("")];
  const named = heads.flatMap((head, at) => spread(at, [head]).map((_, part) => (part ? `${head} (${part > 1 ? "note" : "detail"})` : head)));
  return [named, ...rows.map((row) => row.flatMap((found, at) => spread(at, found)))];
}
function download(name, rows) {
  const link = make("a", "CSV", { class: "download", href: "#", download: `${name}.csv` });
  link.addEventListener("click", () => { link.href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv(rows())); });
  return link;
}
// Why a sample failed: its first failed test.
function failure(found) {
  const box = make("div", undefined, { class: "failure" });
  box.append(make("p", `test ${found.test + 1}: ${found.outcome}`));
  for (const [name, text] of [["input", found.given], ["expected", found.expected], ["came", found.got], ["error", found.error]]) {
    if (!text) continue;
    const part = make("div");
    part.append(make("small", name), make("pre", text));
    box.append(part);
  }
  return box;
}

for (const table of document.querySelectorAll("main table[id]")) {
  table.caption.append(download(table.id, () => cells(table)));
}
fit();
