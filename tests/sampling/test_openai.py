import asyncio
import contextlib
import dataclasses
import functools
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from maxatk.errors import InvalidValueError, MaxAtKError, ServerError
from maxatk.jsonl import write_jsonl
from maxatk.models import PromptSettings
from maxatk.records import Problem, Sample, TestCase
from maxatk.sampling import (
    ModelSettings,
    SamplingSettings,
    ServerSettings,
    load_backend,
    openai,
)
from maxatk.sampling.settings import Request, sample_seed
from maxatk.verifier import Verifier
from processes import patience
from runs import evaluated
from sampling.servers import serving, text_for

SETTINGS = SamplingSettings(samples=24, max_new_tokens=8, temperature=0.7, top_p=0.9, seed=5)


def backend_for(server, **changes):
    options = {"url": server.url, "backoff_s": 0.01, "retries": 4, "timeout_s": 5.0, **changes}
    return load_backend("m", ModelSettings(backend="openai", server=ServerSettings(**options)))


def expected(indices):
    return [text_for(sample_seed(5, "p", index)) for index in indices]


def draw(backend, indices=range(24)):
    requests = [Request("p", "a prompt", list(indices))]
    return [sample for batch in backend.sample(requests, SETTINGS) for sample in batch]


def test_every_sample_is_a_request_with_its_own_seed():
    with serving() as server:
        samples = draw(backend_for(server), [3, 1, 7])
    assert [s.completion for s in samples] == expected([3, 1, 7])
    assert [(s.problem_id, s.sample) for s in samples] == [("p", 3), ("p", 1), ("p", 7)]
    assert (samples[0].tokens, samples[0].finish_reason) == (8, "stop")
    assert samples[0].logprob is samples[0].entropy is None
    path, _, body = server.requests[0]
    assert path == "/v1/completions"
    seeds = {body.pop("seed") for _, _, body in server.requests}
    assert seeds == {sample_seed(5, "p", i) for i in (1, 3, 7)}
    assert body == {
        "model": "m",
        "prompt": "a prompt",
        "max_tokens": 8,
        "temperature": 0.7,
        "top_p": 0.9,
    }


def test_chat_sends_the_prompt_as_a_turn_and_the_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "secret")
    with serving() as server:
        (sample,) = draw(backend_for(server, chat=True, key_variable="SOME_KEY"), [2])
    assert sample.completion == expected([2])[0]
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [{"role": "user", "content": "a prompt"}]
    assert headers["Authorization"] == "Bearer secret"


def test_chat_sends_a_system_turn_and_the_arguments_of_the_template():
    with serving() as server:
        server_settings = ServerSettings(url=server.url, chat=True)
        prompt = PromptSettings(system="Be brief.", template_arguments={"enable_thinking": False})
        draw(load_backend("m", ModelSettings("openai", server=server_settings, prompt=prompt)), [0])
    body = server.requests[0][2]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({"template": "none"}, "prompt.template: must be auto with a server"),
        ({"system": "x"}, "prompt: a system turn and template_arguments need server.chat"),
    ],
)
def test_what_a_server_cannot_do_with_prompts_is_refused(prompt, message):
    server = ServerSettings(url="http://x")
    with pytest.raises(InvalidValueError, match=message):
        load_backend("m", ModelSettings("openai", server=server, prompt=PromptSettings(**prompt)))


def test_a_server_without_the_model_is_noticed_before_any_sampling():
    with serving(models=[{"id": "other", "owned_by": "x"}]) as server:
        backend = backend_for(server)
        with pytest.raises(ServerError, match="the server has no model 'm'; it has other"):
            backend.prepare({"p": "a prompt"}, SETTINGS)


def test_a_server_that_is_not_ready_yet_is_asked_for_its_models_again():
    models = [{"id": "m", "owned_by": "vllm"}]
    with serving(models=models, busy=2) as server:
        backend = backend_for(server)
        backend.prepare({"p": "a prompt"}, SETTINGS)
        draw(backend, [0])
    assert "repetition_penalty" in server.requests[0][2]


