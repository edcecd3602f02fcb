import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from maxatk.errors import InvalidValueError, MissingDependencyError, MissingFileError
from maxatk.models import PromptSettings, fingerprint, prompt_ids
from maxatk.sampling import (
    BACKENDS,
    BackendRow,
    ModelSettings,
    SamplingSettings,
    decoder,
    load_backend,
)
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper
from maxatk.sampling.hf import HFBackend, sampling_noise
from maxatk.sampling.loop import Work
from maxatk.sampling.settings import Request
from tiny import save_tiny_model

PROMPT = "print(1)\nprint(2)\n"


@pytest.fixture(scope="module")
def backend(tiny_model):
    return HFBackend(tiny_model, ModelSettings(batch_size=8))


def draw(backend, rows=64, most=12, *, seed=0, batch=None, ends=(0,), **changes):
    """Draw rows of one prompt, all at a time or `batch` of them, in the order of their noise."""
    noise = np.random.default_rng(seed).random((rows, most), dtype=np.float32)
    settings = SamplingSettings(max_new_tokens=most, **changes)
    work = Work(prompt_ids(backend.tokenizer, PROMPT), range(rows), noise)
    backend = copy.copy(backend)
    backend.batch_size = batch or rows
    backend._end_tokens = ends
    batches = backend.rows([work], settings, Stopper(settings, backend._text))
    drawn = [row for batch in batches for row in batch]
    return sorted(drawn, key=lambda row: row.key)


def sampled(backend, problem_id, indices, settings, prompt=PROMPT):
    requests = [Request(problem_id, prompt, list(indices))]
    return [sample for batch in backend.sample(requests, settings) for sample in batch]


def distributions(backend, tokens, temperature=1.0):
    """Log-probabilities of every next token after the prompt, by one plain forward pass."""
    prompt = prompt_ids(backend.tokenizer, PROMPT)
    ids = torch.tensor([prompt + tokens])
    with torch.no_grad():
        logits = backend.model(ids).logits[0, len(prompt) - 1 : -1].double()
    return torch.log_softmax(logits / temperature, dim=-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.5])
def test_logprob_and_entropy_equal_a_plain_forward_pass(backend, temperature):
    for row in draw(backend, temperature=temperature):
        logp = distributions(backend, row.ids, temperature)
        chosen = logp[range(len(row.ids)), row.ids].sum()
        entropy = -(logp.exp() * logp).sum()
        assert row.logprob == pytest.approx(chosen.item(), abs=1e-4)
        assert row.entropy == pytest.approx(entropy.item(), abs=1e-4)


@pytest.mark.parametrize("changes", [{}, {"top_k": 3}, {"temperature": 0.0}])
def test_a_model_whose_weights_are_not_numbers_is_refused_with_its_sample(tiny_model, changes):
    broken = HFBackend(tiny_model, ModelSettings(batch_size=8))
    with torch.no_grad():
        broken.model.get_output_embeddings().weight[3] = torch.nan
    settings = SamplingSettings(samples=8, **changes)
    what = r"logits are NaN .*\('problem', 0\), token 1; so are 1 of its \d+ weights.* \S*\.weight$"
    with pytest.raises(InvalidValueError, match=what):
        sampled(broken, "problem", range(8), settings)


def test_of_logits_that_break_with_finite_weights_the_dtype_and_the_attention_are_told(tiny_model):
    large = HFBackend(tiny_model, ModelSettings(batch_size=8))
    with torch.no_grad():
        large.model.get_output_embeddings().weight[:] = 3e38
    what = "weights are finite, so another dtype than float32 or .* than sdpa may help"
    with pytest.raises(InvalidValueError, match=what):
        sampled(large, "problem", range(8), SamplingSettings(samples=8))


def test_rows_end_at_the_end_token_or_at_the_limit(backend):
    drawn = draw(backend)
    assert len({row.ended for row in drawn}) == 2
    for row in drawn:
        assert 0 not in row.ids[:-1]
        assert (row.ids[-1] == 0) == row.ended
        assert row.ended or len(row.ids) == 12


