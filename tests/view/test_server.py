"""The page of `maxatk view`: over real HTTP, and in a real browser, on records that still grow."""

import html
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from maxatk import METHODS, advantages
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.evaluation import results_of_folder
from maxatk.evaluation.failures import FailedTest
from maxatk.folders import write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Sample, Score
from maxatk.training.group_log import GROUPS, GroupLog, prompt_key
from maxatk.view.advantages import advantages_under
from maxatk.view.answers import Answers
from maxatk.view.runs import runs_in
from maxatk.view.server import View
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining
from processes import patience

HIT = "document.body.dataset.hit=1"
HOSTILE = f'<img src=x onerror="{HIT}"></pre><script>{HIT}</script>'
REWARDS = [0.0, 1.0, 0.5, 0.5]


def a_group(step, name, *, rewards=REWARDS, text="print(1)\nprint(2)", k=2):
    scaled = advantages([rewards], "bon_loo1", k)[0] * len(rewards)
    samples = [
        {"text": f"{text}\n# {number}", "reward": reward, "advantage": advantage, "tokens": 7}
        for number, (reward, advantage) in enumerate(zip(rewards, scaled.tolist(), strict=True))
    ]
    failure = {"test": 1, "outcome": "wrong answer", "input": "3", "expected": "6", "got": HOSTILE}
    samples[0] |= {"passed": 1, "tests": 2, "outcome": "wrong_answer", "failure": failure}
    about = {"step": step, "group": prompt_key(name), "id": name, "k": k}
    return {**about, "prompt": f"Solve {name}.", "samples": samples}


def a_log(step):
    values = {"reward": step / 10, "max@1": step / 10, "max@2": step / 5, "entropy": 1.5}
    return {"step": step, "log": {**values, "frac_groups_without_signal": 0.25, "step_time": 2.0}}


def write(folder, steps, *, first=1, most=30, **changes):
    about = {"method": "bon_loo1", "k": 2, "num_generations": 4, "max_steps": most}
    log = GroupLog(folder / GROUPS, step=first - 1, about=about)
    for step in range(first, first + steps):
        log.append([a_group(step, f"p{step % 3}", **changes), a_group(step, "other"), a_log(step)])


@pytest.fixture
def served(tmp_path):
    write(tmp_path / "a", 5)
    write(tmp_path / "b", 3, text=HOSTILE)
    trainings = {name: WatchedTraining(tmp_path / name) for name in ("a", "b")}
    with View(trainings) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def ask(server, path, **headers):
    request = urllib.request.Request(server.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=patience(20)) as answer:
        return answer, answer.read()


def answer_of(server, path):
    return json.loads(ask(server, path)[1])


def rows_of(answer):
    """Return the cells of the rows of the tables in an answer."""
    rows = re.findall(r"<tr><th scope=\"row\">(.*)</tr>", answer["html"])
    texts = [re.split(r"</t[hd]><td[^>]*>|</td>", row) for row in rows]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in row if cell] for row in texts]


def test_only_the_token_and_this_host_are_answered(served):
    answer, _ = ask(served, "")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    base = f"http://127.0.0.1:{served.server_port}"
    for address in (base, f"{base}/", f"{base}/wrong/", f"{base}/{served.token[:-1]}/api/state"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address, timeout=patience(20))
        assert refused.value.code == 403
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(served, "api/state", Host=f"evil.example:{served.server_port}")
    assert refused.value.code == 403
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(served, "api/state", Host="localhost.evil.example")
    assert refused.value.code == 403
    assert served.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "localhost"])
def test_a_tunnel_may_begin_at_another_port(served, host):
    assert ask(served, "api/state", Host=host)[0].status == 200


def test_a_port_that_is_taken_is_named(served):
    with pytest.raises(InvalidValueError, match=f"port {served.server_port}: Address already"):
        View({}, port=served.server_port)


def test_a_page_without_a_folder_is_refused():
    with pytest.raises(InvalidValueError, match="folders: give one or more"):
        runs_in({})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../secret", 404), ("api/refresh", 404), ("api/groups?run=9&step=1", 400),
        ("api/group?run=0&step=1&place=7", 400), ("api/group?run=0", 400),
        ("api/groups?run=x&step=1", 400), ("api/figure?key=secret", 400),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_and_the_server_goes_on(served, path, status):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(served, path)
    assert refused.value.code == status
    assert answer_of(served, "api/state")["runs"][0]["steps"] == [1, 2, 3, 4, 5]


