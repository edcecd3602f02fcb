"""The page in a real browser, without a network: what it lays out, does, and asks for."""

import copy
import csv
import io

import pytest

import runs
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from maxatk.report import write_report
from maxatk.report.decision import decide
from maxatk.report.load_runs import load_comparison
from maxatk.report.tables import change, change_interval, interval, p_value, three_decimals
from maxatk.verifier import Verifier

# Added to a copy of the page: what a reader would see, and the outcome of a test's own steps.
PROBE = """<script>
const steps = () => { %s };
addEventListener("load", () => {
  const root = document.documentElement;
  const seen = (e) => e.getBoundingClientRect().width > 20 && e.getBoundingClientRect().height > 5;
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(seen);
  const beyond = (e) => e.scrollWidth - e.clientWidth;
  const done = steps();
  document.body.dataset.found = JSON.stringify({
    done,
    width: root.clientWidth,
    beyond: beyond(root),
    clipped: shown(".wide, pre, .controls, nav, .legend").filter((e) => beyond(e) > 0)
      .map((e) => e.firstElementChild?.id || e.tagName),
    cards: shown("table.cards").map((table) => table.id),
    figures: shown("figure > svg").length,
    tables: shown("table").map((table) => table.id),
    ground: getComputedStyle(document.body).backgroundColor,
    requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  });
});
</script></body>"""
OF_MAX = ("winners-max-at-k", "scores-max-at-k")
TABLES = (*OF_MAX, "settings", "outcomes")  # "models" too where one has the record of a training
ROWS = """const rows = () => [...document.querySelectorAll("#problem-table tbody tr")]
  .map((row) => [...row.cells].map((cell) => cell.textContent));
const choose = (key, value) => {
  const found = document.querySelector(`select[data-key=${key}]`);
  found.value = value; found.dispatchEvent(new Event("change")); };
"""


def name_of(row):
    """The problem of a row: its id without the sign of its address."""
    return row[0].removesuffix(" #")