def test_a_server_that_never_lists_its_models_is_not_waited_for_long():
    with serving(models=[{"id": "m"}], busy=1000) as server:
        backend = backend_for(server, retries=30)
        backend.prepare({"p": "a prompt"}, SETTINGS)
        assert server.left_busy == 1000 - 1 - 5
        (sample,) = draw(backend, [0])
    assert sample.completion


@pytest.mark.parametrize("chat", [False, True])
def test_vllm_is_told_the_whole_distribution_and_gives_log_probabilities(chat):
    settings = dataclasses.replace(SETTINGS, temperature=1.0)
    with serving(models=[{"id": "m", "owned_by": "vllm"}]) as server:
        backend = backend_for(server, chat=chat)
        backend.prepare({"p": "a prompt"}, settings)
        request = Request("p", "a prompt", [0])
        ((sample,),) = backend.sample([request], settings)
    body = server.requests[0][2]
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (0, 0.0, 1.0)
    assert sample.logprob == -1.25


def test_cuts_and_stops_are_sent_where_they_are_asked_for():
    settings = dataclasses.replace(SETTINGS, top_k=5, min_p=0.1, stop=("\nclass",))
    with serving() as server:
        list(backend_for(server).sample([Request("p", "a prompt", [0])], settings))
    body = server.requests[0][2]
    assert (body["top_k"], body["min_p"], body["stop"]) == (5, 0.1, ["\nclass"])


def test_requests_of_many_problems_are_under_way_together():
    requests = [Request(f"p{i}", "a prompt", [0]) for i in range(40)]
    with serving(delay=0.05) as server:
        drawn = list(backend_for(server, concurrency=8).sample(requests, SETTINGS))
    ids = [sample.problem_id for batch in drawn for sample in batch]
    assert ids == [f"p{i}" for i in range(40)]
    assert server.busiest == 8


def test_closing_the_samples_ends_the_requests():
    requests = [Request("p", "a prompt", range(24))]
    before = threading.active_count()
    with serving(delay=0.05) as server:
        drawn = backend_for(server, concurrency=2).sample(requests, SETTINGS)
        next(drawn)
        drawn.close()
        count = len(server.requests)
        time.sleep(0.3)
        assert len(server.requests) <= count + 2
    assert threading.active_count() <= before


def test_faults_that_pass_lose_no_sample():
    faults = [429, 500, "drop", 503, "drop", 502, 504, 408, 429, 529]
    with serving(faults) as server:
        samples = draw(backend_for(server))
    assert [s.completion for s in samples] == expected(range(24))
    assert len(server.requests) == 24 + len(faults)


ERROR = {"error": {"code": 502, "message": "the provider failed"}}
CUT_OFF = {"text": "print(", "finish_reason": "error", **ERROR}


@pytest.mark.parametrize("body", [ERROR, {"choices": [CUT_OFF]}])
def test_an_error_in_an_answer_of_status_200_is_that_of_the_server_behind_it(body):
    with serving([body]) as server:
        samples = draw(backend_for(server), [0])
    assert [s.completion for s in samples] == expected([0])
    refusal = json.loads(json.dumps(body).replace("502", "403"))
    with serving([refusal]) as server, pytest.raises(ServerError, match="was refused: status 403"):
        draw(backend_for(server), [0])


def test_a_server_that_hangs_is_asked_again():
    with serving(["hang", "hang"]) as server:
        samples = draw(backend_for(server, timeout_s=0.3), range(3))
    assert [s.completion for s in samples] == expected(range(3))


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_more_requests_than_allowed_are_under_way(concurrency):
    with serving(delay=0.03) as server:
        draw(backend_for(server, concurrency=concurrency))
    assert server.busiest == concurrency


@pytest.mark.long
def test_more_than_a_thousand_retries_wait_for_a_server_that_comes_back():
    with serving([503] * 1030) as server:
        (sample,) = draw(backend_for(server, retries=1100, backoff_s=5e-324), [0])
    assert sample.completion


