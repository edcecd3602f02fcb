"""The figure of max@1 against max@N, and the models that no other beats in both."""

import hypothesis.strategies as st
from hypothesis import given

from maxatk.report import write_report
from maxatk.report.load_runs import load_comparison
from maxatk.report.trade_off import front, trade_off_svg

VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.tuples(VALUES, VALUES)))
def test_the_front_is_what_no_other_point_beats(points):
    on_front = front(points)
    for name, (first, best) in points.items():
        beaten = any(
            other_first >= first
            and other_best >= best
            and (other_first, other_best) != (first, best)
            for other_first, other_best in points.values()
        )
        assert (name in on_front) == (not beaten)
    places = [points[name] for name in on_front]
    assert places == sorted(places)
    # What gains in one of the two loses in the other.
    assert [best for _, best in places] == sorted((best for _, best in places), reverse=True)


def test_three_models_have_the_figure_and_two_or_one_k_do_not(results):
    comparison = load_comparison(results)
    svg = trade_off_svg(comparison, 32)
    assert "max@32 against max@1" in svg
    two = {name: results[name] for name in ("base", "sharp")}
    assert trade_off_svg(load_comparison(two), 32) is None
    assert trade_off_svg(comparison, 1) is None
    assert trade_off_svg(comparison, 3) is None


def test_the_page_shows_it_once_beside_the_decision_by_max_at_k(results, tmp_path):
    page = write_report(results, tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('aria-label="max@32 against max@1"') == 1
    assert "One answer against the best of 32" in page
    alone = {"base": results["base"]}
    assert "One answer against" not in write_report(alone, tmp_path / "one.html").read_text()
