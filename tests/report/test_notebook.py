"""What a notebook has: `maxatk.plot`, tables, data frames, and the notebook of examples."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import maxatk
from maxatk.errors import InvalidValueError
from maxatk.evaluation.results import Results
from maxatk.report import CompareOptions, load_comparison
from maxatk.report.decision import decide
from processes import patience

mpl.use("agg")
EXAMPLE = Path(__file__).parents[2] / "examples" / "best_of_n.ipynb"
KS = [2**i for i in range(8)]


def drawn(axes):
    """The curves of axes by their label, as (x, y); lines without one are left out."""
    return {
        line.get_label(): np.array(line.get_data())
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


@pytest.mark.parametrize("metric", ["max@k", "pass@k"])
def test_a_metric_is_drawn_on_the_axes_given_with_its_intervals(results, metric):
    axes = plt.Figure().subplots()
    assert maxatk.plot(results, metric, ax=axes) is axes
    curves = drawn(axes)
    assert curves.keys() == results.keys()
    for run in load_comparison(results).runs:
        means = run.results.metrics[metric]
        assert curves[run.name][0].tolist() == KS
        assert curves[run.name][1] == pytest.approx([mean.mean for mean in means.values()])
    base = load_comparison(results).baseline.results.metrics[metric]
    ends = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert {round(end, 6) for end in ends} >= {m.low for m in base.values()}
    assert [text.get_text() for text in axes.get_legend().texts] == ["base", "sharp", "same"]


def test_differences_are_those_of_the_test(results):
    compared = maxatk.compare(results)
    axes = maxatk.plot(compared, against="sharp", ax=plt.Figure().subplots())
    curves = drawn(axes)
    assert curves.keys() == {"base", "same"}
    for test in decide(load_comparison(results)).tests:
        if "sharp" in (test.first, test.second):
            other = test.seen_from(({test.first, test.second} - {"sharp"}).pop())
            place = KS.index(test.measure.k)
            assert curves[other.first][1][place] == pytest.approx(other.difference)


def test_the_weights_of_methods_are_drawn_for_n_and_k():
    axes = maxatk.plot(["grpo", "bon_loo1"], n=16, k=8, ax=plt.Figure().subplots())
    rates, factor = drawn(axes)["bon_loo1"]
    assert factor == pytest.approx(maxatk.weighting("bon_loo1", 16, 8, rates))
    assert "n = 16, k = 8" in axes.get_ylabel()
    assert drawn(maxatk.plot("grpo")).keys() == {"grpo"}


def test_results_alone_are_drawn_on_new_axes(results):
    axes = maxatk.plot(Results.from_json(results["base"], place=""))
    assert list(drawn(axes)) == ["results"]
    plt.close(axes.figure)


def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made(results):
    before = plt.get_fignums()
    with pytest.raises(InvalidValueError, match="metric: unknown value 'max'"):
        maxatk.plot(results, "max")
    with pytest.raises(InvalidValueError, match=r"model: unknown value 'sharpe'.*did you mean"):
        maxatk.plot(results, against="sharpe")
    with pytest.raises(InvalidValueError, match="unknown value 'grp'"):
        maxatk.plot("grp")
    assert plt.get_fignums() == before


def test_a_cell_shows_the_verdict_and_the_scores_and_not_much_more(results):
    compared = maxatk.compare(results | {"<b>": results["same"]})
    shown = compared._repr_html_()
    for sentence in compared.verdict.splitlines():
        assert sentence.replace("<", "&lt;").replace(">", "&gt;") in shown
    assert shown.count("<tr>") == 1 + 4
    assert "<b>" not in shown
    assert len(shown) < 5000
    alone = Results.from_json(results["base"], place="")
    mean = alone.metrics["pass@k"][8]
    assert f"<td>pass@8</td><td>{mean.mean:.3f}</td>" in alone._repr_html_()
    assert "30 problems, 3,840 samples" in alone._repr_html_()


def test_data_frames_hold_the_numbers(results):
    compared = maxatk.compare(results, CompareOptions(k=(1, 8)))
    frame = compared.to_frame().set_index(["model", "k"])
    assert frame.loc[("sharp", 8), "mean"] == results["sharp"]["metrics"]["max@k"]["8"]["mean"]
    values = Results.from_json(results["base"], place="").to_frame()
    chosen = values[(values.metric == "pass@k") & (values.k == 4)]
    assert chosen.value.tolist() == results["base"]["per_problem"]["pass@k"]["4"]
    assert chosen.problem.tolist() == results["base"]["per_problem"]["ids"]


@pytest.mark.parametrize(
    ("package", "call"),
    [("pandas", "maxatk.compare(runs).to_frame()"), ("matplotlib", "maxatk.plot(runs)")],
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(tmp_path, package, call):
    (tmp_path / "r.csv").write_text("problem_id,sample,reward\na,0,1\na,1,0\n")
    code = f"""
import sys; sys.modules[{package!r}] = None
import maxatk
runs = {{"a": "r.csv", "b": "r.csv"}}
try: {call}
except maxatk.MaxAtKError as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert package in done.stdout
    assert "pip install 'maxatk[report]'" in done.stdout


def test_many_rewards_in_one_dimension_are_questioned_and_those_of_groups_are_not():
    draw = np.random.default_rng(0)
    rewards = (draw.random((200, 8)) < draw.random((200, 1))).astype(float)
    with pytest.warns(UserWarning, match=r"rewards: 1,600 in one dimension .* give `groups`"):
        wrong = maxatk.max_at_k(rewards.ravel(), 4)
    groups = np.repeat(np.arange(200), 8)
    right = maxatk.max_at_k(rewards.ravel(), 4, groups=groups)
    assert right == pytest.approx(maxatk.max_at_k(rewards, 4))
    assert wrong > right.mean() + 0.1


@pytest.mark.long
@pytest.mark.timeout(patience(300))
def test_the_notebook_runs_and_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # idle threads of torch cost more than they give
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    client = nbclient.NotebookClient(
        notebook, timeout=patience(240), resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [
        output.get("text") or "".join(output.get("data", {}))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    assert any("image/png" in text for text in outputs)
    assert any("text/html" in text for text in outputs)
    page = (tmp_path / "best_of_n" / "report.html").read_text()
    assert "For N = 32 take varied: its best of 32 is worth" in page