def test_a_server_that_goes_on_failing_is_a_typed_error_after_the_retries():
    with serving([503] * 1000) as server, pytest.raises(ServerError) as caught:
        draw(backend_for(server, retries=2), [0])
    assert isinstance(caught.value, MaxAtKError)
    assert "sample 0 of 'p' failed 3 times, the last: status 503" in str(caught.value)
    assert "fault 503" in str(caught.value)
    assert len(server.requests) == 3


def test_the_pause_doubles_with_every_attempt():
    with serving([500] * 4) as server:
        started = time.monotonic()
        draw(backend_for(server, backoff_s=0.1), [0])
    # The four pauses are 0.1, 0.2, 0.4 and 0.8 s, each cut by up to a half.
    assert 0.75 <= time.monotonic() - started < patience(4)


def test_the_server_may_say_how_long_to_wait():
    with serving([429, 429], headers={"Retry-After": "0.2"}) as server:
        started = time.monotonic()
        draw(backend_for(server, backoff_s=30.0), [0])
    assert 0.4 <= time.monotonic() - started < patience(10)


@pytest.mark.parametrize("wait", ["0", "0.0", "-3"])
def test_a_wait_of_no_time_does_not_use_up_the_retries(wait):
    with serving([429, 429], headers={"Retry-After": wait}) as server:
        started = time.monotonic()
        draw(backend_for(server, backoff_s=0.2, retries=2), [0])
    assert time.monotonic() - started >= 0.3  # half of 0.2 and half of 0.4


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_the_server_refuses_is_not_repeated(status):
    with serving([status] * 50) as server, pytest.raises(ServerError, match="was refused: status"):
        draw(backend_for(server, concurrency=1))
    assert len(server.requests) <= 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{half", "is not JSON: '{half'"),
        ({}, "the answer has no text"),
        ([], "the answer has no text"),
        ({"choices": []}, "the answer has no text"),
        ({"choices": [{"text": None}]}, "the answer has no text"),
        ({"choices": [{"text": None, "finish_reason": "length"}]}, "the answer has no text"),
    ],
)
def test_an_answer_without_a_text_is_an_error_not_an_empty_sample(body, message):
    with serving([body]) as server, pytest.raises(ServerError, match=message):
        draw(backend_for(server), [0])


MISTRAL_THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}


def chat_answer(message, finish_reason):
    choice = {"message": message, "finish_reason": finish_reason}
    return {"choices": [choice], "usage": {"completion_tokens": 8}}


@pytest.mark.parametrize(
    ("message", "finish_reason", "text"),
    [
        ({"content": None, "reasoning_content": "Hm \ud800."}, "length", "<think>\nHm \ufffd."),
        ({"content": None, "reasoning": "Hm."}, "length", "<think>\nHm."),
        ({"content": "", "reasoning": "Hm.", "reasoning_content": None}, "stop", "<think>\nHm."),
        ({"reasoning": "Hm."}, "stop", "<think>\nHm."),
        ({"content": None}, "length", ""),
        ({"content": "", "reasoning": None}, "stop", ""),
        ({"content": "4", "reasoning": "Hm."}, "stop", "4"),
        ({"content": [MISTRAL_THOUGHT, {"type": "text", "text": "4"}]}, "stop", "4"),
        ({"content": [MISTRAL_THOUGHT]}, "length", ""),
    ],
)
def test_a_chat_that_ended_in_its_reasoning_is_a_thought_without_an_answer(
    message, finish_reason, text
):
    with serving([chat_answer(message, finish_reason)]) as server:
        (sample,) = draw(backend_for(server, chat=True), [0])
    assert sample == Sample("p", 0, text, tokens=8, finish_reason=finish_reason)


