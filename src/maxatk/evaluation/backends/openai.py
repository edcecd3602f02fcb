"""The `openai` backend: any server that speaks OpenAI's completions or chat completions.

A sample is a request of its own, with its own seed: servers differ in whether they know `n`, and
a request that fails takes no other sample with it. A sample is never silently missing: a request
either gives its text or, after the retries, an error that ends the run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import httpx

from maxatk.errors import InvalidValueError, ServerError
from maxatk.evaluation.backends.model_settings import ModelSettings, ServerSettings, sample_seed
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.masking import masked_url
from maxatk.records import Sample

ResultT = TypeVar("ResultT")

_BATCH = 64
_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 60.0
_EXCERPT = 300  # characters of a server's answer in an error message


class OpenAIBackend:
    """Draw samples from a server; `model` is the name it has there.

    `tokens` is the server's own count where it gives one; `logprob` and `entropy` stay None: the
    protocol has no entropies, and few servers give log-probabilities. The seed of a sample
    depends on the seed of the settings, the problem id and its index; whether the same seed gives
    the same text is up to the server.
    """

    def __init__(
        self, model: str, *, server: ServerSettings, batch_size: int | None = None
    ) -> None:
        if server.url is None:
            raise InvalidValueError("server.url: the backend 'openai' needs the URL of a server")
        self.name, self.server = model, server
        self.batch_size = batch_size or max(_BATCH, server.concurrency)
        key = os.environ.get(server.key_variable)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    @classmethod
    def open(cls, model: str, settings: ModelSettings) -> OpenAIBackend:
        """Return the backend; raises InvalidValueError for settings it has no use for."""
        settings.refuse("dtype", "device")
        server = settings.server
        return cls(model, server=server, batch_size=settings.batch_size)

    def describe(self) -> dict[str, Any]:
        """Return model name and API; not the address, which may change between two runs."""
        return {"name": "openai", "model": self.name, "chat": self.server.chat}

    def check(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:  # noqa: ARG002
        """Raise InvalidValueError for an empty prompt, ServerError if the server is not there."""
        for problem_id, prompt in prompts.items():
            if not prompt:
                raise InvalidValueError(f"problem {problem_id!r}: the prompt is empty")
        url = f"{self._base}/models"
        try:
            httpx.get(url, headers=self._headers, timeout=self.server.timeout_s)
        except httpx.HTTPError as error:
            shown = masked_url(url)
            raise ServerError(f"{shown}: the server cannot be reached: {_reason(error)}") from error

    def sample(
        self, problem_id: str, prompt: str, indices: Sequence[int], settings: SamplingSettings
    ) -> list[Sample]:
        """Return the samples of one problem with these indices, in order.

        Raises ServerError when a request is refused or goes on failing after its retries; the
        other requests are then dropped.
        """
        return _run(self._sample_all(problem_id, prompt, indices, settings))

    async def _sample_all(
        self, problem_id: str, prompt: str, indices: Sequence[int], settings: SamplingSettings
    ) -> list[Sample]:
        room = asyncio.Semaphore(self.server.concurrency)
        limits = httpx.Limits(max_connections=self.server.concurrency)
        async with httpx.AsyncClient(
            headers=self._headers, timeout=self.server.timeout_s, limits=limits
        ) as client:

            async def one(index: int) -> Sample:
                async with room:
                    place = f"sample {index} of {problem_id!r}"
                    body = self._body(problem_id, prompt, index, settings)
                    answer = await self._ask(client, body, place)
                return self._sample_of(answer, problem_id, index)

            tasks = [asyncio.ensure_future(one(index)) for index in indices]
            try:
                return list(await asyncio.gather(*tasks))
            finally:  # after an error, the others must not go on behind our back
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _base(self) -> str:
        return str(self.server.url).rstrip("/")

    @property
    def _url(self) -> str:
        return self._base + ("/chat/completions" if self.server.chat else "/completions")

    @property
    def _shown(self) -> str:
        return masked_url(self._url)

    def _body(
        self, problem_id: str, prompt: str, index: int, settings: SamplingSettings
    ) -> dict[str, Any]:
        turn = {"role": "user", "content": prompt}
        return {
            "model": self.name,
            **({"messages": [turn]} if self.server.chat else {"prompt": prompt}),
            "max_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": sample_seed(settings.seed, problem_id, index),
        }

    async def _ask(
        self, client: httpx.AsyncClient, body: Mapping[str, Any], place: str
    ) -> Mapping[str, Any]:
        for attempt in range(self.server.retries + 1):
            wait = None
            try:
                response = await client.post(self._url, json=body)
            except httpx.TransportError as error:  # time-outs and lost connections
                problem = _reason(error)
            else:
                if response.is_success:
                    return self._object_of(response, place)
                problem = f"status {response.status_code}: {response.text[:_EXCERPT]}"
                if response.status_code not in _MAY_PASS:
                    raise ServerError(f"{self._shown}: {place} was refused: {problem}")
                wait = _asked_to_wait(response)
            if attempt < self.server.retries:
                await asyncio.sleep(self._pause(attempt) if wait is None else wait)
        raise ServerError(
            f"{self._shown}: {place} failed {self.server.retries + 1} times, the last: {problem}"
        )

    def _pause(self, attempt: int) -> float:
        # A random half, so that many requests refused at once do not come back at once.
        longest = min(self.server.backoff_s * 2.0**attempt, _LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)

    def _object_of(self, response: httpx.Response, place: str) -> Mapping[str, Any]:
        try:
            answer = response.json()
        except ValueError as error:
            raise ServerError(
                f"{self._shown}: {place}: the answer is not JSON: {response.text[:_EXCERPT]!r}"
            ) from error
        return answer if isinstance(answer, dict) else {}

    def _sample_of(self, answer: Mapping[str, Any], problem_id: str, index: int) -> Sample:
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"] if self.server.chat else choice["text"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise ServerError(
                f"{self._shown}: sample {index} of {problem_id!r}: the answer has no text: "
                f"{str(answer)[:_EXCERPT]}"
            )
        usage = answer.get("usage") or {}
        return Sample(
            problem_id=problem_id,
            sample=index,
            completion=text,
            tokens=usage.get("completion_tokens"),
            finish_reason=choice.get("finish_reason"),
        )


def _asked_to_wait(response: httpx.Response) -> float | None:
    try:
        seconds = float(response.headers["Retry-After"])
    except (KeyError, ValueError):  # absent, or a date
        return None
    return min(max(seconds, 0.0), _LONGEST_WAIT_S)


def _reason(error: Exception) -> str:
    return masked_url(f"{type(error).__name__} {error}".strip())


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # Within a loop, as in a notebook: a loop of our own in a thread.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
