"""Formats whose tools are not installed for tests, and what is recognised of any of them."""

import json
from pathlib import Path

import pandas
import pytest

from maxatk import bounded
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.external_rewards import read_rewards, score_rewards
from maxatk.evaluation.submissions import problems_of_log, read_submissions
from maxatk.exchange import FORMATS, read_log
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from runs import rows_of

BATCH = {  # one line of the output file, as platform.openai.com documents it
    "id": "batch_req_1",
    "custom_id": "p",
    "response": {
        "status_code": 200,
        "request_id": "r",
        "body": {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [
                {"index": n, "message": {"role": "assistant", "content": f"print({n})"}}
                for n in range(2)
            ],
        },
    },
    "error": None,
}
ONE_CHOICE = {"response": {"status_code": 200, "body": {"choices": [{"text": "print(0)"}]}}}
NO_CHOICE = {"response": {"status_code": 200, "body": {"choices": []}}}
VERL = {"input": "user\n1+1=", "output": "2", "gts": "2", "score": 1.0, "step": 5, "acc": True}
CODE_LIST = {
    "question_id": "abc301_a",
    "question_title": "t",
    "question_content": "Add.",
    "output_list": ["```python\nprint(1)\n```", "print(2)"],
    "code_list": ["print(1)", "print(2)"],
    "graded_list": [True, False],
}
ROWS = {"openai-batch": BATCH, "verl": VERL, "livecodebench": CODE_LIST}


def write(folder, *rows, name="log.jsonl"):
    write_jsonl(folder / name, rows)
    return folder / name


def test_choices_of_a_batch_are_samples_and_so_are_numbered_requests(tmp_path):
    numbered = {**BATCH, "custom_id": "q#3", "response": json.loads(json.dumps(BATCH["response"]))}
    del numbered["response"]["body"]["choices"][1]
    rows = read_log(write(tmp_path, BATCH, numbered), log_format="openai-batch")
    assert [(r.problem_id, r.sample, r.completion) for r in rows] == [
        ("p", 0, "print(0)"),
        ("p", 1, "print(1)"),
        ("q", 3, "print(0)"),
    ]
    problems = {p: Problem(p, "", (TestCase(input="", output="0"),)) for p in "pq"}
    submissions = read_submissions(tmp_path / "log.jsonl", problems, log_format="openai-batch")
    programs = [submission.program for submission in submissions]
    assert programs == ["print(0)", "print(1)", "print(0)"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"error": {"code": "x"}},
            r"field 'error': the request 'p' failed: {'code': 'x'}; send it",
        ),
        (
            {"response": {"status_code": 429}},
            r"'response.status_code': must be 200, got 429 for the request 'p'; send it",
        ),
        ({"response": None}, "must be 200, got None"),
        ({"custom_id": 4}, "field 'custom_id': must be text, got 4"),
        (NO_CHOICE, "field 'response.body.choices': of 'p' must not be empty"),
        ({"custom_id": "#0", **ONE_CHOICE}, "field 'custom_id': must be text or an integer"),
    ],
)
def test_a_failed_request_is_named_and_never_a_sample(tmp_path, change, message):
    path = write(tmp_path, BATCH, {**BATCH, **change})
    with pytest.raises(DataError, match=rf"log.jsonl:2: .*{message}"):
        read_log(path, log_format="openai-batch")


def test_a_dump_of_verl_is_grouped_by_its_input(tmp_path):
    path = write(tmp_path, VERL, {**VERL, "score": 0.0, "acc": False}, {**VERL, "input": "b"})
    rows = read_log(path, log_format="verl")
    assert [(r.prompt, r.sample, r.reward, r.columns["acc"]) for r in rows] == [
        ("user\n1+1=", 0, 1.0, 1.0),
        ("user\n1+1=", 1, 0.0, 0.0),
        ("b", 0, 1.0, 1.0),
    ]


