"""Build the embedded default: problems, tokenizer and warm-started model in one folder."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import random
from collections.abc import Callable
from pathlib import Path

from maxatk.folders import read_json, refuse_other_settings, write_json
from maxatk.jsonl import write_jsonl
from maxatk.mini.problems import generate_problems
from maxatk.mini.settings import MiniSettings
from maxatk.writing import OutFolder, json_mark

MANIFEST = "mini.json"
_TOKENIZER_TEXTS = 10_000  # more texts change a vocabulary of 192 entries no more


def build_mini(
    out: str | Path,
    settings: MiniSettings,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write `train.jsonl`, `test.jsonl` and the model folder `base` below `out`.

    The same settings give the same files on the same machine, and a folder that already holds them
    is left as it is. No test prompt is among those of the training and the warm start.
    `progress(done, total)` counts optimizer steps of the warm start. Raises InvalidValueError for
    a folder of other settings.
    """
    out = Path(out)
    manifest = {"settings": dataclasses.asdict(settings)}
    folder = OutFolder(
        out, "mini", (json_mark(MANIFEST, lambda made: made.keys() == manifest.keys()),)
    )
    folder.check_content()
    if (out / MANIFEST).is_file():
        refuse_other_settings(out, read_json(out / MANIFEST), manifest)
        return
    folder.check()
    # Before any file: what it needs may be missing.
    importlib.import_module("maxatk.mini.model")
    with folder.alone():
        _build(out, settings, progress)
        write_json(out / MANIFEST, manifest)


def _build(out: Path, settings: MiniSettings, progress: Callable[[int, int], None] | None) -> None:
    from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer, warm_start

    draw = functools.partial(
        generate_problems,
        seed=settings.seed,
        tests=settings.tests,
        visible_tests=settings.visible_tests,
    )
    test = list(draw(settings.test_problems, prefix="test"))
    held_out = frozenset(mini.problem.prompt for mini in test)
    train = draw(settings.train_problems, prefix="train", exclude=held_out)
    for name, problems in (("train", train), ("test", test)):
        write_jsonl(out / f"{name}.jsonl", (mini.problem.to_json() for mini in problems))
    # No program of the warm start is verified: one test will do.
    seed = settings.seed
    solved = draw(settings.warm_start.problems, tests=1, prefix="corpus", exclude=held_out)
    corpus = noisy_corpus(solved, noise=settings.warm_start.noise, seed=seed)
    pairs = random.Random(seed).sample(corpus, min(len(corpus), _TOKENIZER_TEXTS))
    tokenizer = train_tokenizer([prompt + completion for prompt, completion in pairs])
    model = new_model(tokenizer, seed=seed)
    warm_start(model, tokenizer, corpus, settings=settings.warm_start, seed=seed, progress=progress)
    model.save_pretrained(out / "base")
    tokenizer.save_pretrained(out / "base")