def test_a_reader_who_leaves_is_no_error(served, capfd):
    address = ("127.0.0.1", served.server_port)
    with socket.create_connection(address) as leaving:
        line = f"GET /{served.token}/api/figure?key=reward HTTP/1.1\r\n"
        leaving.sendall(f"{line}Host: localhost\r\n\r\n".encode())
        reset = struct.pack("ii", 1, 0)  # closing sends a reset
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    ask(served, "api/figure?key=reward")  # drawn after the other
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(patience(10))
    assert capfd.readouterr().err == ""


def test_nothing_can_be_written(served):
    for method in ("POST", "PUT", "DELETE"):
        connection = http.client.HTTPConnection("127.0.0.1", served.server_port)
        connection.request(method, f"/{served.token}/api/state")
        assert connection.getresponse().status == 501


def test_the_page_grows_with_the_file(served, tmp_path):
    state = answer_of(served, "api/state")
    assert answer_of(served, f"api/state?known={state['version']}") == {"version": state["version"]}
    assert [key for key, _ in state["figures"]] == [
        "reward", "max@2", "entropy", "frac_groups_without_signal", "step_time",
    ]  # fmt: skip
    assert rows_of(answer_of(served, "api/tables?most=9"))[1] == [
        "a, 4", "0.500", "0.750", "1.500", "2.000",
    ]  # fmt: skip
    with (tmp_path / "a" / GROUPS).open("ab") as file:
        whole = json.dumps(a_group(6, "p0"), separators=(",", ":")).encode() + b"\n"
        file.write(whole[:50])
        file.flush()
        assert answer_of(served, "api/state")["runs"][0]["steps"] == [1, 2, 3, 4, 5]
        file.write(whole[50:])
    assert answer_of(served, "api/state")["runs"][0]["steps"] == [1, 2, 3, 4, 5, 6]
    assert rows_of(answer_of(served, "api/groups?run=0&step=6")) == [
        ["p0: Solve p0.", "1.000 × 1, 0.500 × 2, 0.000 × 1", "0.500", "1.000", "yes"]
    ]


def test_a_step_has_its_own_values_where_the_log_has_means_of_several(tmp_path):
    folder = tmp_path / "windowed"
    log = GroupLog(folder / GROUPS, step=0, about={"method": "bon_loo1", "max_steps": 100})
    for step, rewards in ((1, [0.0, 0.0]), (2, [1.0, 0.0]), (3, [1.0, 1.0])):
        log.append([a_group(step, "p", rewards=[*rewards, *rewards])])
    log.append([{"step": 3, "log": {"reward": 0.5, "max@2": 0.6, "entropy": 1.0, "step_time": 60}}])
    training = WatchedTraining(folder)
    of_step = {"reward": 0.5, "max@1": 0.5, "max@2": 5 / 6, "max@4": 1.0}
    assert training.values_of(2) == pytest.approx(of_step)
    assert training.values_of(9) == {}
    assert training.progress == "step 3 of 100, about 97 min left"
    log.append([a_group(2, "q", rewards=[0.0, None, None, None])])
    training.refresh()
    assert training.values_of(2)["reward"] == 0.25
    assert training.values_of(2)["max@4"] == 1.0  # the new group has one sample with a reward
    with (folder / GROUPS).open("ab") as file:
        file.write(b"".join(line for line in BAD_GROUPS if b"reward" not in line))
    training.refresh()
    assert len(training.groups[1]) > 1
    assert training.values_of(1) == {"reward": 0.0, "max@1": 0.0, "max@2": 0.0, "max@4": 0.0}


def test_a_training_that_resumes_is_shown_with_one_history(served, tmp_path):
    before = answer_of(served, "api/state")["version"]
    # From checkpoint 3, and further than before.
    write(tmp_path / "a", 4, first=4, text="again", most=40)
    state = answer_of(served, f"api/state?known={before}")
    assert state["runs"][0]["progress"] == "step 7 of 40, about 1 min left"
    assert state["runs"][0]["steps"] == [1, 2, 3, 4, 5, 6, 7]
    steps = [row[0] for row in rows_of(answer_of(served, "api/tables?most=9"))]
    assert steps == ["a, 7", "a, 6", "a, 5", "a, 4", "a, 3", "b, 3", "a, 2", "b, 2", "a, 1"]
    texts = [answer_of(served, f"api/group?run=0&step={step}&place=0")["samples"][0]["text"]
             for step in (3, 4)]  # fmt: skip
    assert [text.startswith("again") for text in texts] == [False, True]


def test_a_prompt_is_found_in_both_trainings_and_by_what_a_completion_says(served):
    drawn = rows_of(answer_of(served, f"api/groups?prompt={prompt_key('p1')}"))
    assert [row[-1] for row in drawn] == ["a, 1", "a, 4", "b, 1"]
    hits = rows_of(answer_of(served, "api/groups?text=ONERROR%3D%22document"))
    assert {row[-1] for row in hits} >= {"b, 1", "b, 2", "b, 3"}
    assert len(rows_of(answer_of(served, "api/groups?text=Solve%20p2."))) == 3
    assert rows_of(answer_of(served, "api/groups?text=nowhere")) == []


