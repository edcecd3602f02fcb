"""Sampling backends: one class each, listed in `BACKENDS`."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import importlib
import importlib.util
import logging
import pkgutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingDependencyError, counted
from maxatk.models import fingerprint, refuse_missing_model
from maxatk.records import Sample
from maxatk.sampling.settings import BACKENDS, ModelSettings, Request, SamplingSettings

_log = logging.getLogger(__name__)


class Backend(abc.ABC):
    """What draws samples for an evaluation; `draw` is where backends differ."""

    batch_size: int  # how many samples are under way at a time; known after `prepare`

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what identifies the model and its numerics, as JSON, for the manifest."""

    @abc.abstractmethod
    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Make ready for prompts (by problem id); raise InvalidValueError for what it cannot do."""

    @abc.abstractmethod
    def draw(
        self, requests: list[Request], settings: SamplingSettings
    ) -> Generator[Sequence[Sample], None, None]:
        """Yield the samples asked for as they are drawn, with a batch that is full to the last."""

    def sample(
        self, requests: Iterable[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, in that order, as they are drawn; the same on every call.

        Closing the generator drops the rest. Raises InvalidValueError for an index that the
        settings have no sample for, and what `draw` raises.
        """
        requests = list(requests)
        wanted = collections.deque(
            (request.problem_id, index) for request in requests for index in request.indices
        )
        for _, index in wanted:
            allowed = f"in [0, {settings.samples})"
            require(0 <= index < settings.samples, "sample index", allowed, index)
        # Samples are drawn in the order in which they end, and held until it is their turn.
        early: dict[tuple[str, int], Sample] = {}
        with contextlib.closing(self.draw(requests, settings)) as batches:
            for batch in batches:
                early.update({(sample.problem_id, sample.sample): sample for sample in batch})
                ready = []
                while wanted and wanted[0] in early:
                    ready.append(early.pop(wanted.popleft()))
                if ready:
                    yield ready


def load_backend(model: str, settings: ModelSettings) -> Backend:
    """Return the backend of the settings with `model` loaded.

    Raises InvalidValueError for settings the backend has no use for, MissingDependencyError without
    its packages, MissingFileError without the model.
    """
    require(isinstance(model, str), "model", "a folder or a name", model)
    require(isinstance(settings, ModelSettings), "settings", "ModelSettings", settings)
    name = settings.backend
    if name == "auto":
        name = _backend_here(settings)
        settings = dataclasses.replace(settings, backend=name)
    row = BACKENDS[name]
    for lacking in settings.given(row.lacks):
        why = f"the backend {name!r} has no such setting"
        raise InvalidValueError(f"{lacking}: {why}, got {getattr(settings, lacking)!r}")
    if row.has_files:  # before torch is imported, which takes seconds
        refuse_missing_model(model, revision=settings.revision)
    try:
        backend: Callable[[str, ModelSettings], Backend] = pkgutil.resolve_name(row.path)
    except ImportError as error:
        raise MissingDependencyError(
            f"backend {name!r} needs the package {error.name!r}: {row.install}"
        ) from error
    return backend(model, settings)


def describe_files(
    name: str, model: str, settings: ModelSettings, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a backend that opens a model's files says of them, and `facts` that are known."""
    fields = ("adapter", "revision", "attn_implementation", "device_map")
    model_facts = {**{field: getattr(settings, field) for field in fields}, **facts}
    if settings.adapter:
        model_facts["adapter_weights"] = fingerprint(settings.adapter)
    return {
        "name": name,
        "model": model,
        "weights": fingerprint(model),
        "prompt": settings.prompt.to_json(),
        **{field: value for field, value in model_facts.items() if value is not None},
    }


def _backend_here(settings: ModelSettings) -> str:
    """Return "vllm" on a GPU, where it is installed and has the settings, and else "hf"; log it."""
    name = "hf"
    lacks = settings.given(BACKENDS["vllm"].lacks)
    if importlib.util.find_spec("vllm") is None:
        why = "vllm is not installed"
    elif lacks:
        why = f"vllm has no {lacks[0]}"
    elif not importlib.import_module("torch").cuda.is_available():
        why = "there is no GPU"
    else:
        name = "vllm"
        why = "it is installed and there is a GPU"
    _log.warning("backend auto: %s, because %s", name, why)
    return name


def stop_tokens(tokenizer: Any, stop: Sequence[str]) -> list[int]:
    """Return the ids of the stop texts that are special tokens, which no completion has as text."""
    special = []
    for text in stop:
        ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        is_token = len(ids) == 1 and tokenizer.decode(ids) == text
        # Asked of the tokenizer's text, since not every class of them lists what it leaves out.
        if is_token and not tokenizer.decode(ids, skip_special_tokens=True):
            special += ids
    return special


def check_lengths(
    prompts: Mapping[str, str],
    ids: Callable[[str], Sequence[int]],
    most: int,
    limit: int | None,
    *,
    called: str = "max_new_tokens",
) -> int:
    """Return the tokens of the longest of the prompts (by problem id), which `ids` encodes.

    Raises InvalidValueError for an empty one, or if `limit` does not hold `most` new tokens too;
    `called` is the setting that they are.
    """
    lengths = {problem_id: len(ids(prompt)) for problem_id, prompt in prompts.items()}
    for problem_id, length in lengths.items():
        if length == 0:
            raise InvalidValueError(f"problem {problem_id!r}: the prompt has no tokens")
        if limit is not None and length + most > limit:
            raise InvalidValueError(
                f"problem {problem_id!r}: prompt of {counted(length, 'token')} and {called}={most} "
                f"exceed the model's context of {limit}, which leaves {max(0, limit - length)}"
            )
    return max(lengths.values(), default=0)
