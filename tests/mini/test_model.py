import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk.errors import InvalidValueError
from maxatk.mini import MiniProblem, Noise, WarmStart, generate_problems
from maxatk.mini.model import (
    CONTEXT,
    END_OF_TEXT,
    VOCABULARY,
    new_model,
    noisy_corpus,
    train_tokenizer,
    warm_start,
)
from maxatk.mini.problems import ANSWERS, OPERATIONS


def texts_of(problems: list[MiniProblem]) -> list[str]:
    return [p.problem.prompt + p.pipeline.source for p in problems]


@pytest.fixture(scope="module")
def corpus():
    return noisy_corpus(list(generate_problems(1500, seed=4, tests=1)), noise=Noise(), seed=4)


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer([prompt + completion for prompt, completion in corpus])


@pytest.fixture(scope="module")
def saved(tokenizer, tmp_path_factory):
    """Return the folder of an untrained model with its tokenizer, as `base` is saved."""
    folder = tmp_path_factory.mktemp("saved")
    new_model(tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_tokenizer_is_small_and_ends_with_its_own_token(tokenizer):
    assert len(tokenizer) <= VOCABULARY
    assert tokenizer.eos_token == tokenizer.pad_token == END_OF_TEXT
    assert tokenizer.padding_side == "left"


def test_beside_a_qwen2_model_auto_tokenizer_gives_the_same_ids(tokenizer, saved, corpus):
    loaded = AutoTokenizer.from_pretrained(saved)
    texts = [text for pair in corpus[:300] for text in pair]
    assert loaded(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    assert (loaded.eos_token_id, loaded.pad_token_id) == (
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    )
    assert loaded.padding_side == "left"
    assert len(loaded) == len(tokenizer)


def test_every_text_of_the_language_survives_encoding(saved, corpus):
    loaded = AutoTokenizer.from_pretrained(saved)
    unseen = texts_of(list(generate_problems(300, seed=77, tests=1)))
    lines = [stage.line for group in (*OPERATIONS.values(), ANSWERS) for stage in group]
    for text in [*unseen, *lines, *(completion for _, completion in corpus[:300])]:
        assert loaded.decode(loaded.encode(text)) == text


def test_numbers_are_read_digit_by_digit(saved):
    loaded = AutoTokenizer.from_pretrained(saved)
    tokens = [loaded.decode([number]) for number in range(len(loaded))]
    with_digits = [token for token in tokens if any(c.isdigit() for c in token)]
    assert sorted(with_digits) == list("0123456789")
    assert len(loaded.encode("1234567890")) == 10


def test_a_program_is_a_few_tokens_a_line_and_fits_the_context(tokenizer):
    problems = list(generate_problems(300, seed=9, tests=1))
    sources = [p.pipeline.source for p in problems]
    lengths = [len(tokenizer.encode(source)) for source in sources]
    assert sum(lengths) / len(lengths) < 16
    assert max(lengths) < 32
    assert max(len(tokenizer.encode(text)) for text in texts_of(problems)) < CONTEXT


def test_a_new_model_depends_on_its_seed_alone(tokenizer):
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = new_model(tokenizer, seed=0).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    again = new_model(tokenizer, seed=0).state_dict()
    other = new_model(tokenizer, seed=1).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_new_model_has_a_quarter_of_a_million_parameters(tokenizer):
    model = new_model(tokenizer, seed=0)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(250_000, rel=0.1)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def train_once(tokenizer, corpus, **changed):
    model = new_model(tokenizer, seed=0)
    settings = WarmStart(problems=len(corpus), batch_size=64, warmup_steps=2)
    reports = []
    losses = warm_start(
        model,
        tokenizer,
        corpus,
        **{
            "settings": settings,
            "seed": 0,
            "progress": lambda *report: reports.append(report),
            **changed,
        },
    )
    return model, losses, reports


def test_the_warm_start_learns_and_reports_every_step(tokenizer, corpus):
    model, losses, reports = train_once(tokenizer, corpus)
    assert len(losses) == 24  # 1500 examples in batches of 64
    assert reports == [(step, 24) for step in range(1, 25)]
    assert sum(losses[-3:]) / 3 < 0.6 * losses[0]
    assert not model.training


def test_the_warm_start_depends_on_its_seed_alone(tokenizer, corpus):
    few = corpus[:320]
    first, again, other = (train_once(tokenizer, few, seed=s)[1] for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_the_loss_is_that_of_the_completions_tokens_and_their_end(tokenizer, corpus):
    batch = corpus[:8]
    _, losses, _ = train_once(tokenizer, batch)
    model = new_model(tokenizer, seed=0)
    nats = []
    model.requires_grad_(False)
    for prompt, completion in batch:
        prompt_ids = tokenizer.encode(prompt)
        wanted = [*tokenizer.encode(completion), tokenizer.eos_token_id]
        logits = model(input_ids=torch.tensor([prompt_ids + wanted])).logits[0]
        log_probs = logits.log_softmax(-1)[len(prompt_ids) - 1 : -1]
        nats += [-float(row[token]) for row, token in zip(log_probs, wanted, strict=True)]
    assert losses == [pytest.approx(sum(nats) / len(nats), rel=1e-4)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problems": 0}, "problems: must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size: must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate: must be positive, got 0.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InvalidValueError, match=message):
        WarmStart(**settings)


def test_the_saved_folder_is_an_ordinary_model(saved):
    loaded = AutoModelForCausalLM.from_pretrained(saved)
    tokenizer = AutoTokenizer.from_pretrained(saved)
    batch = tokenizer(["sum\n1 > 1\n2 > 2\n#\n", "max\n1 2 > 2\n3 > 3\n#\n"], padding=True)
    inputs = {name: torch.tensor(rows) for name, rows in batch.items()}
    torch.manual_seed(0)
    out = loaded.generate(**inputs, do_sample=True, max_new_tokens=8)
    assert out.shape[0] == 2
    assert inputs["input_ids"].shape[1] < out.shape[1] <= inputs["input_ids"].shape[1] + 8
    assert loaded.config.model_type == "qwen2"
