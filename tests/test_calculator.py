"""The calculator of the site, in a real browser, against NumPy and SciPy."""

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from chromium import lone_browser  # noqa: F401
from maxatk import max_at_k, pass_at_k
from maxatk.statistics.significance import paired_difference

DOCS = Path(__file__).parents[1] / "docs"

PAGE = """<body>{form}<script>{script}</script><script>
const given = {given};
{steps}
document.body.dataset.found = JSON.stringify(found);
</script></body>"""
COMPUTE = """const value = (i) => [i.mean, i.low, i.high];
const compared = (i) => [...value(i), i.p];
const found = given.map(([a, b, ks]) => {
  const [left, right] = [bestOfN.parse(a), bestOfN.parse(b)];
  return ks.map((k) => [
    bestOfN.column(left, bestOfN.maxAtK, k), bestOfN.column(left, bestOfN.passAtK, k),
    value(bestOfN.metricInterval(bestOfN.column(left, bestOfN.maxAtK, k))),
    compared(bestOfN.difference(left, right, bestOfN.maxAtK, k)),
  ]); });"""
TYPE = """const [a, b] = ["a", "b"].map((id) => document.querySelector(`#rewards-${id}`));
const found = given.map((texts) => {
  [a.value, b.value] = [texts, ""].flat(); a.dispatchEvent(new Event("input"));
  const output = document.querySelector("output");
  const count = (selector) => output.querySelectorAll(selector).length;
  return {text: output.textContent, alert: count("[role=alert]") === 1, tables: count("table"),
    curves: count("polyline"), images: count("img")};
});"""


@pytest.fixture
def browsed(lone_browser, tmp_path):  # noqa: F811
    """Return a function: what the browser finds with the script of the site and inputs."""
    return functools.partial(browsed_with, lone_browser, tmp_path)


def browsed_with(browser, folder, inputs, steps):
    """What the browser finds on the calculator with the script of the site and `inputs`."""
    form = re.search(r"<div id=.*?</div>", (DOCS / "metrics.md").read_text(), re.DOTALL)[0]
    script = (DOCS / "assets" / "calculator.js").read_text()
    page = folder / "page.html"
    text = PAGE.replace("{form}", form).replace("{script}", script)
    page.write_text(text.replace("{given}", json.dumps(inputs)).replace("{steps}", steps))
    return browser.data_of(page.as_uri())


def as_csv(rewards, random):
    """Rewards as a line a problem or, by chance, as a line a sample."""
    if random.random() < 0.5:
        return "\n".join(",".join(map(repr, row)) for row in rewards.tolist())
    lines = [f"{i + 1},{r!r}" for i, row in enumerate(rewards.tolist()) for r in row]
    return "\n".join(["problem,reward", *lines])


def some_table(random):
    shape = (int(random.integers(2, 40)), int(random.integers(1, 64)))
    levels = random.choice([2, 3, 1000])
    rewards = random.integers(0, levels, (2, *shape)) / (levels - 1)
    rewards[random.random(rewards.shape) < random.choice([0, 0.1])] = np.nan
    return rewards


def test_200_tables_have_the_numbers_of_numpy(browsed):
    random = np.random.default_rng(0)
    tables = [some_table(random) for _ in range(200)]
    ks = [sorted({1, min(4, t.shape[2]), t.shape[2]}) for t in tables]
    inputs = [
        [as_csv(a, random), as_csv(b, random), k] for (a, b), k in zip(tables, ks, strict=True)
    ]
    for (a, b), k, by_k in zip(tables, ks, browsed(inputs, COMPUTE), strict=True):
        left = max_at_k(a, k)
        right = max_at_k(b, k)
        passes = max_at_k(np.where(np.isnan(a), np.nan, a >= 1), k)
        for i, (values, passed, mean, difference) in enumerate(by_k):
            np.testing.assert_allclose(np.array(values, float), left[:, i], atol=1e-10)
            np.testing.assert_allclose(np.array(passed, float), passes[:, i], atol=1e-10)
            np.testing.assert_allclose(np.array(mean, float), expected(left[:, i]), atol=1e-9)
            test = paired_difference(right[:, [i]], left[:, [i]])
            paired = np.concatenate([test.mean, test.low, test.high, test.p])
            np.testing.assert_allclose(np.array(difference, float), paired, atol=1e-9)


def expected(values):
    """Mean and ends of the t-interval, cut at 0 and 1, by SciPy."""
    known = values[~np.isnan(values)]
    if len(known) < 2:
        return [known.mean() if len(known) else np.nan, np.nan, np.nan]
    if np.ptp(known) < 1e-12:  # equal but for rounding
        return [known[0], np.nan, np.nan]
    low, high = stats.ttest_1samp(known, 0).confidence_interval(0.95)
    return [known.mean(), max(low, 0.0), min(high, 1.0)]  # all of these rewards are from 0 to 1


def test_pass_at_k_of_many_samples(browsed):
    row = ",".join(["1"] * 12 + ["0"] * 244)
    (by_k,) = browsed([[row, row, [1, 10, 100]]], COMPUTE)
    np.testing.assert_allclose([k[1][0] for k in by_k], pass_at_k(256, 12, [1, 10, 100]), rtol=1e-9)


def test_what_is_typed_is_drawn_and_what_is_wrong_is_said(browsed):
    table, named, wrong, hostile, empty = browsed(
        [
            "0,0,1\n0,1,1",
            "name;first;second\nx;0;0,5\n".replace("0,5", "0.5") + "y;1;0",
            "0,1\n0,one",
            'problem,reward\n"<img src=x onerror=alert(1)>",1\np,x<img src=x>',
            "",
        ],
        TYPE,
    )
    assert table["tables"] == 1
    assert table["curves"] == 1
    assert "0.500" in table["text"]
    assert "A: 2 problems" in named["text"]
    assert wrong["alert"]
    assert 'line 2: a reward must be a finite number, got "one"' in wrong["text"]
    assert hostile["alert"]
    assert hostile["images"] == 0
    assert empty["text"] == ""


def test_a_first_line_is_no_header_where_it_has_numbers(browsed):
    wrong = ("1,0,x\n1,1,0", "hello,world", "50%,100%", "[[0,1],[1,1]]")
    right = ("first,second\n1,0", "id,0,1\np,0.5,0", ",r0,r1\n0,1,0", "p0,1,0\np1,1,1")
    for shown in browsed(list(wrong), TYPE):
        assert shown["alert"]
        assert "line 1: a reward must be a finite number, got" in shown["text"]
    counts = [shown["text"] for shown in browsed(list(right), TYPE)]
    assert ["A: 1 problem" in text for text in counts] == [True, True, True, False]


def test_a_model_is_called_better_where_compare_calls_it_so(browsed):
    two, five, six = browsed([["\n".join("0" * n), "\n".join("1" * n)] for n in (2, 5, 6)], TYPE)
    assert "1.000 [-, -]0.5002" in two["text"]
    assert "At no k is p 0.05 or less." in two["text"]
    assert "At no k is p 0.05 or less." in five["text"]
    assert "B is better for k = 1. Elsewhere" in six["text"]
