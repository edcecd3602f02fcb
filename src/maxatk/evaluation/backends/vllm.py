"""The `vllm` backend: vLLM's offline engine in this process, for a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm import LLM, SamplingParams

from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends.model_settings import ModelSettings, sample_seed
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.models import fingerprint, refuse_missing_folder
from maxatk.records import Sample

_BATCH = 256


class VLLMBackend:
    """Draw samples with `vllm.LLM`; a tokenizer's chat template is used where there is one.

    Every sample is a sequence with a seed of its own, decided by the seed of the settings, the
    problem id and its index. `logprob` is vLLM's `cumulative_logprob`, at temperature 1 alone: it
    is taken before the temperature. vLLM has no entropies. Raises MissingFileError for a folder
    without a model.
    """

    def __init__(self, model: str, *, dtype: str = "auto", batch_size: int | None = None) -> None:
        refuse_missing_folder(model)
        self.name, self.dtype = model, dtype
        self.batch_size = batch_size or _BATCH
        # Without its own defaults: what generation_config.json says must not change the sampling.
        self.engine = LLM(model=model, dtype=dtype, generation_config="vllm")

    @classmethod
    def open(cls, model: str, settings: ModelSettings) -> VLLMBackend:
        """Return the backend; raises InvalidValueError for settings it has no use for."""
        settings.refuse("device", "server")
        return cls(model, dtype=settings.dtype, batch_size=settings.batch_size)

    def describe(self) -> dict[str, Any]:
        """Return model name, fingerprint of the weights, dtype and batch size."""
        return {
            "name": "vllm",
            "model": self.name,
            "weights": fingerprint(self.name),
            "dtype": self.dtype,
            "batch_size": self.batch_size,
        }

    def check(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:  # noqa: ARG002
        """Raise InvalidValueError for an empty prompt; vLLM refuses one that is too long."""
        for problem_id, prompt in prompts.items():
            if not prompt:
                raise InvalidValueError(f"problem {problem_id!r}: the prompt is empty")

    def sample(
        self, problem_id: str, prompt: str, indices: Sequence[int], settings: SamplingSettings
    ) -> list[Sample]:
        """Return the samples of one problem with these indices, in order."""
        sampling = [
            SamplingParams(
                n=1,
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_tokens=settings.max_new_tokens,
                seed=sample_seed(settings.seed, problem_id, index),
                logprobs=0 if settings.temperature == 1 else None,
            )
            for index in indices
        ]
        if self.engine.get_tokenizer().chat_template is None:
            outputs = self.engine.generate([prompt] * len(indices), sampling, use_tqdm=False)
        else:
            turns = [{"role": "user", "content": prompt}]
            outputs = self.engine.chat([turns] * len(indices), sampling, use_tqdm=False)
        return [
            _sample(output.outputs[0], problem_id, index)
            for index, output in zip(indices, outputs, strict=True)
        ]


def _sample(found: Any, problem_id: str, index: int) -> Sample:
    logprob = found.cumulative_logprob
    return Sample(
        problem_id=problem_id,
        sample=index,
        completion=found.text,
        tokens=len(found.token_ids),
        finish_reason=found.finish_reason,
        logprob=None if logprob is None else round(float(logprob), 4),
    )
