"""What a step of the sampling loop costs, counted with PyTorch's dispatcher: a GPU would pay it."""

import collections

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from maxatk.sampling import ModelSettings, SamplingSettings, loop, prompt_states
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper
from maxatk.sampling.hf import HFBackend
from maxatk.sampling.loop import Loop, Work
from maxatk.sampling.prompt_states import shares
from maxatk.sampling.settings import Request
from tiny import save_tiny_model

VIEWS = {"view", "_unsafe_view", "transpose", "expand", "slice", "select", "unsqueeze", "t"}
VIEWS |= {"detach", "alias", "split", "squeeze", "unbind", "permute", "as_strided"}
COPIES = {"copy_", "clone", "_to_copy", "contiguous"}
PROMPT_TOKENS = 100
ROWS = 8
LAYERS = 2
POSITIONS = 192  # of a row: its prompt and what it draws, in multiples of 64


class Counted(TorchDispatchMode):
    """The operations that launch a kernel, and the elements that each copy writes.

    A product of a tensor with gaps copies it first, within its kernel.
    """

    def __init__(self):
        super().__init__()
        self.launched = collections.Counter()
        self.copied = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name not in VIEWS:
            self.launched[name] += 1
        if name in COPIES:
            self.copied.append(result.numel())
        if name == "bmm":
            gaps = [part for part in args if not (part.is_contiguous() or part.mT.is_contiguous())]
            self.copied += [part.numel() for part in gaps]
        return result


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = save_tiny_model(tmp_path_factory.mktemp("long"), max_position_embeddings=256)
    return HFBackend(folder, ModelSettings(batch_size=ROWS)).model


def stepped(model, *, prompts, shared, steps=3, counted=1):
    """Take steps of rows that are dealt over prompts, and count the last ones."""
    decoder = Decoder(model, rows=ROWS, shared=shared)
    with torch.no_grad():  # in inference mode the dispatcher would not show what is in a matmul
        evaluated = decoder.evaluate([[3 + i % 4] * PROMPT_TOKENS for i in range(prompts)])
        decoder.admit(range(ROWS), [evaluated[row % prompts] for row in range(ROWS)])
        tokens = torch.full((ROWS,), 4)
        for _ in range(steps - counted):
            decoder.step(tokens)
        with Counted() as count:
            for _ in range(counted):
                decoder.step(tokens)
    return count


def test_a_step_copies_no_cache_of_rows_with_prompts_of_their_own(model):
    copied = stepped(model, prompts=ROWS, shared=False).copied
    cache = ROWS * POSITIONS * 8  # one key/value head of size 8, in one layer
    assert max(copied, default=0) < cache / 4


def test_a_shared_prompt_costs_at_most_eight_launches_a_layer(model):
    counts = [
        sum(stepped(model, prompts=prompts, shared=True).launched.values()) for prompts in (1, 2, 4)
    ]
    for before, after, more in zip(counts, counts[1:], (1, 2), strict=False):
        assert after - before <= 8 * LAYERS * more


def test_on_a_gpu_shared_prompts_are_launched_together(model, monkeypatch):
    monkeypatch.setattr(prompt_states, "_stacks_prompts", lambda device: True)
    counts = [
        sum(stepped(model, prompts=prompts, shared=True).launched.values()) for prompts in (2, 4, 8)
    ]
    assert counts[0] == counts[1] == counts[2]
    alone = sum(stepped(model, prompts=1, shared=True).launched.values())
    assert counts[0] <= alone + 8 * LAYERS


def test_shared_prompts_computed_together_give_the_logits_of_each_alone(model, monkeypatch):
    lengths = (5, 40, 17)
    dealt = ([0, 3, 4, 7], [1], [2, 5])  # row 6 has none

    def logits():
        decoder = Decoder(model, rows=ROWS, shared=True)
        evaluated = decoder.evaluate([[3 + i] * n for i, n in enumerate(lengths)])
        for prompt, rows in zip(evaluated, dealt, strict=True):
            decoder.admit(rows, [prompt] * len(rows))
        steps = [decoder.step(torch.arange(ROWS) % 6) for _ in range(2)]
        decoder.release([4, 1])  # a prompt without rows is left out
        steps.append(decoder.step(torch.arange(ROWS) % 5))
        decoder.keep([0, 2, 3, 5])
        return [*steps, decoder.step(torch.arange(4))]

    with torch.inference_mode():
        alone = logits()
        monkeypatch.setattr(prompt_states, "_stacks_prompts", lambda device: True)
        together = logits()
    alive = [[0, 1, 2, 3, 4, 5, 7], [0, 1, 2, 3, 4, 5, 7], [0, 2, 3, 5, 7], [0, 1, 2, 3]]
    for rows, first, second in zip(alive, alone, together, strict=True):
        torch.testing.assert_close(first[rows], second[rows], atol=1e-5, rtol=1e-5)
        assert torch.isfinite(second).all()


