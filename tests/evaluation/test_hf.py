import json

import numpy as np
import pytest
import torch

from maxatk.errors import InvalidValueError, MissingDependencyError, MissingFileError
from maxatk.evaluation import BACKENDS, ModelSettings, SamplingSettings, load_backend
from maxatk.evaluation.backends.hf import HFBackend, sampling_noise
from maxatk.evaluation.backends.loop import sample_rows
from maxatk.models import fingerprint, prompt_ids

PROMPT = "print(1)\nprint(2)\n"


@pytest.fixture(scope="module")
def backend(tiny_model):
    return HFBackend(str(tiny_model), batch_size=8)


def draw(backend, rows=64, most=12, *, temperature=1.0, top_p=1.0, seed=0):
    noise = np.random.default_rng(seed).random((rows, most), dtype=np.float32)
    return sample_rows(
        backend.model,
        torch.tensor([prompt_ids(backend.tokenizer, PROMPT)]),
        torch.from_numpy(noise),
        end_tokens=torch.tensor([0]),
        temperature=temperature,
        top_p=top_p,
    )


def distributions(backend, tokens, temperature=1.0):
    """Log-probabilities of every next token after the prompt, by one plain forward pass."""
    prompt = prompt_ids(backend.tokenizer, PROMPT)
    ids = torch.tensor([prompt + tokens])
    with torch.no_grad():
        logits = backend.model(ids).logits[0, len(prompt) - 1 : -1].double()
    return torch.log_softmax(logits / temperature, dim=-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.5])
def test_logprob_and_entropy_equal_a_plain_forward_pass(backend, temperature):
    drawn = draw(backend, temperature=temperature)
    for row in range(64):
        tokens = drawn.tokens[row, : drawn.lengths[row]].tolist()
        logp = distributions(backend, tokens, temperature)
        chosen = logp[range(len(tokens)), tokens].sum()
        entropy = -(logp.exp() * logp).sum()
        assert drawn.logprobs[row].item() == pytest.approx(chosen.item(), abs=1e-4)
        assert drawn.entropies[row].item() == pytest.approx(entropy.item(), abs=1e-4)


def test_rows_end_at_the_end_token_or_at_the_limit(backend):
    drawn = draw(backend)
    assert drawn.ended.any()
    assert not drawn.ended.all()
    for row in range(64):
        tokens = drawn.tokens[row, : drawn.lengths[row]].tolist()
        assert 0 not in tokens[:-1]
        assert (tokens[-1] == 0) == bool(drawn.ended[row])
        assert drawn.ended[row] or len(tokens) == 12


def test_tokens_are_drawn_from_the_model(backend):
    rows = 20_000
    drawn = draw(backend, rows=rows, most=1)
    expected = distributions(backend, [3])[0].exp().numpy()
    seen = np.bincount(drawn.tokens[:, 0].numpy(), minlength=len(expected)) / rows
    np.testing.assert_allclose(seen, expected, atol=4 * 0.5 / rows**0.5)


def test_top_p_keeps_the_smallest_set_with_that_mass(backend):
    probs = distributions(backend, [3])[0].exp().numpy()
    order = np.argsort(-probs)
    kept = order[: np.searchsorted(probs[order].cumsum(), 0.6) + 1]
    drawn = draw(backend, rows=5000, most=1, top_p=0.6)
    seen = np.bincount(drawn.tokens[:, 0].numpy(), minlength=len(probs)) / 5000
    assert set(np.flatnonzero(seen)) == set(kept)
    np.testing.assert_allclose(seen[kept], probs[kept] / probs[kept].sum(), atol=0.04)


def test_temperature_zero_takes_the_most_probable_token(backend):
    drawn = draw(backend, rows=3, most=5, temperature=0.0)
    length = int(drawn.lengths[0])
    tokens = drawn.tokens[0, :length].tolist()
    assert tokens == distributions(backend, tokens).argmax(-1).tolist()
    assert (drawn.tokens == drawn.tokens[0]).all()


def test_noise_of_almost_one_draws_a_possible_token():
    from maxatk.evaluation.backends.loop import _draw

    logits = torch.tensor([[0.0, 1.0, 2.0] + [-torch.inf] * 5])
    noise = torch.tensor([1 - 2.0**-24])
    logp = torch.log_softmax(logits, dim=-1)
    assert _draw(logp, noise, temperature=1.0, top_p=1.0).item() == 2
    assert _draw(logp, torch.tensor([0.0]), temperature=1.0, top_p=1.0).item() == 0