@pytest.mark.parametrize("method", METHODS)
def test_advantages_of_every_method_are_those_of_the_package(method):
    group = a_group(1, "p")
    for number, sample in enumerate(group["samples"]):
        sample["answer"] = number % 2
    row = METHODS[method]
    answers = [[0, 1, 0, 1]] if row.credit_row.needs_answers else None
    expected = advantages([REWARDS], method, 2, answers=answers)[0]
    per_sample = 1 if row.credit_row.per_sample or row.scale == "std" else 4
    values = np.array(advantages_under(group, method, 2))
    assert np.allclose(values, expected) or np.allclose(values, per_sample * expected)
    assert np.any(values != 0)


def test_a_method_that_does_not_go_with_a_group_is_refused_by_name():
    with pytest.raises(InvalidValueError, match="'majority' needs answers"):
        advantages_under(a_group(1, "p"), "majority", 2)
    with pytest.raises(InvalidValueError, match="k"):
        advantages_under(a_group(1, "p"), "bon_loo1", 9)


def test_an_unscored_sample_has_no_advantage():
    group = a_group(1, "p")
    group["samples"][2]["reward"] = None
    assert advantages_under(group, "rloo", 1)[2] == 0


def test_a_folder_without_anything_to_see_says_what_it_lacks(tmp_path):
    with pytest.raises(MissingFileError, match="log_groups is 0"):
        runs_in({"a": tmp_path})


def test_runs_of_one_name_in_several_folders_are_all_there(tmp_path):
    for place in ("v1/base", "v2/base", "v2/tuned", "v2/work/tuned"):
        an_evaluation(tmp_path / place, done=3)
    folders = {"first": tmp_path / "v1", "second": tmp_path / "v2"}
    second = ["second/base", "second/tuned", "second/work/tuned"]
    assert list(runs_in(folders)) == ["first/base", *second]
    assert list(runs_in({"v2": tmp_path / "v2"})) == ["base", "tuned", "work/tuned"]
    named = runs_in({"base": tmp_path / "v1/base", "x": tmp_path / "v2"})
    assert list(named) == ["base", "x/base", "x/tuned", "x/work/tuned"]
    with pytest.raises(InvalidValueError, match="'x/base': two runs have this name"):
        runs_in({"x/base": tmp_path / "v1/base", "x": tmp_path / "v2"})


def test_the_stages_of_a_study_are_called_by_their_models(tmp_path):
    for name in ("eval-grpo-1-0a", "eval-grpo-1-0b", "eval-grpo-1-0c"):
        an_evaluation(tmp_path / "work" / name, done=3)
    called = {"eval-grpo-1-0a": "eval grpo,rate=1e-4, seed 1", "gone": "x"}
    write_json(tmp_path / "work" / "stages.json", {**called, "eval-grpo-1-0b": "eval a, seed 1"})
    names = ["eval grpo,rate=1e-4, seed 1", "eval a, seed 1", "eval-grpo-1-0c"]
    assert list(runs_in({"x": tmp_path})) == list(runs_in({"x": tmp_path / "work"})) == names
    (tmp_path / "work" / "stages.json").write_text("[")
    assert next(iter(runs_in({"x": tmp_path}))) == "eval-grpo-1-0a"


def test_of_runs_over_different_problems_none_is_the_best(tmp_path):
    for name, rewards in (("problem", (0.0, 0.5)), ("better", (0.5, 1.0))):
        scores = [
            Score("p", n, reward, 0, 0, Outcome.SCORED, 0.0) for n, reward in enumerate(rewards)
        ]
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "scores.jsonl", [score.to_json() for score in scores])
    answers = Answers(runs_in({"x": tmp_path}))
    markup = answers.tables({"most": "9"})["html"]
    assert markup.count('class="best"') == 4  # at k = 1 and 2, of max@k and pass@k
    assert rows_of({"html": markup})[-1] == ["p", "0.750max@2 1.000", "0.250max@2 0.500"]
    path = tmp_path / "problem" / "scores.jsonl"
    path.write_text(path.read_text().replace('"p"', '"another"'))
    answers = Answers(runs_in({"x": tmp_path}))
    assert 'class="best"' not in answers.tables({"most": "9"})["html"]


def on(page):
    return f"document.getElementById('place').dataset.page === {page!r}"