def test_texts_of_other_tools_are_no_scores_even_where_they_look_like_numbers(tmp_path):
    (row,) = read_log(write(tmp_path, {**VERL, "pred": "2", "is_last": "true"}))
    assert row.columns == {"acc": 1.0}
    trl = {"step": 1, "prompt": "1+1=", "completion": "2", "correct": 1.0, "answer": "2"}
    (row,) = read_log(write(tmp_path, {**trl, "advantage": 0.5}))
    assert (row.reward, row.columns.keys()) == (1.0, {"correct"})


def test_what_a_trainer_notes_of_its_steps_is_no_score_that_selects(tmp_path):
    verl = [{**VERL, "step": 5, "response_length": length} for length in (3, 9)]
    trl = {"step": 5, "prompt": "p", "completion": "c"}
    rows = {
        "verl": [{**row, "score": score} for row, score in zip(verl, (1.0, 0.0), strict=True)],
        "trl": [{**trl, "right": score, "advantage": score - 0.5} for score in (1.0, 0.0)],
    }
    chosen_by = {}
    for name, of_tool in rows.items():
        results = read_rewards(write(tmp_path, *of_tool, name=f"{name}.jsonl")).results()
        chosen_by[name] = {metric for metric in results.metrics if " by " in metric}
    assert chosen_by["verl"] == {"max@k by acc", "max@k by response_length"}
    assert chosen_by["trl"] == {"max@k by right"}


def test_one_prompt_with_two_answers_is_two_problems(tmp_path):
    long = "x" * 100  # stands in the id as a hash
    rows = [{**VERL, "gts": gts, "score": score} for gts in ("2", "3", long) for score in (0, 1)]
    samples = read_log(write(tmp_path, {**VERL, "input": "b"}, *rows))
    first, *other_ids = [row.problem_id for row in samples]
    assert first == "b"
    assert other_ids[:4] == ["user\n1+1= [answer 2]"] * 2 + ["user\n1+1= [answer 3]"] * 2
    assert other_ids[4] == other_ids[5]
    assert len(set(other_ids)) == 3
    assert [row.sample for row in samples] == [0, 0, 1, 0, 1, 0, 1]
    assert {row.prompt for row in samples[1:]} == {VERL["input"]}
    # The ids do not hang on the order of the rows.
    again = read_log(write(tmp_path, *reversed(rows)))
    assert {row.problem_id for row in again} == set(other_ids)
    # A log with ids of its own keeps them, whatever the answers.
    named = [{"problem_id": "p", "prompt": "p", "answer": gts, "reward": 1} for gts in "ab"]
    assert {row.problem_id for row in read_log(write(tmp_path, *named))} == {"p"}


def test_samples_of_a_batch_are_numbered_by_the_index_of_their_choice(tmp_path):
    choices = BATCH["response"]["body"]["choices"]
    body = {**BATCH["response"]["body"], "choices": choices[::-1]}
    path = write(tmp_path, {**BATCH, "response": {**BATCH["response"], "body": body}})
    rows = read_log(path, log_format="openai-batch")
    assert [(row.sample, row.completion) for row in rows] == [(1, "print(1)"), (0, "print(0)")]
    body["choices"] = [{**choices[0], "index": -1}]
    path = write(tmp_path, {**BATCH, "response": {**BATCH["response"], "body": body}})
    with pytest.raises(DataError, match=r"choices.0.index': must be an integer from 0, got -1"):
        read_log(path, log_format="openai-batch")


def test_a_chat_of_a_batch_that_ended_in_its_reasoning_is_a_thought(tmp_path):
    messages = [{"content": None, "reasoning": "Hm."}, {"content": None}]
    choices = [
        {"index": index, "message": message, "finish_reason": "length"}
        for index, message in enumerate(messages)
    ]
    response = {"status_code": 200, "body": {"choices": choices}}
    rows = read_log(write(tmp_path, {**BATCH, "response": response}))
    assert [row.completion for row in rows] == ["<think>\nHm.", ""]
    choices[1]["finish_reason"] = "stop"
    with pytest.raises(DataError, match=r"choices.1.message.content': must be text, got None"):
        read_log(write(tmp_path, {**BATCH, "response": response}))