@pytest.mark.parametrize(
    ("message", "finish_reason"),
    [
        ({"content": None}, "stop"),
        ({"content": None, "reasoning": 3}, "stop"),
        ({"content": 4, "reasoning": "Hm."}, "length"),
        ({"content": [4]}, "stop"),
        ({"content": [MISTRAL_THOUGHT]}, "stop"),
        ({"content": None, "tool_calls": [{"function": {"name": "f"}}]}, "tool_calls"),
        (None, "length"),
    ],
)
def test_a_chat_without_text_that_was_not_cut_off_is_an_error(message, finish_reason):
    answer = chat_answer(message, finish_reason)
    with serving([answer]) as server, pytest.raises(ServerError, match="the answer has no text"):
        draw(backend_for(server, chat=True), [0])


def packed(data, encoding):
    def answer(handler):
        handler.answer(200, data, {"Content-Encoding": encoding})

    return answer


def endless(handler, pause=0.0):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.server.stopped.wait(pause):
            handler.wfile.write(b" " * (1 if pause else 1 << 16))
    handler.close_connection = True


HOSTILE = {
    "a redirect": (lambda handler: handler.answer(302, {}, {"Location": "/v1"}), "status 302"),
    "deep JSON": (b"[" * 10**5, "is not JSON"),
    "a number of 5,000 digits": (b'{"choices": ' + b"9" * 5000 + b"}", "is not JSON"),
    "no end": (endless, "the answer is longer than"),
    "no end, slowly": (
        functools.partial(endless, pause=0.05),
        "TimeoutError (server.timeout_s is 1)",
    ),
    "much in little": (packed(gzip.compress(bytes(1 << 24)), "gzip"), "the answer is longer than"),
    "broken packing": (packed(b"no gzip", "gzip"), "DecodingError"),
    "unknown packing": (packed(b"{}", "zstd"), "packed by 'zstd'"),
    "an endless list of models": (None, "cannot be reached: DecodingError the answer is longer"),
}


@pytest.mark.parametrize("fault, message", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_cannot_be_read_is_a_named_error(monkeypatch, fault, message):
    monkeypatch.setattr(openai, "_MOST_BYTES", 1 << 20)
    models = [] if fault else [{"id": "x" * (1 << 21)}]

    def ask(server):
        backend = backend_for(server, retries=1, timeout_s=1.0)
        backend.prepare({"p": "a prompt"}, SETTINGS)
        draw(backend, [0])

    refused = pytest.raises(ServerError, match=re.escape(message))
    with serving([fault] * 2, models=models) as server, refused:
        ask(server)


COUNTS = [float("nan"), -1, True, 10**300]
LOGPROBS = [
    *("a", [1], {"content": 3}),
    *({"token_logprobs": ["a"]}, {"token_logprobs": [float("nan")]}),
    {"content": [{"logprob": float("inf")}]},
]


@pytest.mark.parametrize("usage", ["a", [1], *({"completion_tokens": n} for n in COUNTS)])
@pytest.mark.parametrize("logprobs", LOGPROBS)
def test_values_of_wrong_types_are_unknown(usage, logprobs):
    choice = {"text": "x\ud800y", "finish_reason": ["stop"], "logprobs": logprobs}
    with serving([{"choices": [choice], "usage": usage}]) as server:
        (sample,) = draw(backend_for(server), [0])
    assert sample == Sample("p", 0, "x\ufffdy")


def test_a_key_that_a_server_repeats_is_in_no_text_and_no_message(monkeypatch):
    key = "sk-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    answers = [{"choices": [{"text": f"a {key} b"}]}, {"choices": [{"content": key}]}]
    with serving(answers) as server:
        backend = backend_for(server, concurrency=1)
        (sample,) = draw(backend, [0])
        assert sample.completion == "a (hidden) b"
        with pytest.raises(ServerError, match=r"no text: .*\(hidden\)") as caught:
            draw(backend, [1])
    assert key not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "two\nlines")
    with pytest.raises(
        InvalidValueError, match=r"key_variable: .* without line breaks, got 'OPENAI_API_KEY'"
    ):
        backend_for(server)