def test_a_long_completion_outgrows_the_reserved_cache(backend):
    drawn = sample_rows(
        backend.model,
        torch.tensor([prompt_ids(backend.tokenizer, PROMPT)]),
        torch.rand((4, 50), generator=torch.Generator().manual_seed(0)),
        end_tokens=torch.tensor([], dtype=torch.long),
        temperature=1.0,
        top_p=1.0,
    )
    assert drawn.lengths.tolist() == [50] * 4
    logp = distributions(backend, drawn.tokens[2].tolist())
    chosen = logp[range(50), drawn.tokens[2]].sum()
    assert drawn.logprobs[2].item() == pytest.approx(chosen.item(), abs=1e-3)


def test_samples_do_not_depend_on_what_else_is_drawn(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20, seed=3)
    everything = backend.sample("a", PROMPT, range(20), settings)
    backend.sample("b", PROMPT, range(20), settings)
    assert backend.sample("a", PROMPT, [13, 2, 19], settings) == [
        everything[13],
        everything[2],
        everything[19],
    ]
    assert [s.sample for s in everything] == list(range(20))


def test_seed_and_problem_change_the_samples(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20)
    texts = {
        tuple(s.completion for s in backend.sample(name, PROMPT, range(20), chosen))
        for name in ("a", "b")
        for chosen in (settings, SamplingSettings(max_new_tokens=6, samples=20, seed=1))
    }
    assert len(texts) == 4


def test_batch_size_changes_nothing_but_rounding(tiny_model, backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20)
    other = HFBackend(str(tiny_model), batch_size=3)
    ours = backend.sample("a", PROMPT, range(20), settings)
    theirs = other.sample("a", PROMPT, range(20), settings)
    assert [s.completion for s in ours] == [s.completion for s in theirs]


def test_noise_rows_are_stable():
    settings = SamplingSettings(max_new_tokens=5)
    np.testing.assert_array_equal(
        sampling_noise("p", 3, settings), sampling_noise("p", 9, settings)[:3]
    )


def test_record_of_a_sample(backend):
    settings = SamplingSettings(max_new_tokens=6, samples=20)
    for sample in backend.sample("a", PROMPT, range(20), settings):
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
    backend = HFBackend(str(tiny_model))
    backend.tokenizer.chat_template = (
        "{% for m in messages %}{{ m['role'][0] and '#' }}{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}print(3){% endif %}"
    )
    assert prompt_ids(backend.tokenizer, "print(1)") == [6, 4, 8]


def test_missing_model_is_refused_before_work(tmp_path):
    with pytest.raises(MissingFileError, match="there is no folder"):
        HFBackend(str(tmp_path / "nothing"))
    with pytest.raises(MissingFileError, match=r"no config\.json"):
        HFBackend(str(tmp_path))


def test_loading_a_model_prints_nothing(tiny_model, capfd):
    HFBackend(str(tiny_model))
    assert capfd.readouterr() == ("", "")


def test_prompts_that_do_not_fit_are_refused(backend):
    settings = SamplingSettings(max_new_tokens=61)
    with pytest.raises(InvalidValueError, match=r"'long': prompt of 4 tokens.*context of 64"):
        backend.check({"long": PROMPT}, settings)
    with pytest.raises(InvalidValueError, match="'empty': the prompt has no tokens"):
        backend.check({"empty": ""}, settings)


def test_bad_arguments_are_refused(tiny_model, backend):
    with pytest.raises(InvalidValueError, match="batch_size"):
        HFBackend(str(tiny_model), batch_size=0)
    with pytest.raises(InvalidValueError, match=r"sample index: must be in \[0, 256\), got 256"):
        backend.sample("a", PROMPT, [256], SamplingSettings())
    with pytest.raises(InvalidValueError, match="did you mean 'hf'"):
        load_backend(str(tiny_model), ModelSettings(backend="hff"))


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(BACKENDS, "gone", "maxatk_no_such_module:Nothing")
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
    backend = HFBackend(str(tiny_model))
    backend.check({"a": PROMPT}, SamplingSettings(max_new_tokens=8))
    assert json.loads(json.dumps(backend.describe()))["batch_size"] in [1 << i for i in range(9)]