def test_a_chat_of_a_batch_that_refuses_is_its_refusal(tmp_path):
    refusal = {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}
    filtered = {"message": {"content": None}, "finish_reason": "content_filter"}
    response = {"status_code": 200, "body": {"choices": [refusal, filtered]}}
    rows = read_log(write(tmp_path, {**BATCH, "response": response}))
    assert [row.completion for row in rows] == ["No.", ""]


FAILED = (
    {**BATCH, "custom_id": "p#1", "response": None, "error": {"code": "batch_expired"}},
    {
        "custom_id": "q",
        "response": {"status_code": 400, "body": {"error": {"message": "Filtered."}}},
    },
)


def one_answer(custom_id):
    body = {"choices": [{"index": 0, "message": {"content": "print(0)"}}]}
    return {"custom_id": custom_id, "response": {"status_code": 200, "body": body}}


@pytest.mark.parametrize(
    ("on_error", "expected"),
    [
        ("drop", [("p", 0, "print(0)")]),
        ("zero", [("p", 0, "print(0)"), ("p", 1, ""), ("q", 0, "")]),
    ],
)
def test_what_a_failed_request_of_a_batch_is_worth_is_chosen(tmp_path, on_error, expected, caplog):
    path = write(tmp_path, one_answer("p#0"), *FAILED)
    rows = read_log(path, mapping={"on_error": on_error})
    assert [(r.problem_id, r.sample, r.completion) for r in rows] == expected
    message = "2 failed requests left out, as on_error=drop says"
    assert (message in caplog.text) == (on_error == "drop")


def test_without_a_choice_every_failed_request_is_named_with_its_reason(tmp_path):
    path = write(tmp_path, one_answer("p#0"), *FAILED)
    with pytest.raises(DataError) as caught:
        read_log(path)
    text = str(caught.value)
    assert ":2: field 'error': the request 'p#1' failed: {'code': 'batch_expired'}; send" in text
    assert ":3: field 'response.status_code': must be 200, got 400 for the request 'q'" in text
    assert "'Filtered.'; send it again" in text
    assert "--map on_error=drop leaves it out" in text
    with pytest.raises(InvalidValueError, match="on_error: unknown value 'skip'; allowed: drop, "):
        read_log(path, mapping={"on_error": "skip"})


def test_failed_requests_that_are_left_out_are_told_where_a_batch_is_scored(tmp_path, maxatk):
    tests = (TestCase(input="", output="0\n"),)
    problems = [Problem(name, "Print 0.", tests).to_json() for name in "pq"]
    write(tmp_path, *problems, name="problems.jsonl")
    write(tmp_path, one_answer("p#0"), FAILED[0], one_answer("q"))
    score = ("score", "--problems", "problems.jsonl", "--samples", "log.jsonl", "--out")
    shown = ("--output-format", "json", "--map")
    assert "2: field 'error': the request 'p#1' failed" in maxatk(*score, "none").stderr
    dropped = maxatk(*score, "dropped", *shown, "on_error=drop")
    assert dropped.returncode == 0, dropped.stderr
    assert "1 failed request left out" in dropped.stderr
    zero = maxatk(*score, "zero", *shown, "on_error=zero")
    means = []
    for done in (dropped, zero):
        metrics = json.loads(done.stdout)["metrics"]
        means.append(next(row["mean"] for row in metrics if row["metric"] == "max@k"))
    assert means == [1.0, 0.75]


def test_a_row_that_fills_a_batch_of_verl_is_no_sample(tmp_path):
    uid = "0b5c1f1e-32a5-4a53-9b4e-1f7c9d1f2a3b_0_0"
    fill = {"input": "", "output": "", "gts": None, "score": 0.0, "uid": f"pad{'0a' * 16}_3_0"}
    rows = read_log(write(tmp_path, {**VERL, "uid": uid}, fill), log_format="verl")
    assert [(r.prompt, r.reward) for r in rows] == [("user\n1+1=", 1.0)]


