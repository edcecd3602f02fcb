import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies

from maxatk.sampling import SamplingSettings
from maxatk.sampling.draw import draw_tokens


def kept_by_brute_force(logits, sampling):
    """The distribution that is drawn from, by sorting the whole vocabulary."""
    probs = torch.softmax(logits.double() / sampling.temperature, -1).numpy()
    order = np.argsort(-probs, kind="stable")
    kept = probs * (probs >= sampling.min_p * probs.max())
    kept /= kept.sum()
    if sampling.top_k:
        kept[order[sampling.top_k :]] = 0
        kept /= kept.sum()
    mass = 0.0
    for token in order:
        if mass >= sampling.top_p:
            kept[token] = 0
        mass += kept[token]
    return kept / kept.sum()


def drawn(logits, sampling, rows=4001):
    noise = torch.linspace(0, 1 - 2.0**-24, rows)
    return draw_tokens(logits.expand(rows, -1), noise, sampling)


@settings(max_examples=60)
@given(
    vocabulary=strategies.sampled_from([2, 7, 255, 256, 257, 1000]),
    spread=strategies.sampled_from([0.0, 0.5, 3.0, 12.0]),
    seed=strategies.integers(0, 2**16),
    cut=strategies.fixed_dictionaries(
        {},
        optional={
            "top_p": strategies.sampled_from([0.05, 0.5, 0.9, 0.999]),
            "top_k": strategies.sampled_from([1, 3, 50, 2000]),
            "min_p": strategies.sampled_from([0.001, 0.1, 0.9]),
            "temperature": strategies.sampled_from([0.3, 2.0]),
        },
    ),
)
def test_tokens_have_the_frequencies_of_a_full_sort(vocabulary, spread, seed, cut):
    generator = torch.Generator().manual_seed(seed)
    # Distinct values: which of equal tokens are kept at a boundary is settled by rounding.
    logits = spread * torch.randn(vocabulary, generator=generator)
    sampling = SamplingSettings(**cut)
    expected = kept_by_brute_force(logits, sampling)
    draws = drawn(logits, sampling)
    frequencies = np.bincount(draws.ids.numpy(), minlength=vocabulary) / 4001
    if spread:
        np.testing.assert_allclose(frequencies, expected, atol=2 / 4001)
    assert np.all(np.diff(draws.ids.numpy()) >= 0)  # the noise rises, and so do the tokens
    logp = torch.log_softmax(logits.double() / sampling.temperature, -1)
    torch.testing.assert_close(draws.logprobs.double(), logp[draws.ids], atol=1e-4, rtol=1e-4)
    entropy = -(logp.exp() * logp).sum()
    torch.testing.assert_close(draws.entropies.double(), entropy.expand(4001), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.5}, {"top_k": 3}, {"min_p": 0.2}])
def test_a_row_does_not_depend_on_the_others(cut):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn((64, 20_000), generator=generator)
    noise = torch.rand(64, generator=generator)
    together = draw_tokens(logits, noise, SamplingSettings(**cut))
    for row in (0, 17, 63):
        alone = draw_tokens(logits[row : row + 1], noise[row : row + 1], SamplingSettings(**cut))
        assert [part[row] for part in together] == [part[0] for part in alone]


@pytest.mark.parametrize("noise", [0.0, 1 - 2.0**-24])
@pytest.mark.parametrize("cut", [{}, {"top_p": 0.9999}, {"top_k": 8}])
def test_a_masked_token_is_never_drawn(noise, cut):
    logits = torch.tensor([[-torch.inf, 0.0, 1.0, 2.0] + [-torch.inf] * 300])
    draws = draw_tokens(logits, torch.tensor([noise]), SamplingSettings(**cut))
    assert draws.ids.item() == (1 if noise == 0 else 3)
    assert torch.isfinite(draws.entropies).all()


@pytest.mark.parametrize("broken", [[torch.nan] * 300, [torch.inf, 0.0] * 150, [-torch.inf] * 300])
@pytest.mark.parametrize(
    "cut", [{}, {"top_p": 0.9}, {"top_k": 8}, {"min_p": 0.1}, {"temperature": 0.0}]
)
def test_logits_that_are_no_distribution_give_nan_and_leave_the_others_alone(broken, cut):
    whole = torch.linspace(0, 3, 300).repeat(2, 1)
    noise = torch.tensor([0.2, 0.5, 0.9])
    logits = torch.stack([whole[0], torch.tensor(broken), whole[1]])
    draws = draw_tokens(logits, noise, SamplingSettings(**cut))
    assert draws.logprobs.isnan().tolist() == [False, True, False]
    assert all(0 <= token < 300 for token in draws.ids.tolist())
    expected = draw_tokens(whole, noise[[0, 2]], SamplingSettings(**cut))
    assert [part[[0, 2]].tolist() for part in draws] == [part.tolist() for part in expected]