def test_few_rows_share_a_prompt_on_a_cpu_alone():
    assert shares(4, torch.device("cpu"))
    assert not shares(3, torch.device("cpu"))
    assert not shares(16, torch.device("cuda"))
    assert shares(64, torch.device("cuda"))


def test_steps_send_nothing_to_the_device_while_no_row_comes_or_goes(model):
    # A tensor made of a Python list is sent, and the host then waits.
    count = stepped(model, prompts=2, shared=True, steps=6, counted=4)
    assert count.launched["lift_fresh"] == 0


def test_prompts_are_evaluated_together_up_to_a_number_of_tokens(model, monkeypatch):
    monkeypatch.setattr(loop, "_prompts_at_once", lambda device: 4)
    monkeypatch.setattr(loop, "_TOKENS_AT_ONCE", 60)
    decoder = Decoder(model, rows=ROWS, shared=False)
    evaluated = []
    evaluate = decoder.evaluate

    def noted(prompts):
        evaluated.append([len(prompt) for prompt in prompts])
        return evaluate(prompts)

    monkeypatch.setattr(decoder, "evaluate", noted)
    settings = SamplingSettings(max_new_tokens=2)
    noise = np.full((1, 2), 0.5, dtype=np.float32)
    lengths = [10, 10, 10, 10, 5, 20, 30, 5, 100, 3]
    work = [Work([3] * length, [place], noise) for place, length in enumerate(lengths)]
    batches = Loop(
        decoder,
        settings,
        end_tokens=(),
        stopper=Stopper(settings, lambda _: ""),
    ).run(iter(work))
    assert sorted(row.key for batch in batches for row in batch) == list(range(10))
    # Of those of one batch, which are eight, the shorter ones first; then of the next two.
    assert evaluated == [[5, 5, 10, 10], [10, 10, 20], [30], [3], [100]]


@pytest.mark.parametrize("samples", [1, 4])
def test_on_a_gpu_samples_come_in_order_at_most_two_batches_late(tmp_path, monkeypatch, samples):
    """A sample that waits for an earlier one is neither stored nor shown, and lost by a kill."""
    monkeypatch.setattr(loop, "_prompts_at_once", lambda device: 4)
    folder = save_tiny_model(tmp_path, max_position_embeddings=256)
    backend = HFBackend(folder, ModelSettings(batch_size=ROWS))
    requests = [
        Request(f"problem {number}", "print(1)" * (1 + number % 7), range(samples))
        for number in range(60)
    ]
    requests[0] = Request("the longest", "print(1)" * 100, range(samples))
    draw = backend.draw
    drawn = 0

    def counted(*args):
        nonlocal drawn
        for batch in draw(*args):
            drawn += len(batch)
            yield batch

    monkeypatch.setattr(backend, "draw", counted)
    settings = SamplingSettings(samples=samples, max_new_tokens=8)
    handed_on = 0
    for batch in backend.sample(requests, settings):
        assert drawn - handed_on <= 2 * ROWS
        handed_on += len(batch)
    assert handed_on == drawn == 60 * samples


def test_the_loop_reads_back_once_a_token(model, monkeypatch):
    reads = 0
    tolist = torch.Tensor.tolist

    def counted(self):
        nonlocal reads
        reads += 1
        return tolist(self)

    monkeypatch.setattr(torch.Tensor, "tolist", counted)
    settings = SamplingSettings(max_new_tokens=20)
    noise = np.random.default_rng(0).random((ROWS, 20), dtype=np.float32)
    drawing = Loop(
        Decoder(model, rows=ROWS, shared=True),
        settings,
        end_tokens=(),
        stopper=Stopper(settings, lambda _: ""),
    )
    batches = drawing.run(iter([Work([3, 4], range(ROWS), noise)]))
    drawn = [row for batch in batches for row in batch]
    assert [len(row.ids) for row in drawn] == [20] * ROWS
    assert reads == 20 + 2  # and two sums of the rows that have ended