def test_a_code_list_gives_programs_and_after_its_evaluation_rewards(tmp_path):
    path = tmp_path / "eval_all.json"
    path.write_text(json.dumps([CODE_LIST, {**CODE_LIST, "question_id": "abc301_b"}]))
    results = score_rewards(path, tmp_path / "run", log_format="livecodebench")
    assert results.per_problem.values["pass@k"] == {1: (0.5, 0.5), 2: (1.0, 1.0)}
    problems = {
        f"livecodebench/abc301_{name}": Problem(
            f"livecodebench/abc301_{name}", "", (TestCase(input="", output="1"),)
        )
        for name in "ab"
    }
    submissions = read_submissions(path, problems, log_format="livecodebench")
    assert [
        (submission.sample.problem_id, submission.program) for submission in submissions[:2]
    ] == [
        ("livecodebench/abc301_a", "print(1)"),
        ("livecodebench/abc301_a", "print(2)"),
    ]
    del CODE_LIST["graded_list"]
    path.write_text(json.dumps([CODE_LIST]))
    with pytest.raises(DataError, match="holds no rewards"):
        read_rewards(path, log_format="livecodebench")


@pytest.mark.parametrize("name", ROWS)
def test_a_file_of_another_tool_is_read_without_its_name(tmp_path, name):
    path = write(tmp_path, {**ROWS[name], "graded_list": [True, False]})
    rows = read_log(path)
    assert rows == read_log(path, log_format=name)
    problems = {row.problem_id: Problem(row.problem_id, "") for row in rows}
    assert len(read_submissions(path, problems)) == len(rows)
    other = "verl" if name != "verl" else "human-eval"
    with pytest.raises(DataError, match=rf"as {FORMATS[name].title} it is read without --format"):
        read_log(path, log_format=other)


@pytest.mark.parametrize("name", ["verl.jsonl", "verl.json", "code_list.json"])
def test_a_log_is_opened_once(tmp_path, monkeypatch, name):
    rows = [{"question_id": "q", "code_list": ["x"]}]
    if name.startswith("verl"):
        rows = [VERL, {**VERL, "score": 0.0}]
    path = write(tmp_path, *rows)
    path = path.rename(tmp_path / name)
    opened = []
    real = Path.open

    def count(self, *arguments, **options):
        opened.append(self)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", count)
    assert len(read_log(path)) == len(rows)
    assert opened == [path]


def test_rows_a_line_are_not_bounded_together_whatever_the_name(tmp_path, monkeypatch):
    path = write(tmp_path, *[{**VERL, "input": f"{n}"} for n in range(40)])
    path = path.rename(tmp_path / "verl.json")
    monkeypatch.setattr(bounded, "MOST_VALUES", 100)  # of one JSON text, as of a line
    assert len(read_log(path)) == 40
    path.write_text("[" + ",\n".join(path.read_text().splitlines()) + "]")
    with pytest.raises(DataError, match=r"verl.json: not a JSON file: broken JSON: more than 100"):
        read_log(path)


def test_an_unknown_form_lists_its_fields(tmp_path):
    path = write(tmp_path, {"spam": 1, "eggs": 2})
    with pytest.raises(DataError, match=r"does not look like verl's.*the fields eggs, spam"):
        read_log(path, log_format="verl")
    missing = r"field 'problem_id': is missing; got eggs, spam; --map problem_id=FIELD says"
    with pytest.raises(DataError, match=missing):
        read_log(path)


def test_one_cause_of_many_bad_lines_is_said_once(tmp_path):
    path = write(tmp_path, *[{"pid": "a", "reward": 1}] * 30)
    with pytest.raises(DataError) as refused:
        read_log(path)
    assert str(refused.value).count("problem_id=FIELD") == 1
    assert str(refused.value).endswith("(and 29 more)")