def test_tokens_are_drawn_from_the_model(backend):
    rows = 20_000
    drawn = draw(backend, rows=rows, most=1)
    expected = distributions(backend, [3])[0].exp().numpy()
    frequencies = np.bincount([row.ids[0] for row in drawn], minlength=len(expected)) / rows
    np.testing.assert_allclose(frequencies, expected, atol=4 * 0.5 / rows**0.5)


def test_temperature_zero_takes_the_most_probable_token(backend):
    drawn = draw(backend, rows=3, most=5, temperature=0.0)
    ids = drawn[0].ids
    assert ids == distributions(backend, ids).argmax(-1).tolist()
    assert all(row.ids == ids for row in drawn)


def test_a_long_completion_outgrows_the_reserved_cache(tmp_path):
    folder = save_tiny_model(tmp_path, max_position_embeddings=256)
    backend = HFBackend(folder, ModelSettings(batch_size=4))
    drawn = draw(backend, rows=4, most=150, ends=())
    assert [len(row.ids) for row in drawn] == [150] * 4
    logp = distributions(backend, drawn[2].ids)
    chosen = logp[range(150), drawn[2].ids].sum()
    assert drawn[2].logprob == pytest.approx(chosen.item(), abs=1e-3)


def test_the_batch_is_full_until_the_queue_is_empty(backend, monkeypatch):
    widths = []
    step = Decoder.step

    def counted(self, tokens):
        widths.append(sum(prompt is not None for prompt in self._prompts))
        return step(self, tokens)

    monkeypatch.setattr(Decoder, "step", counted)
    requests = [Request(f"p{i}", PROMPT * (1 + i % 3), [0]) for i in range(60)]
    settings = SamplingSettings(max_new_tokens=6, samples=1)
    samples = [sample for batch in backend.sample(requests, settings) for sample in batch]
    assert [sample.problem_id for sample in samples] == [f"p{i}" for i in range(60)]
    full = widths[: -settings.max_new_tokens]
    assert len(full) > 10
    assert min(full) >= 7  # of 8


def test_the_cache_is_not_copied_for_every_prompt_that_comes(tiny_model, monkeypatch):
    backend = HFBackend(tiny_model, ModelSettings(batch_size=100))
    resized = 0

    def counted(*arguments):
        nonlocal resized
        resized += 1
        return pad(*arguments)

    monkeypatch.setattr(decoder, "pad", counted)
    requests = [Request(f"p{i}", PROMPT, [0]) for i in range(100)]
    settings = SamplingSettings(max_new_tokens=2, samples=1)
    assert sum(len(batch) for batch in backend.sample(requests, settings)) == 100
    assert resized == 2 * 2  # keys and values of two layers, once


@pytest.mark.parametrize("samples", [1, 3, 20])
@pytest.mark.parametrize("other_size", [1, 3, 5, 64])
def test_no_bit_depends_on_the_batch_size_or_on_what_is_drawn_beside(
    tiny_model, samples, other_size
):
    settings = SamplingSettings(max_new_tokens=6, samples=samples, seed=3)
    requests = [Request(f"p{i}", PROMPT * (1 + i % 3), range(samples)) for i in range(7)]

    def draw_all(batch_size, requests):
        backend = HFBackend(tiny_model, ModelSettings(batch_size=batch_size))
        return [sample for batch in backend.sample(requests, settings) for sample in batch]

    whole = draw_all(8, requests)
    assert draw_all(other_size, requests) == whole
    fewer_requests = [
        Request(r.problem_id, r.prompt, range(samples - 1, samples)) for r in requests[3:]
    ]
    assert draw_all(other_size, fewer_requests) == [
        sample for sample in whole if sample.sample == samples - 1 and sample.problem_id >= "p3"
    ]


def test_samples_come_in_the_order_asked_for(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20, seed=3)
    everything = sampled(backend, "a", range(20), settings)
    assert sampled(backend, "a", [13, 2, 19], settings) == [
        everything[13],
        everything[2],
        everything[19],
    ]
    assert [s.sample for s in everything] == list(range(20))