def test_a_wait_that_is_no_number_is_that_of_the_settings():
    with serving([429], headers={"Retry-After": "nan"}) as server:
        assert len(draw(backend_for(server), [0])) == 1


def test_it_works_within_a_running_loop():
    async def notebook(server):
        return draw(backend_for(server), range(3))

    with serving() as server:
        samples = asyncio.run(notebook(server))
    assert [s.completion for s in samples] == expected(range(3))


def test_a_server_that_is_not_there_is_noticed_before_any_sampling(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    nobody = ModelSettings("openai", server=ServerSettings(url=f"http://127.0.0.1:{port}/v1"))
    with pytest.raises(ServerError, match="cannot be reached"):
        evaluated("m", PROBLEMS, tmp_path / "run", model_settings=nobody)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": None}, "needs the URL of a server"),
        ({"url": "localhost:8000"}, "url: must be an address of http"),
        ({"concurrency": 0}, "concurrency: must be an integer of 1 or more, got 0"),
        ({"retries": -1}, "retries: must be an integer of 0 or more"),
        ({"timeout_s": 0}, "timeout_s: must be positive, got 0"),
        ({"backoff_s": float("inf")}, "backoff_s: must be positive"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with serving() as server, pytest.raises(InvalidValueError, match=message):
        backend_for(server, **changes)


def test_options_of_other_backends_are_refused(tiny_model):
    server = ServerSettings(url="http://x")
    with pytest.raises(InvalidValueError, match="device: the backend 'openai' has no such"):
        load_backend("m", ModelSettings(backend="openai", device="cpu", server=server))
    with pytest.raises(InvalidValueError, match="server: the backend 'hf' has no such"):
        load_backend(str(tiny_model), ModelSettings(server=server))


PROBLEMS = [Problem(f"p{i}", "Print.", (TestCase(input="", output=f"{i}\n"),)) for i in range(3)]


def test_an_evaluation_survives_a_server_that_fails_for_good(tmp_path):
    settings = SamplingSettings(samples=8, max_new_tokens=4)

    def run(server, out, **changes):
        options = {"url": server.url, "backoff_s": 0.01, "retries": 1, **changes}
        return evaluated(
            "m",
            PROBLEMS,
            tmp_path / out,
            settings=settings,
            model_settings=ModelSettings("openai", batch_size=4, server=ServerSettings(**options)),
            verifier=verifier,
        )

    with Verifier(workers=1) as verifier:
        with serving([None] * 10 + [500] * 100) as server, pytest.raises(ServerError):
            run(server, "cut", concurrency=1)
        stored = (tmp_path / "cut" / "samples.jsonl").read_text().count("\n")
        assert stored == 10, "those before the failure"
        with serving() as server:  # at another address
            resumed = run(server, "cut")
            whole = run(server, "whole")
    assert resumed.manifest["samples_found"] == 10
    for part in ("metrics", "per_problem", "counts"):
        assert getattr(resumed, part) == getattr(whole, part)
    assert resumed.counts.samples == 24
    samples = [(tmp_path / out / "samples.jsonl").read_bytes() for out in ("cut", "whole")]
    assert samples[0] == samples[1]


def evaluated_with_replies(answers, tmp_path, maxatk):
    """Evaluate two samples of a problem with these replies; return the command and its results."""
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in PROBLEMS[:1]))
    flags = ("--samples", "2", "--verifier.workers", "1", "--backend", "openai", "--server.chat")
    with serving(answers) as server:
        address = ("--server.url", server.url, "--server.concurrency", "1")
        done = maxatk(
            *("eval", "--model", "m", "--problems", "p.jsonl", "--out", "run"), *flags, *address
        )
    assert done.returncode == 0, done.stderr
    return done, json.loads((tmp_path / "run" / "results.json").read_text())


