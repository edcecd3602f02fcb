"""The vllm backend against the real engine, and against the hf backend."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.models import PromptSettings
from maxatk.problems import load_problems
from maxatk.sampling import ModelSettings, SamplingSettings, load_backend
from maxatk.sampling.settings import Request, sample_seed
from processes import family, patience, still_alive

ENGINE = {"enforce_eager": True}


@pytest.fixture(scope="module")
def problems(mini):
    return load_problems(mini / "test.jsonl")


@pytest.fixture(scope="module")
def backend(mini):
    settings = ModelSettings("vllm", engine=ENGINE)
    return load_backend(str(mini / "base"), settings)


@pytest.fixture(scope="module")
def hf(mini):
    return load_backend(str(mini / "base"), ModelSettings("hf", batch_size=256))


def drawn(backend, requests, settings):
    return [sample for batch in backend.sample(requests, settings) for sample in batch]


def requests_of(problems, indices):
    return [Request(problem.id, problem.prompt, indices) for problem in problems]


def test_a_batch_of_256_rows_is_drawn_with_seeds(backend, problems):
    settings = SamplingSettings(samples=256, max_new_tokens=16)
    assert backend.batch_size == 256
    samples = drawn(backend, requests_of(problems[:1], range(256)), settings)
    assert [sample.sample for sample in samples] == list(range(256))
    assert len({sample.completion for sample in samples}) > 64


def test_samples_do_not_depend_on_order_subsets_or_other_problems(backend, problems):
    settings = SamplingSettings(samples=16, max_new_tokens=24)
    whole = drawn(backend, requests_of(problems, range(16)), settings)
    assert [(s.problem_id, s.sample) for s in whole] == [
        (problem.id, index) for problem in problems for index in range(16)
    ]
    texts = {(s.problem_id, s.sample): s.completion for s in whole}
    drawn_rows = drawn(backend, requests_of(problems[::-1], [11, 3]), settings)
    assert [s.sample for s in drawn_rows[:2]] == [11, 3]
    assert [texts[s.problem_id, s.sample] for s in drawn_rows] == [s.completion for s in drawn_rows]


def test_prompt_ids_and_the_distribution_are_those_of_hf(backend, hf, problems):
    settings = SamplingSettings(samples=256, max_new_tokens=24)
    for problem in problems:
        assert backend._prompt_ids(problem.prompt) == hf._prompt_ids(problem.prompt)
    # The mean log-probability of a completion under the model, over 4 x 256 of each.
    means = []
    errors = []
    for sampler in (backend, hf):
        samples = drawn(sampler, requests_of(problems[:4], range(256)), settings)
        values = np.array([sample.logprob for sample in samples])
        means.append(values.mean())
        errors.append(values.var() / len(values))
    assert abs(means[0] - means[1]) < 4 * sum(errors) ** 0.5


def compare_log_probabilities(backend, model, problem, settings):
    """Compare a sample's `logprob` with a plain forward pass of the model over its tokens."""
    import torch

    from maxatk.sampling.vllm import _parameters

    samples = drawn(backend, requests_of([problem], range(8)), settings)
    prompt = backend._prompt_ids(problem.prompt)
    seeds = [sample_seed(settings.seed, problem.id, index) for index in range(8)]
    outputs = backend.engine.generate(  # the same again, with the token ids
        [{"prompt_token_ids": prompt}] * 8,
        [_parameters(settings, seed) for seed in seeds],
        lora_request=backend._adapter,
    )
    for sample, output in zip(samples, outputs, strict=True):
        (completion,) = output.outputs
        assert completion.text == sample.completion
        ids = list(completion.token_ids)
        with torch.no_grad():
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        logp = torch.log_softmax(logits.double(), -1)[range(len(ids)), ids].sum().item()
        assert sample.logprob == pytest.approx(logp, abs=2e-3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_log_probabilities_are_those_of_a_plain_forward_pass(backend, hf, problems, temperature):
    settings = SamplingSettings(samples=8, max_new_tokens=24, temperature=temperature)
    compare_log_probabilities(backend, hf.model, problems[0], settings)


def test_the_manifest_says_what_the_engine_made_of_the_settings(backend):
    described = json.loads(json.dumps(backend.describe()))
    assert described["dtype"] == "float32"  # that of the files; the engine alone takes bfloat16
    assert described["engine"] == ENGINE
    assert described["device"] == "cpu"
    assert described["context"] == 128


def test_what_the_engine_would_refuse_or_cut_in_mid_run_is_refused_before(backend):
    def check(prompt, **changes):
        backend.prepare({"p": prompt}, SamplingSettings(**{"max_new_tokens": 16, **changes}))

    with pytest.raises(InvalidValueError, match=r"'p': prompt of .* exceed the model's context"):
        check("print(1)\n" * 60)
    with pytest.raises(InvalidValueError, match="exceed the model's context of 128"):
        check("print(1)\n", max_new_tokens=126)
    with pytest.raises(InvalidValueError, match="the prompt has no tokens"):
        check("")
    with pytest.raises(InvalidValueError, match="temperature: must be 2 at most"):
        check("print(1)\n", temperature=2.5)
    with pytest.raises(InvalidValueError, match="stop_at_fence"):
        check("print(1)\n", stop_at_fence=True)


def test_cuts_and_stops_are_obeyed(backend, problems):
    request = requests_of(problems[:1], range(32))
    greedy = SamplingSettings(samples=32, max_new_tokens=16, temperature=0.0)
    one = SamplingSettings(samples=32, max_new_tokens=16, top_k=1)
    assert [s.completion for s in drawn(backend, request, one)] == [
        s.completion for s in drawn(backend, request, greedy)
    ]
    plain = SamplingSettings(samples=32, max_new_tokens=16)
    stopped = SamplingSettings(samples=32, max_new_tokens=16, stop=("\n",))
    for before, after in zip(
        drawn(backend, request, plain), drawn(backend, request, stopped), strict=True
    ):
        assert after.completion == before.completion.partition("\n")[0]


# From here on tests start engines of their own, or none, and nothing uses the fixture `backend`: an
# engine of vLLM that ends takes along what others of its process share.


def test_a_special_token_ends_a_completion_as_a_stop_text_does(mini, problems, tmp_path):
    """No text has it: a special token is left out where tokens become text."""
    from transformers import AutoTokenizer

    folder = shutil.copytree(mini / "base", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # A token of the vocabulary whose text no other token has.
    tokenizer.add_special_tokens({"additional_special_tokens": ["1"]})
    tokenizer.save_pretrained(folder)
    backend = load_backend(str(folder), ModelSettings("vllm", engine=ENGINE))
    request = requests_of(problems[:1], range(64))
    plain = SamplingSettings(samples=64, max_new_tokens=16, temperature=2.0)
    stopped = dataclasses.replace(plain, stop=("1",))
    pairs = list(zip(drawn(backend, request, plain), drawn(backend, request, stopped), strict=True))
    assert all(whole.completion.startswith(cut.completion) for whole, cut in pairs)
    earlier = [cut for whole, cut in pairs if cut.tokens < whole.tokens]
    assert len(earlier) > 3
    assert {cut.finish_reason for cut in earlier} == {"stop"}


def test_an_adapter_is_applied_as_by_peft(mini, hf, problems, tmp_path):
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    def base():
        return AutoModelForCausalLM.from_pretrained(mini / "base")

    torch.manual_seed(0)
    lora = LoraConfig(r=4, lora_alpha=16, init_lora_weights=False, target_modules="all-linear")
    get_peft_model(base(), lora).save_pretrained(tmp_path / "adapter")
    adapted = PeftModel.from_pretrained(base(), tmp_path / "adapter").eval()
    prompt = torch.tensor([hf._prompt_ids(problems[0].prompt)])
    with torch.no_grad():
        apart = (adapted(prompt).logits - hf.model(prompt).logits).abs().max()
    assert apart > 0.1, "the adapter changes nothing"
    settings = ModelSettings("vllm", engine=ENGINE, adapter=str(tmp_path / "adapter"))
    backend = load_backend(str(mini / "base"), settings)
    assert backend.describe()["adapter"] == str(tmp_path / "adapter")
    sampling = SamplingSettings(samples=8, max_new_tokens=24)
    compare_log_probabilities(backend, adapted, problems[0], sampling)


def test_an_adapter_of_another_model_is_refused(mini, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig

    names = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 24}
    other = AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=64, **names))
    get_peft_model(other, LoraConfig(r=4, target_modules="all-linear")).save_pretrained(tmp_path)
    with pytest.raises(InvalidValueError, match=r"^adapter: .* is not of this model: "):
        load_backend(str(mini / "base"), ModelSettings("vllm", adapter=str(tmp_path)))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"dtype": "float16"}, r"engine\.dtype: is decided by maxatk"),
        ({"tensor_paralel_size": 1}, "engine: vLLM does not start with .*tensor_paralel_size"),
        ({"max_model_len": 1000}, "engine: vLLM does not start with"),
    ],
)
def test_engine_settings_that_cannot_be_are_one_line(mini, engine, message):
    with pytest.raises(InvalidValueError, match=message) as caught:
        load_backend(str(mini / "base"), ModelSettings("vllm", engine={**ENGINE, **engine}))
    assert "\n" not in str(caught.value)