def test_seed_and_problem_change_the_samples(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20)
    texts = {
        tuple(s.completion for s in sampled(backend, name, range(20), chosen))
        for name in ("a", "b")
        for chosen in (settings, SamplingSettings(max_new_tokens=6, samples=20, seed=1))
    }
    assert len(texts) == 4


def test_noise_rows_are_stable():
    settings = SamplingSettings(max_new_tokens=5)
    np.testing.assert_array_equal(
        sampling_noise("p", 3, settings), sampling_noise("p", 9, settings)[:3]
    )


def test_record_of_a_sample(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20)
    for sample in sampled(backend, "a", range(20), settings):
        assert sample.finish_reason in ("stop", "length")
        assert 1 <= sample.tokens <= 6
        assert sample.logprob < 0 < sample.entropy
        assert "<eos>" not in sample.completion


def test_the_saved_tokenizer_is_loaded_as_it_is(tiny_model, backend):
    from tokenizers import Tokenizer

    saved = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    assert prompt_ids(backend.tokenizer, PROMPT) == saved.encode(PROMPT).ids == [4, 3, 5, 3]
    assert backend.tokenizer.decode(prompt_ids(backend.tokenizer, PROMPT)) == PROMPT


def test_a_chat_template_makes_a_user_turn(tiny_model):
    backend = HFBackend(tiny_model, ModelSettings())
    backend.tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'][0] and '#' }}{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}print(3){% endif %}"
    )
    assert prompt_ids(backend.tokenizer, "print(1)") == [6, 4, 8]


def test_missing_model_is_refused_before_work(tmp_path):
    with pytest.raises(MissingFileError, match="there is no folder"):
        load_backend(str(tmp_path / "nothing"), ModelSettings())
    with pytest.raises(MissingFileError, match=r"no config\.json"):
        load_backend(str(tmp_path), ModelSettings())


def test_loading_a_model_prints_nothing(tiny_model, capfd):
    HFBackend(tiny_model, ModelSettings())
    assert capfd.readouterr() == ("", "")


def test_prompts_that_do_not_fit_are_refused(backend):
    settings = SamplingSettings(max_new_tokens=61)
    with pytest.raises(InvalidValueError, match=r"'long': prompt of 4 tokens.*context of 64"):
        backend.prepare({"long": PROMPT}, settings)
    with pytest.raises(InvalidValueError, match="'empty': the prompt has no tokens"):
        backend.prepare({"empty": ""}, settings)


def test_bad_arguments_are_refused(tiny_model, backend):
    with pytest.raises(InvalidValueError, match="batch_size"):
        ModelSettings(batch_size=0)
    with pytest.raises(InvalidValueError, match=r"sample index: must be in \[0, 256\), got 256"):
        sampled(backend, "a", [256], SamplingSettings())
    with pytest.raises(InvalidValueError, match="device: must be None beside the device map"):
        HFBackend(tiny_model, ModelSettings(device="cpu", device_map="auto"))
    with pytest.raises(InvalidValueError, match="did you mean 'hf'"):
        load_backend(str(tiny_model), ModelSettings(backend="hff"))


def test_missing_package_names_the_extra(monkeypatch):
    row = BackendRow("maxatk_no_such_module:Nothing", has_files=False)
    monkeypatch.setitem(BACKENDS, "gone", row)
    with pytest.raises(MissingDependencyError, match=r"maxatk\[eval\]"):
        load_backend("x", ModelSettings(backend="gone"))