def test_prompts_and_answers_of_a_log_are_its_problems(tmp_path):
    path = write(tmp_path, VERL, {**VERL, "output": "3"}, {**VERL, "input": "2+2=", "gts": "4"})
    assert problems_of_log(path) == [
        Problem("user\n1+1=", "user\n1+1=", answer="2"),
        Problem("2+2=", "2+2=", answer="4"),
    ]
    score_rewards(path, tmp_path / "run")
    prompts = [row["prompt"] for row in rows_of(tmp_path / "run/prompts.jsonl")]
    assert prompts == ["user\n1+1=", "2+2="]
    with pytest.raises(InvalidValueError, match=r"needs --problems: .* and answer of 'p'"):
        problems_of_log(write(tmp_path, BATCH))


@pytest.mark.parametrize("other", [{"prompt": "What is 2+0?"}, {"answer": "4"}])
def test_two_problems_of_one_id_are_not_judged_by_one_of_their_answers(tmp_path, other):
    row = {"problem_id": "0", "prompt": "What is 1+1?", "answer": "2", "completion": "2"}
    path = tmp_path / "samples.csv"
    pandas.DataFrame([row, row]).to_csv(path, index=False)
    assert problems_of_log(path) == [Problem("0", "What is 1+1?", answer="2")]
    pandas.DataFrame([row, {**row, **other}]).to_csv(path, index=False)
    (name,) = other
    with pytest.raises(DataError, match=f"problem '0' differ in the {name}: .* and "):
        problems_of_log(path)


LM_EVAL = {
    **{"doc_id": 0, "target": "4", "resps": [["2+2=4"]], "metrics": ["exact_match"]},
    "arguments": {"gen_args_0": {"arg_0": "2+2="}},
}


def test_a_mapping_leaves_the_rows_of_another_filter_out(tmp_path):
    strict = {**LM_EVAL, "filter": "strict", "filtered_resps": ["4"], "exact_match": 1.0}
    loose = {**LM_EVAL, "filter": "loose", "filtered_resps": ["5"], "exact_match": 0.0}
    mapping = {"filter": "strict", "completion": "filtered_resps"}
    (row,) = read_log(write(tmp_path, strict, loose), mapping=mapping)
    assert (row.completion, row.reward) == ("4", 1.0)


def test_a_filter_that_no_row_has_is_named_with_those_there_are(tmp_path):
    row = {**LM_EVAL, "filtered_resps": ["4"], "exact_match": 1.0}
    path = write(tmp_path, {**row, "filter": "strict-match"}, {**row, "filter": "flexible"})
    message = r"field 'filter': no row has 'strict'; allowed: flexible, strict-match"
    with pytest.raises(DataError, match=message):
        read_log(path, mapping={"filter": "strict"})


def test_of_several_filters_a_file_takes_the_one_that_it_has(tmp_path):
    strict = {**LM_EVAL, "filter": "strict", "filtered_resps": ["4"], "exact_match": 1.0}
    loose = {**LM_EVAL, "filter": "loose", "filtered_resps": ["5"], "exact_match": 0.0}
    path = write(tmp_path, strict, loose)
    (row,) = read_log(path, mapping={"filter": "strict,none"})
    assert row.reward == 1.0
    with pytest.raises(DataError, match="field 'filter': has loose, strict; --map filter=NAME"):
        read_log(path, mapping={"filter": "strict,loose"})
    message = "no row has 'a' or 'b'; allowed: loose, strict; .* --map filter=a,loose"
    with pytest.raises(DataError, match=message):
        read_log(path, mapping={"filter": "a,b"})


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
@pytest.mark.parametrize("resps", [[["2+2=4"]], [[["-1.5", "False"]], [["-0.5", "True"]]]])
def test_a_row_of_lm_eval_without_its_first_metric_has_no_reward(tmp_path, missing, resps):
    row = {**LM_EVAL, "filtered_resps": ["4"], "resps": resps, "metrics": ["exact_match", "bleu"]}
    values = {0: (1.0, 0.2), 1: (missing, 0.9)}
    rows = [{**row, "doc_id": n, "exact_match": e, "bleu": b} for n, (e, b) in values.items()]
    results = score_rewards(write(tmp_path, *rows), tmp_path / "run")
    assert results.metrics["max@k"][1].mean == 1.0
    assert "1 of 2 samples" in results.counts.lacking
    assert [row["reward"] for row in rows_of(tmp_path / "run/scores.jsonl")] == [1.0, None]
    by_bleu = score_rewards(tmp_path / "log.jsonl", tmp_path / "bleu", column="bleu")
    assert by_bleu.metrics["max@k"][1].mean == pytest.approx(0.55)