def test_from_the_figures_to_a_step_a_prompt_and_its_completions(served, browser):
    browser.open(served.address)
    browser.until("document.querySelectorAll('figure svg').length === 5")
    assert browser.evaluate("document.querySelectorAll('#steps tbody tr').length") == 8
    browser.evaluate("document.querySelector('#steps tbody a').click()")
    browser.until(on("#step/0/5"))
    spread = browser.evaluate("document.querySelector('#groups tbody td').textContent")
    assert spread == "1.000 × 1, 0.500 × 2, 0.000 × 1"
    browser.evaluate("document.querySelector('#groups tbody a').click()")
    browser.until(on("#group/0/5/0"))
    heads = browser.evaluate("[...document.querySelectorAll('.group h3')].map(e => e.textContent)")
    assert heads[:4] == [
        "2: reward 1, the best",
        "3: reward 0.500",
        "4: reward 0.500",
        "1: reward 0",
    ]
    marks = browser.evaluate("[...document.querySelectorAll('mark')].map(e => e.textContent)")
    assert marks[:3] == ["# 2", "# 3", "# 0"]
    assert "b: step 2, the same prompt" in browser.evaluate("document.body.innerText")
    failed = browser.evaluate("document.querySelector('.failure').innerText")
    assert "test 2: wrong answer" in failed
    assert HOSTILE in failed


def test_the_advantages_of_another_method_stand_beside_those_that_trained(served, browser):
    browser.open(served.address + "#group/0/5/0")
    change = "const s = document.querySelector('#place select'); s.value = 'rloo';"
    browser.evaluate(change + " s.dispatchEvent(new Event('change'))")
    browser.until(on("#group/0/5/0/rloo/2"))
    shown = browser.evaluate("[...document.querySelectorAll('.numbers')].map(e => e.textContent)")
    values = advantages([REWARDS], "rloo", 1)[0]
    order = [1, 2, 3, 0]
    for place, text in zip(order, shown, strict=False):
        assert f"under rloo, k = 2: {values[place]:.3f}".rstrip("0").rstrip(".") in text
    browser.evaluate("location.hash = '#group/0/5/0/majority/2'")
    browser.until(on("#group/0/5/0/majority/2"))
    assert "needs answers" in browser.evaluate("document.querySelector('.error').textContent")


def test_a_method_that_the_group_beside_does_not_take_is_refused_there_alone(browser, tmp_path):
    write(tmp_path / "large", 1)
    write(tmp_path / "small", 1, rewards=REWARDS[:3])
    with View({name: WatchedTraining(tmp_path / name) for name in ("large", "small")}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address + "#group/0/1/0/bon_loo1/4")
        heads = browser.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)")
        numbers = browser.evaluate(
            "[...document.querySelectorAll('.numbers')].map(e => e.textContent)"
        )
        refusal = browser.evaluate("document.querySelector('.error').textContent")
        server.shutdown()
    assert heads == ["large: step 1, p1", "small: step 1, the same prompt"]
    assert ["under bon_loo1, k = 4" in text for text in numbers] == [True] * 4 + [False] * 3
    assert "k" in refusal


def test_keys_lead_to_neighbours_up_and_to_the_search(served, browser):
    browser.open(served.address + "#step/0/3")
    for key, page in [("ArrowRight", "#step/0/4"), ("ArrowLeft", "#step/0/3"), ("Escape", "#")]:
        browser.press(key)
        browser.until(on(page))
    browser.press("/")
    assert browser.evaluate("document.activeElement.id") == "search"
    browser.call("Input.insertText", text="Solve p2.")
    browser.call(
        "Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13
    )
    browser.until(on("#search/Solve%20p2."))
    assert browser.evaluate("document.querySelectorAll('#groups tbody tr').length") == 3


def test_a_hostile_completion_stays_text(served, browser):
    browser.open(served.address + "#group/1/2/0")
    assert browser.evaluate("document.querySelector('.group pre').textContent").startswith(HOSTILE)
    assert browser.evaluate("document.querySelectorAll('#place img, #place script').length") == 0
    assert browser.evaluate("document.body.dataset.hit ?? 'none'") == "none"
    # Nor would markup run, or bring anything from elsewhere.
    browser.evaluate(f"document.getElementById('place').innerHTML = {HOSTILE!r}")
    time.sleep(0.2)
    assert browser.evaluate("document.body.dataset.hit ?? 'none'") == "none"
    away = "fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')"
    assert browser.evaluate(away) == "refused"


