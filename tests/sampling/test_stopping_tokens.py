"""Where completions end, on tokens of real tokenizers: at the first one whose text has an end."""

import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from maxatk.sampling import SamplingSettings
from maxatk.sampling.backend import stop_tokens
from maxatk.sampling.draw import Stopper, end_of

TEXTS = [
    "Here é it is:\n```python\nprint(1)\n```\nMore.\n\n```\n  x = 1\n\n  ```  \n",
    "~~~py\ny = `1`\n~~~\n````\n```\n````\n\n",
]
SETTINGS = SamplingSettings(stop_at_fence=True)


def byte_level():
    """Return a tokenizer of the kind of GPT-2's, whose tokens may be parts of characters."""
    tokenizer = Tokenizer(models.BPE())
    # Not split into words, so that tokens join a fence and what stands before and behind it.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 2, trainer)
    return tokenizer


def byte_fallback():
    """Return a tokenizer of the kind of Llama's, which strips the space before a first token."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "```", "▁x", "~~~", "py"]
    pieces += ["`", "``", "▁```", "\n```", "```\n", "\n\n"]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    model = models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


@pytest.fixture(params=[byte_level, byte_fallback], ids=lambda build: build.__name__)
def tokenizer(request):
    built = request.param()
    built.add_special_tokens([AddedToken("<end>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=built, eos_token="<end>")


def test_a_completion_ends_at_the_first_token_whose_text_has_an_end(tokenizer):
    def text(ids):
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    every_token = range(len(tokenizer))
    of_fences = [token for token in every_token if set(text([token])) & set("`~\n")]
    choose = random.Random(0)
    stopper = Stopper(SETTINGS, text)
    ended = 0
    for last in [*every_token] * 3 + of_fences * 20:
        ids = choose.choices(of_fences, k=6) + choose.choices(every_token, k=2)
        choose.shuffle(ids)
        ids.append(last)
        for count in range(1, len(ids) + 1):
            has_end = end_of(text(ids[:count]), SETTINGS) is not None
            assert stopper.ends(ids[:count]) == has_end, text(ids[:count])
            if has_end:
                ended += 1
                break
    assert ended > 50


def test_a_stop_that_is_a_special_token_is_known_by_its_id(tokenizer):
    end = tokenizer.eos_token_id
    assert stop_tokens(tokenizer, ["\n", " ", "py", "<end>", "<end>\n", "<en"]) == [end]


def test_a_token_is_turned_into_text_once_until_a_line_has_a_fence(tokenizer):
    decoded = []

    def text(ids):
        decoded.append(list(ids))
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    stopper = Stopper(SETTINGS, text)
    ids = tokenizer.encode("x = 1\ny = 2\n", add_special_tokens=False)
    for _ in range(5):
        assert not any(stopper.ends(ids[:count]) for count in range(1, len(ids) + 1))
    assert sorted(decoded) == sorted([token] for token in set(ids))