@pytest.fixture(scope="module")
def probe(lone_browser, tmp_path_factory):
    """Return a function: what the browser measures on a page of HTML."""

    def measured(text, *, width=800, steps="return null", address="", scheme="light"):
        page = tmp_path_factory.mktemp("browser") / "page.html"
        page.write_text(text.replace("</body>", PROBE % steps), encoding="utf-8")
        size = {"width": width, "height": 600}
        return lone_browser.data_of(page.as_uri() + address, **size, scheme=scheme)

    return measured


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_report(results, path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def crowded(results, make, tmp_path_factory):
    """A page of many models with long names, and of many k."""
    names = [f"a_model_with_a_rather_long_name_{i}" for i in range(8)]
    runs = {"base": results["base"], **{n: make(i, 0.1, 0.1) for i, n in enumerate(names)}}
    path = tmp_path_factory.mktemp("crowded") / "report.html"
    return write_report(runs, path).read_text(encoding="utf-8")


def test_figures_and_tables_are_laid_out_and_nothing_is_asked_for(probe, page):
    measured = probe(page)
    assert measured["figures"] == 3
    assert {*TABLES, "pairs", "problem-table"} <= set(measured["tables"])
    assert measured["requests"] == []


def test_the_switch_decides_by_the_other_metric_everywhere_on_the_page(probe, page, results):
    steps = """
document.querySelector("button[data-by='pass@k']").click();
const all = (selector, read) => [...document.querySelectorAll(selector)].map(read);
const parts = all("[data-metric]", (e) => [e.dataset.metric, e.hidden]);
const pressed = all("#metric button", (e) => e.ariaPressed);
const caption = (id) => document.querySelector(`#${id} caption`).textContent;
return [parts, pressed, caption("pairs"), caption("problem-table"), rows()];"""
    measured = probe(page, steps=ROWS + steps)
    parts, pressed, pairs, problems, rows = measured["done"]
    assert parts == [["max@k", True], ["pass@k", False]]
    assert pressed == ["false", "true"]
    assert "pass@N" in pairs
    assert problems.startswith("pass@8 of 30 of 30 problems")
    values = results["base"]["per_problem"]["pass@k"]["8"]
    assert [float(row[1]) for row in rows] == pytest.approx(values[:20], abs=6e-4)
    assert "scores-pass-at-k" in measured["tables"]
    assert "scores-max-at-k" not in measured["tables"]
    assert measured["figures"] == 2  # one answer against the best of N is by max@k alone


@pytest.mark.parametrize(("first", "second"), [("sharp", "same"), ("same", "sharp")])
def test_any_two_models_are_compared_by_the_tests_of_the_verdict(
    probe, page, results, first, second
):
    comparison = load_comparison(results)
    place = comparison.names.index
    steps = """
choose("a", "%d"); choose("b", "%d");
const texts = (cell) => [...cell.childNodes].map((e) => e.textContent);
return [...document.querySelectorAll("#pairs tbody tr")].map((row) =>
  [...row.cells].map((cell) => [cell.className, ...texts(cell)]));"""
    rows = probe(page, steps=ROWS + steps % (place(first), place(second)))["done"]
    tests = [
        t.seen_from(first)
        for t in decide(comparison).tests
        if {t.first, t.second} == {first, second}
    ]
    assert len(rows) == len(tests) == 8
    for (k, one, other, moved, plot, p), test in zip(rows, tests, strict=True):
        mean = comparison.run(first).metric("max@k", test.measure.k)
        assert k[1] == str(test.measure.k)
        assert one[1:] == [three_decimals(mean.mean), interval(mean.low, mean.high)]
        assert other[1] == three_decimals(
            comparison.run(second).metric("max@k", test.measure.k).mean
        )
        assert moved[0] == test.mark
        assert moved[1:] == [change(test.difference), change_interval(test.low, test.high)]
        assert plot[0].split() == ["interval", *test.mark.split()]
        assert p[1] == p_value(test.adjusted_p)


def test_numbers_read_alike_on_the_whole_page(probe, tmp_path):
    """Halves of a thousandth, what rounds to one at four decimals, and what is nearly zero."""
    worths = {
        "base": [1 / 16, 3 / 16, 0.5, 0.25, 0.75, 0.5],
        "other": [3 / 16, 1 / 16, 0.489506, 0.260496, 0.7497, 0.5003],
    }
    sources = {}
    for name, rewards in worths.items():
        rows = [{"problem_id": f"p{p}", "reward": r} for p, r in enumerate(rewards)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
        sources[name] = tmp_path / f"{name}.jsonl"
    comparison = load_comparison(sources)
    page = write_report(comparison, tmp_path / "page.html").read_text()
    steps = """
const texts = (cell) => [...cell.childNodes].map((e) => e.textContent);
return [rows(), [...document.querySelectorAll("#pairs tbody td")].map(texts)];"""
    rows, (one, other, moved, _, p) = probe(page, steps=ROWS + steps)["done"]
    by_problem = zip(worths["base"], worths["other"], strict=True)
    for row, (base, trained) in zip(rows, by_problem, strict=True):
        assert row[1:] == [three_decimals(base), three_decimals(trained), change(trained - base)]
    (test,) = decide(comparison).tests
    means = [comparison.run(name).metric("max@k", 1).mean for name in ("other", "base")]
    assert [one[0], other[0]] == list(map(three_decimals, means))
    assert moved == [change(test.difference), change_interval(test.low, test.high)]
    assert p == [p_value(test.adjusted_p)]


def test_the_sentence_for_the_chosen_number_of_attempts_is_copied(probe, page, results):
    steps = """
let copied = "";
const clipboard = { writeText: async (text) => { copied = text; } };
Object.defineProperty(navigator, "clipboard", { value: clipboard });
const box = document.querySelector(".send");
const choice = box.querySelector("select");
choice.value = "64"; choice.dispatchEvent(new Event("change"));
box.querySelector("button").click();
const shown = [...box.querySelectorAll("p")].filter((p) => !p.hidden);
return [copied, shown.map((p) => p.textContent)];"""
    copied, shown = probe(page, steps=steps)["done"]
    comparison = load_comparison(results)
    assert copied == decide(comparison).advice(64)
    assert shown == [copied]


def test_a_request_would_be_noticed(probe, page):
    address = "http://elsewhere.invalid/x.png"
    assert probe(page.replace("<main>", f'<main><img src="{address}">'))["requests"] == [address]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["page", "crowded"])
def test_nothing_is_clipped_and_nothing_scrolls_sideways(probe, request, which, width):
    measured = probe(request.getfixturevalue(which), width=width)
    assert measured["width"] == pytest.approx(width, abs=20)
    assert (measured["beyond"], measured["clipped"]) == (0, [])
    assert measured["figures"] == 3
    if width == 390:
        assert {"scores-max-at-k", "pairs"} <= set(measured["cards"])
    elif which == "page":
        assert "scores-max-at-k" not in measured["cards"]


def test_a_printed_page_clips_nothing_and_shows_its_set_up(probe, crowded):
    measured = probe(crowded, width=1280, steps='dispatchEvent(new Event("beforeprint"))')
    assert measured["clipped"] == []
    assert {*TABLES, "scores-pass-at-k"} <= set(measured["tables"])
    assert "outcomes" in measured["cards"]


def test_a_clipped_table_would_be_noticed(probe, page):
    broad = page.replace("<main>", '<main><div style="width:600px">x</div>')
    assert probe(broad, width=390)["beyond"] > 0
    inner = page.replace("<main>", '<main><div class="wide"><p style="width:600px">x</p></div>')
    assert probe(inner, width=390)["clipped"] == ["DIV"]


def test_the_ground_follows_the_reader(probe, page):
    light = probe(page, scheme="light")
    dark = probe(page, scheme="dark")
    assert (light["ground"], dark["ground"]) == ("rgb(255, 255, 255)", "rgb(20, 23, 26)")


def test_problems_are_filtered_by_who_beats_whom_and_sorted(probe, page, results):
    steps = """
choose("k", "0"); choose("a", "1"); choose("b", "0"); choose("which", "A beats B");
document.querySelectorAll("#problem-table thead button")[4].click();
const heads = [...document.querySelectorAll("#problem-table th[aria-sort]")];
return [rows(), heads.map((e) => e.ariaSort)];"""
    rows, order = probe(page, steps=ROWS + steps)["done"]
    assert order == ["none"] * 4 + ["ascending"]
    ids = results["base"]["per_problem"]["ids"]
    base, sharp = (results[name]["per_problem"]["max@k"]["1"] for name in ("base", "sharp"))
    gains = {i: s - b for i, b, s in zip(ids, base, sharp, strict=True) if s > b + 5e-7}
    assert {name_of(row) for row in rows} == gains.keys()
    assert 0 < len(rows) < len(ids)
    shown = [float(row[4].replace("−", "-")) for row in rows]
    assert shown == sorted(shown)
    assert shown == pytest.approx(sorted(gains.values()), abs=2e-3)


def test_a_problem_without_a_value_beats_nothing_and_is_sorted_last(probe, results, tmp_path):
    lost = copy.deepcopy(results["sharp"])
    lost["per_problem"]["max@k"]["1"][1] = None
    path = write_report({"base": results["base"], "lost": lost}, tmp_path / "r.html")
    steps = """
choose("k", "0"); choose("which", "%s"); document.querySelector(".more")?.click();
for (const _ of [1, 2]) document.querySelectorAll("#problem-table thead button")[2].click();
return rows();"""
    text = path.read_text(encoding="utf-8")
    shown = probe(text, steps=ROWS + steps % "all")["done"]
    assert name_of(shown[-1]) == "p<1>"
    assert shown[-1][2:] == ["–", "–"]
    for which in ("A beats B", "B beats A"):
        assert "p<1>" not in [
            name_of(row) for row in probe(text, steps=ROWS + steps % which)["done"]
        ]


def test_a_search_leaves_the_problems_with_that_id(probe, page):
    steps = """
const search = document.querySelector("input[type=search]");
search.value = "P<7"; search.dispatchEvent(new Event("input"));
return rows();"""
    assert [name_of(row) for row in probe(page, steps=ROWS + steps)["done"]] == ["p<7>"]


def test_a_problem_has_an_address_that_shows_it_wherever_it_stands_in_the_list(probe, page):
    steps = """return [rows().length, document.getElementById("row-27").getBoundingClientRect().top,
  document.querySelector("#row-27 th a").getAttribute("href")];"""
    measured = probe(page, steps=ROWS + steps, address="#problem=p%3C27%3E")
    shown, top, href = measured["done"]
    assert shown == 30
    assert -1 <= top < 600
    assert href == "#problem=p%3C27%3E"
    unknown = probe(page, steps=ROWS + "return rows().length", address="#problem=none")
    assert unknown["done"] == 20


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("HumanEval/0", "HumanEval/0"), ("HumanEval/0", "HumanEval%2F0"), ("100%", "100%"),
        ("100%", "100%25"), ("a b", "a b"), ("a b", "a%20b"), ("a%20b", "a%2520b"),
        ("half of a pair: \ud800", "half of a pair: ?"),
    ],
)  # fmt: skip
def test_an_address_may_have_the_id_as_it_is_typed(probe, tmp_path, name, address):
    names = [f"p{number}" for number in range(30)]
    rows = [{"problem_id": name, "reward": 1.0} for name in [*names, name]]
    write_jsonl(tmp_path / "run.jsonl", rows)
    page = write_report({"run": tmp_path / "run.jsonl"}, tmp_path / "page.html").read_text()
    measured = probe(page, steps=ROWS + "return rows().length", address=f"#problem={address}")
    assert measured["done"] == 31


