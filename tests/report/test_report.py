import html.parser
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import maxatk
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.results import Results
from maxatk.objectives import METHODS
from maxatk.report import Reading, figure1, overview_table, write_report
from maxatk.report.decision import decide
from maxatk.report.figure_style import lines_for
from maxatk.report.figures import entropy_svg, metric_svg
from maxatk.report.load_runs import load_comparison
from maxatk.report.run_tables import (
    every_k,
    samples_table,
)
from maxatk.report.table_formats import format_table
from maxatk.report.tables import change, mean_cell, shaded, three_decimals
from maxatk.report.training_figures import curve_svg, drawn_quantities, smoothed

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(html.parser.HTMLParser):
    """Checks nesting, and collects attributes, ids and the cells of tables."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.attributes = []
        self.tables = {}
        self.text = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.rows = self.tables[dict(attrs)["id"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append([])

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if data.strip() and {"td", "th"} & set(self.open):
            self.rows[-1][-1].append(data.strip())


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "new" / "report.html"
    history = [{"step": s, "reward": 0.1 * s, "max@8": 0.2, "loss": 1.0} for s in range(3)]
    curves = [{"name": "sharp", "log_history": [*history, {"train_runtime": 3.0}]}]
    assert write_report(results, out, title="A <b> & c", curves=curves) == out
    return out.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_ids_are_unique(page):
    ids = [value for _, name, value in Page(page).attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 100


def test_every_reference_within_the_page_has_a_target(page):
    targets = set(re.findall(r' id="([^"]+)"', page))
    used = re.findall(r"url\(#([^)]+)\)", page) + re.findall(r'href="#([^"]+)"', page)
    assert used
    assert set(used) <= targets


def test_the_page_needs_no_network(page):
    parsed = Page(page)
    assert not [a for a in parsed.attributes if a[1] in ("src", "srcset")]
    assert all(v.startswith("#") for _, name, v in parsed.attributes if name.endswith("href"))
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "://" not in without_namespaces
    assert "@import" not in page
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts)\b", page)


def test_numbers_on_the_page_are_those_of_the_results(page, results):
    for metric in ("max", "pass"):
        header, *rows = Page(page).tables[f"scores-{metric}-at-k"]
        assert [c[0] for c in header[1:]] == [f"{metric}@{2**i}" for i in range(8)]
        assert [row[0][0] for row in rows] == ["base", "sharp", "same"]
        for row in rows:
            means = Results.from_json(results[row[0][0]], place="").metrics[f"{metric}@k"]
            cells = [mean_cell(mean, of=30) for mean in means.values()]
            expected = [[cell.text, cell.detail, cell.note] for cell in cells]
            assert row[1:] == [[part for part in parts if part] for parts in expected]


def test_problem_ids_and_title_are_escaped(page):
    parsed = Page(page)
    data = re.search(r'id="problem-data">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["ids"][:2] == ["p<0>", "p<1>"]
    assert "A <b> & c" in parsed.text
    assert "<b>" not in page


def test_light_dark_and_narrow_are_supported(page):
    assert "prefers-color-scheme: dark" in page
    assert "currentColor" in page
    assert "#010203" not in page
    assert 'name="viewport"' in page
    assert "overflow-x: auto" in page


def test_training_curves_are_of_what_was_logged_and_max_at_1_is_the_reward():
    row = {"step": 1, "reward": 0.1, "max@1": 0.1, "max@8": 0.2, "loss": 1.0, "kl": 0.1, "lr": 3.0}
    curves = [{"name": "other", "log_history": [row]}]
    keys = [key for key, _ in drawn_quantities(curves)]
    assert keys == ["reward", "max@8", "loss", "kl"]
    assert all(ET.fromstring(curve_svg(curves, ["base"], key)) is not None for key in keys)
    without = {key: value for key, value in row.items() if key != "reward"}
    assert drawn_quantities([{"name": "other", "log_history": [without]}])[0][0] == "max@1"


def test_curves_have_a_legend_of_their_own_in_their_colours(results, tmp_path):
    history = [{"step": step, "reward": step / 10} for step in range(3)]
    curves = [{"name": name, "log_history": history} for name in ("sharp", "Sharp", "a")]
    runs = {name: results[name] for name in ("base", "sharp")}
    page = write_report(runs, tmp_path / "r.html", curves=curves).read_text()
    legends = [
        dict(re.findall(r'stroke="(#\w+)".*</svg>(.*)</li>', legend))
        for legend in re.findall(r'(?s)<ul class="legend">(.*?)</ul>', page)
    ]
    *above, trained = [{name: color for color, name in legend.items()} for legend in legends]
    assert all(list(legend) == ["base", "sharp"] for legend in above)
    assert list(trained) == ["sharp", "Sharp", "a"]
    assert {legend["sharp"] for legend in above} == {trained["sharp"]}
    (curve,) = re.findall(r"(?s)<svg [^>]*during training.*?</svg>", page)
    drawn = re.findall(r"stroke: (#\w+)", curve)
    assert set(trained.values()) <= set(drawn)
    assert "2 models" in page


def test_the_only_row_of_a_log_is_seen():
    history = [{"step": 1, "loss": 1.0}, {"step": 2, "train_runtime": 9.0}]
    assert "fill: #" in curve_svg([{"name": "a", "log_history": history}], ["base"], "loss")
    history[1]["loss"] = 2.0  # a line, which needs no point
    assert "fill: #" not in curve_svg([{"name": "a", "log_history": history}], ["base"], "loss")


def test_a_value_that_is_no_number_leaves_a_gap_in_its_curve():
    history = [{"step": step, "loss": value} for step, value in ((1, 1.0), (2, float("nan")))]
    assert "nan" not in curve_svg([{"name": "a", "log_history": history}], ["base"], "loss")


@pytest.mark.parametrize("row", [{"step": 1e308, "loss": 1.0}, {"step": 2, "loss": -1e308}])
def test_a_damaged_number_of_a_log_is_left_out_of_its_curve(row):
    curves = [{"name": "a", "log_history": [{"step": 1, "loss": 1.0}, row]}]
    assert ET.fromstring(curve_svg(curves, ["base"], "loss")) is not None


@pytest.mark.parametrize("count", [1, 2, 7, 40, 200])
def test_smoothing_keeps_a_straight_line_and_takes_noise_away(count):
    line = np.linspace(-1, 3, count)
    assert smoothed(line) == pytest.approx(line)
    noise = np.random.default_rng(0).normal(size=count)
    assert smoothed(noise).std() <= noise.std() * (0.7 if count >= 40 else 1)


def test_best_and_second_are_ranked_as_printed(results):
    table = overview_table(results)
    column = [row[1] for row in table.rows]
    assert [cell.mark for cell in column].count("best") == 1
    assert max(column, key=lambda cell: cell.text).mark == "best"
    alone = overview_table({"one": results["base"]})
    assert {cell.mark for cell in alone.rows[0]} == {""}


def test_equal_numbers_get_equal_marks(results):
    table = overview_table({"a": results["base"], "b": results["base"], "c": results["sharp"]})
    last = [row[4].mark for row in table.rows]
    assert last == ["best", "best", "second"]


def test_tables_use_the_k_that_all_runs_have(results, make):
    table = overview_table({"base": results["base"], "few": make(4, 0.1, 0.1, samples=16)})
    assert table.header == ("model", "max@1", "max@8", "max@16", "pass@1", "pass@8", "pass@16")


def test_a_single_run_makes_a_page_without_comparisons(results, tmp_path):
    page = write_report({"only": results["same"]}, tmp_path / "r.html").read_text()
    parsed = Page(page)
    assert "winners-max-at-k" not in parsed.tables
    assert 'class="findings"' not in page
    assert "1 model ·" in page


def test_samples_table_counts_outcomes(results):
    table = samples_table(load_comparison(results))
    row = dict(zip(table.header, (cell.text for cell in table.rows[0]), strict=True))
    counts = results["base"]["counts"]["outcomes"]
    assert row["passed"] == f"{counts['passed']:,}"
    assert row["wrong answer"] == f"{counts['wrong_answer']:,}"
    assert row["samples"] == "3,840"
    assert row["problems"] == "30"
    assert row["different completions per problem"] == "50.0"


def test_unscored_samples_are_announced(make, tmp_path):
    unscored = make(5, 0.1, 0.1, unscored=2)
    page = write_report({"base": unscored}, tmp_path / "r.html").read_text()
    assert re.search(
        r"base: 2 of [\d,]+ samples \(0\.\d%\) have no reward .*infra_error \(2\)", page
    )
    table = overview_table({"base": unscored})
    assert table.rows[0][4].text != "–"
    assert (table.header[-1], table.rows[0][-1].text) == ("samples without a reward", "2 (0.1%)")


def test_few_problems_are_announced(page, make, tmp_path):
    few = make(5, 0.1, 0.1, ids=["a", "b"])
    written = write_report({"base": few}, tmp_path / "r.html").read_text()
    assert "With 2 problems only" in written
    one = make(5, 0.1, 0.1, ids=["a"])
    written = write_report({"base": one, "x": one}, tmp_path / "r.html").read_text()
    assert "With 1 problem only, there is no interval." in written
    assert not re.search(r"\b1 problems|intervals are Student", written)
    assert 'id="few-problems"' not in page


@pytest.fixture
def reward_runs(tmp_path):
    """Two tables of rewards of 0 and 1 that somebody else gave."""
    for name, chance in (("ours", 0.5), ("base", 0.2)):
        draw = np.random.default_rng(len(name))
        rows = [f"q{i},{s},{int(draw.random() < chance)}" for i in range(4) for s in range(8)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["problem_id,sample,reward", *rows]))
    return {name: tmp_path / f"{name}.csv" for name in ("ours", "base")}


def test_of_given_rewards_the_page_says_nothing_that_nobody_knows(reward_runs, tmp_path):
    page = write_report(reward_runs, tmp_path / "r.html").read_text()
    shown = re.sub(r"(?s)<(style|script|details)\b.*?</\1>", "", page)
    for word in ("verif", "evaluated", "before training", "every test", "torch", "Python"):
        assert word not in shown
    assert "pass@N is the same, since every reward is 0 or 1" in shown
    assert shown.count("<figure>") == 1
    assert {"problems", "samples a problem"} <= {
        row[0][0] for row in Page(page).tables["settings"][1:]
    }


def test_few_problems_give_no_interval_beyond_what_is_possible(reward_runs):
    comparison = load_comparison(reward_runs)
    ends = [
        end
        for run in comparison.runs
        for mean in run.results.metrics["max@k"].values()
        for end in (mean.low, mean.high)
        if end is not None
    ]
    assert min(ends) >= 0
    assert max(ends) == 1
    assert all(-1 <= t.low <= t.high <= 1 for t in decide(comparison).tests if t.low is not None)


def test_runs_that_differ_in_settings_are_announced(results, make, tmp_path):
    other = make(6, 0.1, 0.1, samples=64)
    page = write_report({"base": results["base"], "x": other}, tmp_path / "r.html").read_text()
    assert "sampling.samples: 128 for base, 64 for x" in Page(page).text


def test_runs_without_entropy_are_left_out_of_figure_2(results, make):
    silent = make(7, 0.1, 0.1)
    silent["entropy"] = None
    comparison = load_comparison({"base": results["base"], "x": silent})
    assert entropy_svg(comparison) is not None
    assert entropy_svg(load_comparison({"x": silent})) is None


def test_figures_are_the_same_every_time(results):
    comparison = load_comparison(results)
    assert metric_svg(comparison, "max@k") == metric_svg(comparison, "max@k")


def test_figure_1_file_is_one_svg_with_both_panels(results, tmp_path):
    path = figure1(results, tmp_path / "new" / "figure1.svg")
    root = ET.parse(path).getroot()
    assert root.tag.endswith("svg")
    axes = [element for element in root.iter() if element.get("id", "").startswith("axes_")]
    assert len(axes) == 2
    assert path.read_bytes() == figure1(results, tmp_path / "again.svg").read_bytes()


def test_figure_1_may_be_a_pdf_and_nothing_else(results, tmp_path):
    path = figure1(results, tmp_path / "figure1.pdf")
    assert path.read_bytes().startswith(b"%PDF")
    assert path.read_bytes() == figure1(results, tmp_path / "again.pdf").read_bytes()
    with pytest.raises(InvalidValueError, match=r"suffix of the figure: unknown value '\.png'"):
        figure1(results, tmp_path / "figure1.png")


def test_every_k_is_a_column_shaded_from_lowest_to_highest(results):
    comparison = load_comparison(results)
    table = every_k(comparison, "max@k")
    assert table.header == ("model", *(f"max@{k}" for k in (1, 2, 4, 8, 16, 32, 64, 128)))
    for place, k in enumerate(comparison.ks, start=1):
        means = [run.metric("max@k", k).mean for run in comparison.runs]
        shades = [row[place].shade for row in table.rows]
        assert (min(shades), max(shades)) == (0, 1)
        assert np.argsort(shades).tolist() == np.argsort(means).tolist()
        assert [row[place].text for row in table.rows] == [three_decimals(mean) for mean in means]


def test_a_column_of_equal_or_missing_values_is_not_shaded():
    assert shaded([0.5, 0.5]) == [None, None]
    assert shaded([0.2, None, 0.4, 0.3]) == [0, None, 1, pytest.approx(0.5)]
    assert shaded([None]) == [None]


def test_the_page_shades_every_k(page, results):
    parsed = Page(page)
    assert len(parsed.tables["scores-max-at-k"]) == len(parsed.tables["scores-pass-at-k"]) == 4
    shades = [v for tag, name, v in parsed.attributes if (tag, name) == ("td", "style")]
    assert {"--shade:0%", "--shade:45%"} <= set(shades)


def test_results_are_read_from_files_and_folders(results, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(results["base"]))
    expected = overview_table({"base": results["base"]})
    assert overview_table({"base": tmp_path}) == expected
    assert overview_table({"base": str(tmp_path / "results.json")}) == expected


def test_wrong_input_is_refused(results, make, tmp_path):
    with pytest.raises(MissingFileError, match="no such results file"):
        load_comparison({"base": tmp_path / "none"})
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(DataError, match="not a results object"):
        load_comparison({"base": tmp_path})
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(DataError, match="not a JSON file"):
        load_comparison({"base": tmp_path})
    with pytest.raises(InvalidValueError, match="at least one run"):
        load_comparison({})
    with pytest.raises(InvalidValueError, match="did you mean 'sharp'"):
        load_comparison(results, Reading(baseline="shrp"))
    strangers = make(8, 0.1, 0.1, ids=["a", "b"])
    with pytest.raises(InvalidValueError, match="'x' and 'base' have no problem in common"):
        load_comparison({"base": results["base"], "x": strangers})
    overlapping = make(8, 0.1, 0.1, ids=["p<0>", "b"])
    with pytest.raises(InvalidValueError, match=r"'x' \(2 problems\) is not over the same"):
        load_comparison({"base": results["base"], "x": overlapping})
    with pytest.raises(InvalidValueError, match="samples: must be an integer of 0 or more, got -1"):
        write_report(results, tmp_path / "r.html", samples=-1)


@pytest.mark.parametrize("names", [list(METHODS)[:12], [f"m{i}" for i in range(12)]])
def test_no_two_of_twelve_models_share_a_colour_and_the_base_is_grey(names):
    lines = lines_for(["base", *names])
    assert lines["base"].color == "#808080"
    assert len({line.color for line in lines.values()}) == len(lines)
    assert all(re.fullmatch("#[0-9a-f]{6}", line.color) for line in lines.values())


def test_of_more_models_than_colours_each_has_its_line():
    lines = lines_for(["base", *(f"m{i}" for i in range(17))])
    assert len({(line.color, line.dash, line.marker) for line in lines.values()}) == len(lines)


def luminance(color):
    parts = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(one, other):
    """The contrast of WCAG 2.2."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_every_line_has_a_contrast_of_three_on_both_grounds(page):
    light, dark = (
        f"#{color * 2}" if len(color) == 3 else f"#{color}"
        for color in re.findall(r"--ground: #([0-9a-f]+);", page)
    )
    assert luminance(light) > 0.9 > 0.1 > luminance(dark)
    lines = lines_for(["base", *METHODS, *(f"m{i}" for i in range(60))])
    for line in lines.values():
        assert min(contrast(line.color, ground) for ground in (light, dark)) >= 3