def test_a_template_makes_the_prompt_of_hf(mini, tmp_path, problems):
    template = tmp_path / "template.jinja"
    template.write_text("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    prompt = PromptSettings(str(template), system="# print")
    ours = load_backend(str(mini / "base"), ModelSettings("vllm", engine=ENGINE, prompt=prompt))
    theirs = load_backend(str(mini / "base"), ModelSettings("hf", prompt=prompt))
    ids = ours._prompt_ids(problems[0].prompt)
    assert ids == theirs._prompt_ids(problems[0].prompt)
    assert ids != theirs.tokenizer(problems[0].prompt)["input_ids"]


def test_kill_leaves_no_process_and_the_same_command_ends_with_the_same_samples(mini, tmp_path):
    def command(out):
        flags = ("--samples", "256", "--max-new-tokens", "24", "--verifier.workers", "1")
        where = ("--model", mini / "base", "--problems", mini / "test.jsonl", "--out", out)
        more = ("--progress", "json", "engine.enforce_eager=true")
        return [
            *(sys.executable, "-m", "maxatk", "eval", "--backend", "vllm"),
            *map(str, (*where, *flags, *more)),
        ]

    done = subprocess.run(command(tmp_path / "whole"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        json.loads(line)  # vLLM's own messages are not on standard output
    cut = tmp_path / "cut" / "samples.jsonl"
    process = subprocess.Popen(
        command(tmp_path / "cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + patience(120)
    while not (cut.exists() and cut.stat().st_size > 20_000):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    members = family(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert still_alive(members, seconds=15) == []
    count = cut.read_bytes().count(b"\n")
    assert 0 < count < 12 * 256
    again = subprocess.run(command(tmp_path / "cut"), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert texts(cut) == texts(tmp_path / "whole" / "samples.jsonl")


def texts(path):
    rows = [json.loads(line) for line in path.open()]
    return [(row["problem_id"], row["sample"], row["completion"]) for row in rows]