DOWNLOADS = """
const found = {};
for (const link of document.querySelectorAll("a.download")) {
  link.addEventListener("click", (event) => event.preventDefault());
  link.click();
  found[link.download] = decodeURIComponent(link.href.replace(/^[^,]*,/, ""));
}
return found;"""


def test_what_begins_like_a_formula_is_text_in_a_csv(probe, tmp_path):
    for name, reward in (("base", 1.0), ("other", 0.2)):
        rows = [{"problem_id": name, "reward": reward} for name in ("-1+1", "@a", "-7")]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    runs = {"=1+1": tmp_path / "base.jsonl", "b": tmp_path / "other.jsonl"}
    page = write_report(runs, tmp_path / "page.html").read_text()
    files = probe(page, steps=DOWNLOADS)["done"]
    scores = list(csv.reader(io.StringIO(files["scores-max-at-k.csv"])))
    assert [row[0] for row in scores] == ["model", "'=1+1", "b"]
    problems = list(csv.reader(io.StringIO(files["problems.csv"])))
    assert [row[0] for row in problems] == ["problem", "'-1+1", "-7", "'@a"]
    (pair,) = csv.DictReader(io.StringIO(files["pairs.csv"]))
    assert pair["difference"] == "-0.800"


def test_every_table_has_a_csv_of_its_numbers(probe, page, results):
    files = probe(page, steps=DOWNLOADS)["done"]
    tables = {*TABLES, "pairs", "problems", "scores-pass-at-k"}
    assert {f"{name}.csv" for name in tables} <= files.keys()
    rows = list(csv.DictReader(io.StringIO(files["scores-max-at-k.csv"])))
    for row in rows:
        mean = results[row["model"]]["metrics"]["max@k"]["8"]["mean"]
        assert float(row["max@8"]) == pytest.approx(mean, abs=5e-4)
    pairs = list(csv.DictReader(io.StringIO(files["pairs.csv"])))
    assert [row["N"] for row in pairs] == [str(2**i) for i in range(8)]
    moved = [
        r for r in decide(load_comparison(results)).tests if (r.first, r.second) == ("same", "base")
    ]
    shown = [float(row["difference"]) for row in pairs]
    assert shown == pytest.approx([test.difference for test in moved], abs=6e-4)
    problems = list(csv.DictReader(io.StringIO(files["problems.csv"])))
    assert [row["problem"] for row in problems] == results["base"]["per_problem"]["ids"]
    values = results["same"]["per_problem"]["max@k"]["4"]
    assert [float(row["same max@4"]) for row in problems] == pytest.approx(values, abs=1e-4)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A page of programs that were verified: one right, one wrong and one that fails."""
    folder = tmp_path_factory.mktemp("scored")
    tests = (TestCase(input="2\n", output="4\n"), TestCase(input="3\n", output="6\n"))
    problem = Problem("double", "Double <b>it</b>.", tests)
    programs = ["print(2 * int(input()))", "print(4)  # </script>", "1 / 0"]
    rows = [Sample("double", i, text).to_json() for i, text in enumerate(programs)]
    write_jsonl(folder / "samples.jsonl", rows)
    with Verifier(workers=1) as verifier:
        runs.scored(folder / "samples.jsonl", [problem], folder / "run", verifier=verifier)
    (folder / "run" / "samples.jsonl").write_text((folder / "samples.jsonl").read_text())
    return write_report({"run": folder / "run"}, folder / "r.html").read_text(encoding="utf-8")


def test_a_problem_opens_its_prompt_and_why_a_sample_failed(probe, scored):
    steps = """
document.querySelector("button.open").click();
if (location.hash !== "#problem=double") return "no address";
const cell = document.querySelector("tr.detail td");
for (const box of cell.querySelectorAll("details")) box.open = true;
const texts = (inner) => [...cell.querySelectorAll(inner)].map((e) => e.textContent);
return [texts("pre"), texts(".failure p"), texts(".failure small")];"""
    measured = probe(scored, width=390, steps=steps)
    pres, failures, parts = measured["done"]
    assert pres[0] == "Double <b>it</b>."
    assert failures == ["test 2: wrong answer", "test 1: runtime error"]
    assert parts == ["input", "expected", "got", "input", "expected", "error"]
    assert {"3\n", "6\n", "4\n", "print(4)  # </script>"} <= set(pres)
    assert any(text.rstrip().endswith("ZeroDivisionError: division by zero") for text in pres)
    assert (measured["beyond"], measured["clipped"]) == (0, [])


def test_every_entry_of_the_contents_is_a_place_on_the_page(probe, page):
    steps = """return [...document.querySelectorAll("nav a")]
  .map((link) => document.querySelector(link.getAttribute("href"))?.tagName);"""
    tags = probe(page, steps=steps)["done"]
    assert len(tags) == 5
    assert set(tags) == {"H2"}