def test_fingerprint_tells_weights_apart(tiny_model, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    weights = bytearray((tiny_model / "model.safetensors").read_bytes())
    (copy / "model.safetensors").write_bytes(weights)
    assert fingerprint(copy) == fingerprint(tiny_model)
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert fingerprint(copy) != fingerprint(tiny_model)
    assert fingerprint("org/name") is None


def test_automatic_batch_size_is_a_power_of_two(tiny_model):
    backend = HFBackend(tiny_model, ModelSettings())
    backend.prepare({"a": PROMPT}, SamplingSettings(max_new_tokens=8))
    assert json.loads(json.dumps(backend.describe()))["batch_size"] in [1 << i for i in range(9)]


def other_model(name):
    """A tiny model of another architecture, over the tiny vocabulary."""
    import transformers

    shape = {"vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 1, "intermediate_size": 32, "head_dim": 8}
    ends = {"eos_token_id": 0, "pad_token_id": 1, "bos_token_id": None}
    changes = {
        "GPT2": {},
        "Gemma2": {**more, "sliding_window": 4, "query_pre_attn_scalar": 8},
        "Mistral": {**more, "sliding_window": 4},
    }.get(name, more)
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**shape, **changes, **ends)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(
    ("name", "keeps_full"),
    [
        *((name, True) for name in ("Llama", "Qwen3", "Phi3", "Olmo2", "Granite", "GPT2")),
        *((name, False) for name in ("Gemma2", "Mistral")),
    ],
)
def test_other_architectures_draw_what_a_plain_forward_pass_says(
    tiny_model, tmp_path, name, keeps_full
):
    other_model(name).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((tiny_model / file).read_bytes())
    backend = HFBackend(tmp_path, ModelSettings(batch_size=5, dtype="float32"))
    assert backend.keeps_full == keeps_full
    drawn = draw(backend, rows=12, batch=5)
    assert len({len(row.ids) for row in drawn}) > 1
    for row in drawn:
        logp = distributions(backend, row.ids)
        chosen = logp[range(len(row.ids)), row.ids].sum().item()
        assert row.logprob == pytest.approx(chosen, abs=1e-3)


def test_a_config_within_a_config_is_found(backend, monkeypatch):
    text = backend.model.config

    class Nested:
        def get_text_config(self):
            return text

    monkeypatch.setattr(backend.model, "config", Nested())
    with pytest.raises(InvalidValueError, match="context of 64"):
        backend.prepare({"long": PROMPT}, SamplingSettings(max_new_tokens=61))
    assert backend._fitting_batch_size(4, SamplingSettings(max_new_tokens=8)) >= 1


@pytest.fixture(scope="module")
def adapter(tiny_model, tmp_path_factory):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    lora = LoraConfig(r=4, init_lora_weights=False, target_modules=["q_proj", "down_proj"])
    adapted = get_peft_model(model, lora)
    folder = tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(folder)
    return folder, adapted.eval()


def test_an_adapter_is_part_of_the_model(tiny_model, adapter):
    folder, adapted = adapter
    backend = HFBackend(tiny_model, ModelSettings(batch_size=4, adapter=str(folder)))
    ids = torch.tensor([prompt_ids(backend.tokenizer, PROMPT)])
    with torch.no_grad():
        torch.testing.assert_close(backend.model(ids).logits, adapted(ids).logits)
    described = backend.describe()
    assert described["adapter"] == str(folder)
    assert described["adapter_weights"] == fingerprint(folder) is not None


def test_an_adapter_of_another_model_is_refused(adapter, tiny_model, tmp_path):
    other = save_tiny_model(tmp_path / "wide", hidden_size=32)
    fewer = save_tiny_model(tmp_path / "fewer", num_hidden_layers=1)
    for model in (other, fewer):
        with pytest.raises(InvalidValueError, match=r"^adapter: .* is not of this model: [^\n]*$"):
            HFBackend(model, ModelSettings(adapter=str(adapter[0])))
    with pytest.raises(MissingFileError, match=r"holds no adapter_config\.json"):
        HFBackend(tiny_model, ModelSettings(adapter=str(tiny_model)))


def test_a_special_token_ends_a_completion_as_a_stop_text_does(backend):
    drawn = draw(backend)
    stopped = draw(backend, stop=("<pad>",))
    pad = backend.tokenizer.pad_token_id
    for whole, cut in zip(drawn, stopped, strict=True):
        ends = whole.ids.index(pad) + 1 if pad in whole.ids else len(whole.ids)
        assert cut.ids == whole.ids[:ends]
        assert cut.ended == (whole.ended or pad in whole.ids)
    assert sum(pad in row.ids for row in drawn) > 10


@pytest.mark.parametrize("settings", [{"stop": ["(2)"]}, {"stop": ["zzz", "#", "1/0"]}])
def test_a_completion_ends_before_a_stop_text(backend, settings):
    plain = SamplingSettings(max_new_tokens=12, samples=64)
    stopped = dataclasses.replace(plain, **settings)
    whole = sampled(backend, "p", range(64), plain)
    cut = sampled(backend, "p", range(64), stopped)
    shorter = 0
    for before, after in zip(whole, cut, strict=True):
        ends = [before.completion.find(s) for s in stopped.stop if s in before.completion]
        expected = before.completion[: min(ends)] if ends else before.completion
        assert after.completion == expected
        assert after.finish_reason == ("stop" if ends else before.finish_reason)
        shorter += after.tokens < before.tokens
    assert shorter > 10


def test_the_prompt_may_have_a_system_turn_arguments_and_a_template_of_its_own(
    tiny_model, tmp_path
):
    template = tmp_path / "template.jinja"
    template.write_text(
        "{% for m in messages %}{{ '#' if m['role'] == 'system' else '\n' }}{{ m['content'] }}"
        "{% endfor %}{% if loud %}1/0{% endif %}"
    )
    prompt = PromptSettings(str(template), system="print(3)", template_arguments={"loud": True})
    backend = HFBackend(tiny_model, ModelSettings(prompt=prompt))
    assert backend._prompt_ids("print(1)") == [6, 8, 3, 4, 7]
    described = backend.describe()["prompt"]
    assert described["template"].startswith("sha256:")
    assert described["system"] == "print(3)"
    plain = HFBackend(tiny_model, ModelSettings(prompt=PromptSettings("none")))
    assert plain._prompt_ids("print(1)") == [4]


def test_prompt_settings_that_cannot_be_are_refused(tiny_model, tmp_path):
    with pytest.raises(InvalidValueError, match="neither a system turn nor"):
        PromptSettings("none", system="x")
    with pytest.raises(InvalidValueError, match="template_arguments: must be a mapping, got 'x'"):
        PromptSettings(template_arguments="x")
    with pytest.raises(InvalidValueError, match="engine: must be a mapping, got 4"):
        ModelSettings(engine=4)
    with pytest.raises(MissingFileError, match="there is no file 'nowhere'"):
        PromptSettings("nowhere")
    with pytest.raises(InvalidValueError, match="has no chat template for a system turn"):
        HFBackend(tiny_model, ModelSettings(prompt=PromptSettings(system="x")))
    broken = tmp_path / "broken.jinja"
    broken.write_text("{{ raise_exception('no system turns here') }}")
    backend = HFBackend(tiny_model, ModelSettings(prompt=PromptSettings(str(broken))))
    with pytest.raises(InvalidValueError, match="template fails: no system turns here"):
        backend.prepare({"p": "print(1)"}, SamplingSettings(max_new_tokens=4))


def test_no_bit_depends_on_how_long_the_rows_beside_are(tmp_path):
    folder = save_tiny_model(tmp_path, max_position_embeddings=512)
    settings = SamplingSettings(max_new_tokens=70, samples=1)
    lengths = [3, 60, 190, 20, 250, 126, 5, 80, 61, 300, 9, 2]
    requests = [Request(f"p{n}", "print(1)" * n, [0]) for n in lengths]

    def draw_all(batch_size, requests):
        backend = HFBackend(folder, ModelSettings(batch_size=batch_size))
        samples = [sample for batch in backend.sample(requests, settings) for sample in batch]
        return {sample.problem_id: sample for sample in samples}

    whole = draw_all(12, requests)
    assert draw_all(4, requests) == whole
    assert draw_all(5, requests[::-1]) == whole
    assert draw_all(3, requests[:1]) == {"p3": whole["p3"]}