def test_thoughts_that_were_cut_off_end_no_evaluation(tmp_path, maxatk):
    thought = chat_answer({"content": None, "reasoning": "```python\nprint(0)\n```"}, "length")
    answers = [thought, chat_answer({"content": "print(0)"}, "stop")]
    done, results = evaluated_with_replies(answers, tmp_path, maxatk)
    assert results["counts"]["outcomes"] == {"passed": 1, "unfinished_thought": 1}
    assert results["finish_reasons"] == {"length": 1, "stop": 1}
    assert "50.0% of the samples cut off" in done.stdout


REFUSALS = [
    ({"content": None, "refusal": None}, "content_filter", ""),
    ({"content": None}, "content_filter", ""),
    ({"content": None, "refusal": "I can't help."}, "stop", "I can't help."),
    ({"content": "", "refusal": "I can't help."}, "stop", "I can't help."),
]


@pytest.mark.parametrize(("message", "finish_reason", "text"), REFUSALS)
def test_a_chat_that_refuses_is_its_refusal(message, finish_reason, text):
    with serving([chat_answer(message, finish_reason)]) as server:
        (sample,) = draw(backend_for(server, chat=True), [0])
    assert sample == Sample("p", 0, text, tokens=8, finish_reason=finish_reason)


def test_refusals_are_wrong_answers_and_end_no_evaluation(tmp_path, maxatk):
    answers = [chat_answer(message, reason) for message, reason, _text in REFUSALS[1:3]]
    _done, results = evaluated_with_replies(answers, tmp_path, maxatk)
    assert results["metrics"]["max@k"]["2"]["mean"] == 0.0
    assert results["finish_reasons"] == {"content_filter": 1, "stop": 1}


def test_the_command_line_asks_a_server(tmp_path):
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in PROBLEMS))
    command = (sys.executable, "-m", "maxatk", "eval", "--model", "m", "--problems", "p.jsonl")
    flags = ("--out", "run", "--samples", "4", "--verifier.workers", "1", "--backend", "openai")
    with serving([429]) as server:
        done = subprocess.run(
            [*command, *flags, "--server.url", server.url, "--server.chat"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 13
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["manifest"]["settings"]["model"] == {
        "name": "openai",
        "model": "m",
        "chat": True,
        "prompt": {"template": "auto", "system": None, "template_arguments": {}},
    }


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    from maxatk.mini import MiniSettings, WarmStart, build_mini

    folder = tmp_path_factory.mktemp("mini")
    sizes = {"train_problems": 4, "test_problems": 4, "tests": 2}
    build_mini(folder, MiniSettings(**sizes, warm_start=WarmStart(problems=640, batch_size=32)))
    # This server decodes greedily, whatever the temperature, unless the model's own file says so.
    config = folder / "base" / "generation_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "do_sample": True}))
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    (folder / "base" / "chat_template.jinja").write_text(template)  # for chat; else unused
    return folder


@pytest.fixture(scope="module")
def transformers_server(mini, tmp_path_factory):
    for package in ("fastapi", "uvicorn", "openai"):
        pytest.importorskip(package, reason="transformers[serving] is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(mini / "base")]
    log = tmp_path_factory.mktemp("serve") / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_it_answers(url, process, log)
        yield f"{url}/v1"
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(url, process, log):
    deadline = time.monotonic() + patience(120)
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(f"{url}/health", timeout=patience(5)).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(f"no answer: {log.read_text()}")


@pytest.mark.long
@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_the_embedded_model_behind_a_real_server(mini, transformers_server, tmp_path, chat):
    server = ServerSettings(url=transformers_server, concurrency=2, chat=chat)
    with Verifier(workers=1) as verifier:
        results = evaluated(
            str(mini / "base"),
            mini / "test.jsonl",
            tmp_path / "run",
            settings=SamplingSettings(samples=4, max_new_tokens=16),
            model_settings=ModelSettings("openai", server=server),
            verifier=verifier,
        )
    assert results.counts.samples == 16
    rows = [json.loads(line) for line in (tmp_path / "run/samples.jsonl").open()]
    assert all(0 < row["tokens"] <= 17 for row in rows)
    assert len({row["completion"] for row in rows}) > 4