def test_a_model_has_its_colour_on_every_page():
    pages = (["base", "grpo", "bon_loo1"], ["base", "bon_loo1", "x", "grpo"], ["grpo", "bon_loo1"])
    for name in ("grpo", "bon_loo1"):
        assert len({lines_for(page)[name].color for page in pages}) == 1
    one = lines_for(["base", "mine", "yours"])
    other = lines_for(["base", "yours", "mine"])
    assert all(one[name].color == other[name].color for name in one)


def test_the_baseline_is_dashed_in_its_own_colour():
    lines = lines_for(["grpo", "base"])
    assert (lines["grpo"].dash, lines["base"].color) == ("dashed", "#808080")
    assert lines["grpo"].color == lines_for(["base", "grpo"])["grpo"].color


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.0, "1.000"), (0.0, "0.000"), (-0.05, "−0.050"), (-0.0001, "0.000")],
)
def test_share(value, text):
    assert three_decimals(value) == text


def test_changes_carry_their_sign():
    assert [change(v) for v in (0.05, -0.05, 0.0)] == ["+0.050", "−0.050", "0.000"]
    assert three_decimals(None) == three_decimals(float("nan")) == "–"


@pytest.mark.parametrize("module", ["maxatk.report", "maxatk.evaluation"])
def test_import_needs_no_torch(module):
    code = (
        f"import sys, {module}; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    source = str(Path(maxatk.__file__).parents[1])
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=source, check=True
    )
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name", [r"$\frac{1}$", "[red]x[/red]", "<script>alert(1)</script>", "_hidden", "]]>", "a|b"]
)
def test_a_name_is_drawn_and_written_as_it_is_whatever_it_means_elsewhere(results, tmp_path, name):
    runs = {"base": results["base"], name: results["sharp"]}
    page = write_report(runs, tmp_path / "r.html", title=name).read_text()
    assert "<script>alert" not in page
    for suffix in ("svg", "pdf"):
        figure1(runs, tmp_path / f"figure.{suffix}")
    ET.parse(tmp_path / "figure.svg")
    drawn = metric_svg(load_comparison(runs), "max@k")
    ET.fromstring(drawn)
    table = format_table(overview_table(runs), "md")
    assert [len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()] == [11] * 4
    assert not re.search(r"(?<!\\)<script", table)


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "\udce9", "\u202eevil"])
def test_a_name_that_would_break_a_terminal_or_a_file_is_refused(results, tmp_path, name):
    message = "results: a name must be printable text, got"
    with pytest.raises(InvalidValueError, match=message) as refused:
        write_report({"base": results["base"], name: results["sharp"]}, tmp_path / "r.html")
    assert str(refused.value).isprintable()
    assert list(tmp_path.iterdir()) == []


def test_a_legend_names_every_run(results, tmp_path):
    names = ["base", "_hidden", "$x$ and $y$"]
    figure1(dict.fromkeys(names, results["base"]), tmp_path / "figure.svg")
    labels = re.findall(r"<!-- (.*?) -->", (tmp_path / "figure.svg").read_text())
    assert {" _hidden", "$x$ and $y$"} <= set(labels)