def test_a_metric_of_lm_eval_that_is_no_number_by_itself_is_no_reward(tmp_path):
    row = {**LM_EVAL, "filtered_resps": ["4"], "metrics": ["mcc", "exact_match"]}
    (sample,) = read_log(write(tmp_path, {**row, "mcc": [1, 0], "exact_match": 0.5}))
    assert (sample.reward, sample.columns) == (0.5, {"exact_match": 0.5})
    with pytest.raises(DataError, match="field 'exact_match': must be a finite number"):
        read_log(write(tmp_path, {**row, "mcc": [1, 0], "exact_match": "broken"}))


def test_a_conversation_under_another_name_is_one_text_of_a_row(tmp_path):
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2="}]
    reply = [{"role": "assistant", "content": "4"}]
    path = write(tmp_path, {"problem_id": "p", "asked": prompt, "said": reply, "reward": 1.0})
    (row,) = read_log(path, mapping={"prompt": "asked", "completion": "said"})
    assert (row.prompt, row.completion) == ("Be brief.\n2+2=", "4")


def test_messages_in_parts_tell_problems_apart_by_their_texts(tmp_path):
    system = {"role": "system", "content": "Be brief."}
    rows = [
        {
            "prompt": [system, {"role": "user", "content": [{"type": "image"}, {"text": text}]}],
            "completion": "4",
            "step": 1,
            "advantage": 0.5,
            "correct": 1.0,
        }
        for text in ("2+2=", "1+3=")
    ]
    samples = read_log(write(tmp_path, *rows))
    ids = [sample.problem_id for sample in samples]
    assert ids == ["Be brief.\n2+2=", "Be brief.\n1+3="]
    # The completion is a number, and no score of its own.
    assert samples[0].columns == {"correct": 1.0}


@pytest.mark.parametrize("completion", [[3, 4], [{"role": "assistant"}, "4"], ["4", None]])
def test_a_list_that_is_no_conversation_is_no_empty_completion(tmp_path, completion):
    path = write(tmp_path, {"problem_id": "p", "completion": completion, "reward": 1.0})
    with pytest.raises(DataError, match="field 'completion': must be text, got"):
        read_log(path)


def test_a_scorer_of_inspect_that_gives_no_number_leaves_the_others_usable():
    scores = {"match": "C", "judge": {"style": 0.5, "truth": 1.0}}
    row = {"id": "p", "epoch": 2, "input": "2+2=", "target": "4", "completion": "4"}
    convert = FORMATS["inspect"].convert
    (sample,) = convert({**row, "scores": scores}, {"scorer": "match"})
    assert (sample.sample, sample.reward, sample.columns) == (1, 1.0, {"match": 1.0})
    for names in ("style,match", "match,none"):  # of which this file has one
        (sample,) = convert({**row, "scores": scores}, {"scorer": names})
        assert sample.reward == 1.0
    with pytest.raises(DataError, match=r"'scores': has match, judge; --map scorer=NAME chooses"):
        convert({**row, "scores": scores}, {"scorer": "judge,match"})
    message = r"no 'style' or 'truth'; allowed: judge, match; .* --map scorer=style,judge"
    with pytest.raises(DataError, match=message):
        convert({**row, "scores": scores}, {"scorer": "style,truth"})
    with pytest.raises(DataError, match=r"field 'scores.judge': must be a finite number"):
        convert({**row, "scores": scores}, {"scorer": "judge"})
    (sample,) = convert({**row, "scores": scores}, {"reward": "scores.judge.style"})
    assert sample.columns == {"match": 1.0}