@pytest.mark.parametrize("page", ["#", "#step/0/5", "#group/0/5/0/rloo/2", "#group/1/2/0"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_scrolls_sideways(served, browser, page, width):
    browser.open(served.address + page, width=width)
    root = "document.documentElement"
    assert browser.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0
    boxes = "[...document.querySelectorAll('.wide, pre')]"
    assert browser.evaluate(f"{boxes}.filter(e => e.scrollWidth > e.clientWidth).length") == 0


def test_the_ground_follows_the_reader(served, browser):
    grounds = []
    for scheme in ("light", "dark"):
        browser.open(served.address, scheme=scheme)
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_a_training_by_verl_is_watched_while_it_runs(browser, tmp_path, width):
    # What verl 0.9.1 has written in tests/verl_plugin/test_training.py: 2 steps of 4 groups of 8.
    lines = (Path(__file__).parent / "verl" / GROUPS).read_bytes().splitlines(keepends=True)
    path = tmp_path / GROUPS
    path.write_bytes(b"".join(line for line in lines if json.loads(line)["step"] < 2))
    with View(runs_in({"verl": tmp_path})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.call("Page.navigate", url="about:blank")  # away from a server that has ended
        browser.errors.clear()
        browser.open(server.address, width=width)
        progress = "document.getElementById('runs').innerText"
        assert browser.evaluate(progress) == "verl: step 1 of 2, about 1 min left"
        path.write_bytes(b"".join(lines))
        browser.until(progress + " === 'verl: step 2 of 2, ended'")
        browser.until("document.querySelectorAll('figure svg').length > 4")
        keys = "[...document.querySelectorAll('figure')].map(e => e.dataset.key)"
        drawn = browser.evaluate(keys)
        assert {"reward", "max@2", "max@4", "max@8", "loss"} <= set(drawn[:5])
        for page in ("#step/0/2", "#group/0/2/0"):
            link = f"document.querySelector('#place a[href=\"{page}\"]')"
            browser.until(f"{link} !== null")
            browser.evaluate(f"{link}.click()")
            browser.until(on(page))
            root = "document.documentElement"
            assert browser.evaluate(f"{root}.scrollWidth - {root}.clientWidth") == 0
        texts = browser.evaluate(
            "[...document.querySelectorAll('.group pre')].map(e => e.innerText)"
        )
        errors = list(browser.errors)
        server.shutdown()
    group = json.loads(next(line for line in lines if json.loads(line)["step"] == 2))
    assert sorted(texts) == sorted(sample["text"] for sample in group["samples"])
    assert errors == []


def test_an_open_page_grows(served, browser, tmp_path):
    browser.open(served.address)
    write(tmp_path / "a", 1, first=6)
    browser.until("document.querySelector('#steps tbody a')?.hash === '#step/0/6'")
    assert "a: step 6 of 30" in browser.evaluate("document.getElementById('runs').innerText")


def an_evaluation(folder, *, done=2, name="p", ended=False):
    """The files of an evaluation of two samples of each problem, `done` of three scored."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(f"{name}{at}", number) for at in range(3) for number in range(2)]
    samples = [Sample(*key, HOSTILE if key[1] else "print(1)", tokens=3) for key in drawn]
    write_jsonl(folder / "samples.jsonl", [sample.to_json() for sample in samples])
    scores = [Score(*key, float(key[1]), key[1], 1, Outcome.PASSED, 0.1) for key in drawn]
    write_jsonl(folder / "scores.jsonl", [score.to_json() for score in scores[: 2 * done]])
    write_jsonl(folder / "prompts.jsonl", [{"problem_id": f"{name}0", "prompt": "Solve p0."}])
    failure = FailedTest(f"{name}0", 0, 0, "wrong answer", input="3", expected="6", got=HOSTILE)
    write_jsonl(folder / "failures.jsonl", [failure.to_json()])
    settings = {"sampling": {"samples": 2}, "problems": {"count": 3}}
    (folder / "manifest.json").write_text(json.dumps({"settings": settings}))
    if ended:
        write_json(folder / "results.json", results_of_folder(folder).to_json())


@pytest.fixture
def study(tmp_path):
    """A server about a study with a training, an evaluation that ended and one that runs."""
    write(tmp_path / "work" / "train-a", 4)
    an_evaluation(tmp_path / "work" / "eval-a", done=3, ended=True)
    an_evaluation(tmp_path / "work" / "eval-b")
    with View(runs_in({"study": tmp_path})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_study_shows_its_trainings_and_evaluations_and_grows(study, tmp_path):
    state = answer_of(study, "api/state")
    assert [(run["name"], run["progress"]) for run in state["runs"]] == [
        ("eval-a", "6 samples verified"),
        ("eval-b", "4 of 6 samples verified"),
        ("train-a", "step 4 of 30, about 1 min left"),
    ]
    # Of rewards of 0 and 1 pass@k is the same.
    assert [key for key, _ in state["figures"]][-2:] == ["step_time", "max@k"]
    assert "<svg" in answer_of(study, "api/figure?key=pass%40k")["svg"]
    rows = {row[0]: row[1:] for row in rows_of(answer_of(study, "api/tables?most=50"))}
    assert rows["p0"] == ["0.500max@2 1.000", "0.500max@2 1.000"]
    assert rows["p2"] == ["0.500max@2 1.000", "–"]
    an_evaluation(tmp_path / "work" / "eval-b", done=3)
    assert answer_of(study, "api/state")["runs"][1]["progress"] == "6 samples verified"
    rows = {row[0]: row[1:] for row in rows_of(answer_of(study, "api/tables?most=50"))}
    assert rows["p2"] == ["0.500max@2 1.000"] * 2


def test_a_problem_of_two_models_and_its_training_stand_side_by_side(study, browser):
    browser.open(study.address + "#group/0/0/0")
    heads = browser.evaluate("[...document.querySelectorAll('h2')].map(e => e.textContent)")
    assert heads == ["eval-a, p0", "eval-b, the same prompt"]
    samples = browser.evaluate("[...document.querySelectorAll('h3')].map(e => e.textContent)")
    assert samples == ["2: reward 1, the best", "1: reward 0"] * 2
    assert HOSTILE in browser.evaluate("document.querySelector('.failure').innerText")
    assert browser.evaluate("document.querySelectorAll('#place img, #place script').length") == 0
    choose = "const s = document.querySelector('select[aria-label=beside]'); s.value = '2';"
    browser.evaluate(choose + " s.dispatchEvent(new Event('change'))")
    browser.until("document.querySelectorAll('h2')[1]?.textContent.startsWith('train-a: step')")
    browser.evaluate("document.querySelector('a[rel=next]').click()")
    browser.until("document.querySelector('h2').textContent === 'eval-a, p1'")


def test_a_search_finds_the_samples_of_an_evaluation(study):
    rows = rows_of(answer_of(study, "api/groups?text=ONERROR%3D%22document"))
    assert [row[0] for row in rows if row[-1].startswith("eval-b")] == ["p0", "p1"]


@pytest.mark.parametrize("searched", ["É ü", "é Ü", "\u03a3\U0001f600", '"x"\\'])
def test_a_search_knows_both_cases_of_every_letter(tmp_path, searched):
    text = 'print("x"\\) # É ü \u03c3\U0001f600'
    write(tmp_path / "training", 1, text=text)
    an_evaluation(tmp_path / "evaluation", done=3)
    rows = [Sample(f"p{at}", 0, text if at == 1 else "").to_json() for at in range(3)]
    write_jsonl(tmp_path / "evaluation" / "samples.jsonl", rows)
    answers = Answers(runs_in({"both": tmp_path}))
    hits = [row[0] for row in rows_of(answers.groups({"text": searched}))]
    assert hits == ["p1", "p1: Solve p1."]


def test_a_problem_whose_samples_are_all_worth_the_same_has_no_signal(tmp_path):
    write_jsonl(
        tmp_path / "scores.jsonl",
        [
            Score(name, n, reward, 0, 0, Outcome.SCORED, 0.0).to_json()
            for name, rewards in (("same", (0.5, 0.5, None)), ("two", (0.5, 1.0, None)))
            for n, reward in enumerate(rewards)
        ],
    )
    rows = rows_of(Answers(runs_in({"run": tmp_path})).groups({"run": "0", "step": "0"}))
    assert [(row[0], row[-1]) for row in rows] == [("same", "none"), ("two", "yes")]


def test_the_rewards_of_samples_are_those_of_the_column_of_the_run(tmp_path):
    scores = [
        Score("p", n, 0.0, 0, 0, Outcome.SCORED, 0.0, columns={"judge": judge})
        for n, judge in enumerate((0.25, 0.75))
    ]
    write_jsonl(tmp_path / "scores.jsonl", [score.to_json() for score in scores])
    results = results_of_folder(tmp_path, column="judge")
    write_json(tmp_path / "results.json", results.to_json())
    answers = Answers(runs_in({"run": tmp_path}))
    (row,) = rows_of(answers.groups({"run": "0", "step": "0"}))
    assert row == ["p", "0.750 × 1, 0.250 × 1", "0.500", "0.750", "yes"]
    samples = answers.group({"run": "0", "step": "0", "place": "0"})["samples"]
    assert [sample["reward"] for sample in samples] == [0.25, 0.75]
    assert "judge" in answers.state({})["runs"][0]["progress"]


def test_a_thousand_steps_of_64_completions_are_open_within_a_second(tmp_path, browser):
    rewards = [0.0, 0.25, 0.5, 1.0] * 2
    text = "x = int(input())\nprint(x)\n" * 20
    lines = [json.dumps(a_group(1, f"p{n}", rewards=rewards, text=text)) for n in range(8)]
    log = GroupLog(tmp_path / GROUPS, step=0, about={"method": "bon_loo1", "max_steps": 1000})
    for step in range(1, 1001):
        groups = [{**json.loads(line), "step": step} for line in lines]
        log.append([*groups, a_log(step)])
    with View({"a": WatchedTraining(tmp_path)}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        start = time.perf_counter()
        browser.open(server.address)
        spent = time.perf_counter() - start
        browser.until("document.querySelectorAll('figure svg').length === 5")
        start = time.perf_counter()
        browser.open(server.address + "#step/0/500")
        server.shutdown()
    assert browser.evaluate("document.querySelectorAll('#groups tbody tr').length") == 8
    assert max(spent, time.perf_counter() - start) < patience(1 if os.cpu_count() > 8 else 5)


def test_the_command_prints_its_address_and_serves_until_it_is_interrupted(tmp_path):
    write(tmp_path / "run", 2)
    command = [sys.executable, "-m", "maxatk", "view", str(tmp_path / "run")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(f"{address}api/state", timeout=patience(20)) as answer:
                assert json.load(answer)["runs"][0]["name"] == "run"
        finally:
            process.send_signal(2)
        assert process.wait(patience(20)) == 130
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [*command[:-1], str(tmp_path / "empty")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "groups.jsonl" in done.stderr


BAD_LINES = (
    b'{"step":1,"log":5}\n',
    b'{"step":1,"log":{"loss":}}\n',
    b'{"step":1,"log":' + b"[" * 100_000 + b"}\n",
    b'{"step":' + b"1" * 5000 + b',"log":{}}\n',
    b'{"step":1,"training":null}\n',
    b"nothing at all\n",
    b"\xff\xfe}\n",
)
BAD_GROUPS = (
    b'{"step":1,"group":"0123456789ab","samples":[1,2],"id":[],"prompt":5}\n',
    b'{"step":1,"group":"0123456789ab","samples":{"a":1},"id":7}\n',
    b'{"step":1,"group":"0123456789ab","samples":[{"reward":"x","text":[]},{"reward":NaN}]}\n',
    b'{"step":1,"group":"0123456789ab","samples":[{"reward":[1],"rewards":5,"tokens":"t"}],}\n',
    b'{"step":1,"group":"0123456789ab"}\n',
)


def answered(server, path):
    """Return status and body of an answer, whatever it is."""
    try:
        answer, body = ask(server, path)
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    return answer.status, body


def test_lines_of_another_hand_are_left_out_and_counted(tmp_path):
    write(tmp_path / "a", 2)
    groups = len(WatchedTraining(tmp_path / "a").groups[1])
    with (tmp_path / "a" / GROUPS).open("ab") as file:
        file.write(b"".join(BAD_LINES + BAD_GROUPS))
        file.write(b'{"step":3,"log":{"loss":NaN,"reward":0.5}}\n')
    watched = WatchedTraining(tmp_path / "a")
    assert watched.left_out == len(BAD_LINES)
    assert f"{len(BAD_LINES)} lines that cannot be read" in watched.progress
    assert watched.log[-1] == {"loss": None, "reward": 0.5, "step": 3}
    with View({"a": watched}) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        paths = ["api/state", "api/tables?most=50", "api/groups?run=0&step=1", "api/groups?text=x"]
        places = range(groups + len(BAD_GROUPS))
        paths += [f"api/group?run=0&step=1&place={place}" for place in places]
        paths += [f"{path}&method=bon_loo1" for path in paths[4:]]
        for path in paths:
            status, body = answered(server, path)
            # A group that cannot be read may be gone, but hides nothing of the others.
            assert status in ((200, 400) if path.startswith("api/group?") else (200,)), path
            json.loads(body, parse_constant=pytest.fail)
        (tmp_path / "a").rename(tmp_path / "moved")
        status, body = answered(server, "api/state")
        assert status == 400
        assert "No such file" in json.loads(body)["error"]
        server.shutdown()


def test_a_training_that_is_deleted_leaves_the_others_on_the_page(served, tmp_path):
    known = answer_of(served, "api/state")["version"]
    (tmp_path / "a" / GROUPS).unlink()
    write(tmp_path / "b", 1, first=4)
    state = answer_of(served, f"api/state?known={known}")
    assert [run["steps"] for run in state["runs"]] == [[], [1, 2, 3, 4]]
    assert state["runs"][0]["progress"] == "groups.jsonl is gone"
    assert rows_of(answer_of(served, "api/tables?most=50"))[0][0] == "b, 4"
    assert "<svg" in answer_of(served, "api/figure?key=reward")["svg"]
    write(tmp_path / "a", 5)  # begun anew, with as many bytes
    anew = answer_of(served, f"api/state?known={state['version']}")
    assert anew["version"] != known
    assert anew["runs"][0]["progress"].startswith("step 5 of 30")


def test_its_figures_leave_an_open_page(browser, tmp_path):
    write(tmp_path / "train", 2)
    an_evaluation(tmp_path / "eval", done=3)
    with View(runs_in({"runs": tmp_path})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address)
        keys = "[...document.querySelectorAll('figure')].map(e => e.dataset.key).join(' ')"
        of_the_training = "reward max@2 entropy frac_groups_without_signal step_time"
        browser.until(f"{keys} === '{of_the_training} max@k'")
        (tmp_path / "train" / GROUPS).unlink()
        browser.until(f"{keys} === 'max@k'")
        server.shutdown()


def test_a_group_that_cannot_be_read_says_so(browser, tmp_path):
    write(tmp_path / "a", 1)
    with (tmp_path / "a" / GROUPS).open("ab") as file:
        file.write(BAD_GROUPS[-1])
    with View({"a": WatchedTraining(tmp_path / "a")}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address + "#group/0/1/2")
        shown = browser.evaluate("document.getElementById('place').innerText")
        server.shutdown()
    assert "(this group cannot be read)" in shown
    assert "There are no samples here." in shown


def test_what_a_trainer_has_not_recorded_of_a_sample_is_left_out(browser, tmp_path):
    group = a_group(1, "p")
    for sample in group["samples"]:
        del sample["tokens"]
    GroupLog(tmp_path / "a" / GROUPS, step=0, about={"method": "rloo", "k": 2}).append([group])
    with View({"a": WatchedTraining(tmp_path / "a")}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.address + "#group/0/1/0")
        shown = browser.evaluate("document.querySelector('.numbers').textContent")
        server.shutdown()
    assert "tokens" not in shown
    assert "advantage" in shown


def test_a_line_without_an_end_does_not_hide_what_came_before_it(tmp_path):
    write(tmp_path / "a", 2)
    size = (tmp_path / "a" / GROUPS).stat().st_size
    with (tmp_path / "a" / GROUPS).open("r+b") as file:
        file.truncate(size + (200 << 20))
    watched = WatchedTraining(tmp_path / "a")
    assert sorted(watched.groups) == [1, 2]
    with (tmp_path / "a" / GROUPS).open("ab") as file:
        file.write(
            b"\n" + json.dumps({"step": 3, "log": {"loss": 1}}, separators=(",", ":")).encode()
        )
        file.write(b"\n")
    watched.refresh()
    assert watched.log[-1] == {"loss": 1, "step": 3}


@pytest.mark.parametrize("file", ["scores.jsonl", "results.json"])
def test_an_evaluation_that_cannot_be_read_says_why(tmp_path, file):
    an_evaluation(tmp_path / "e", done=3, ended=True)
    whole = (tmp_path / "e" / file).read_bytes()
    (tmp_path / "e" / file).write_bytes(whole[:-9] + b"\n")
    watched = WatchedEvaluation(tmp_path / "e")
    assert f"cannot be read: {tmp_path / 'e' / file}" in watched.progress
    (tmp_path / "e" / file).write_bytes(whole)
    watched.refresh()
    assert watched.progress == "6 samples verified"


def test_an_evaluation_without_a_score_yet_is_not_damaged(tmp_path):
    an_evaluation(tmp_path / "e", done=0)
    assert WatchedEvaluation(tmp_path / "e").progress == "0 of 6 samples verified"


@pytest.mark.parametrize("settings", [5, {"sampling": True}, {"problems": []}, {"sampling": {}}])
def test_a_manifest_of_another_hand_is_no_reason_to_end(tmp_path, settings):
    an_evaluation(tmp_path / "e")
    (tmp_path / "e" / "manifest.json").write_text(json.dumps({"settings": settings}))
    assert "samples verified" in WatchedEvaluation(tmp_path / "e").progress


def test_pass_at_k_of_an_evaluation_that_runs_is_by_its_own_threshold(tmp_path):
    an_evaluation(tmp_path / "e")  # rewards of 0 and 1
    assert WatchedEvaluation(tmp_path / "e").results.metrics["pass@k"][1].mean == 0.5
    manifest = {"settings": {}, "threshold": 0.0}
    (tmp_path / "e" / "manifest.json").write_text(json.dumps(manifest))
    assert WatchedEvaluation(tmp_path / "e").results.metrics["pass@k"][1].mean == 1.0


@pytest.mark.parametrize("port", [99999, -1])
def test_a_port_that_is_none_is_refused(tmp_path, port):
    write(tmp_path / "a", 1)
    with pytest.raises(InvalidValueError, match="port: must be "):
        View({"a": WatchedTraining(tmp_path / "a")}, port=port)
