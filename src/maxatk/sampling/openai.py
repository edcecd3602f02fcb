"""The `openai` backend: any server that speaks OpenAI's completions or chat completions.

A sample is a request of its own, with its own seed: servers differ in whether they know `n`, and
a request that fails takes no other sample with it. A sample is never silently missing: a request
either gives its text or, after the retries, an error that ends the run. An answer is not trusted:
neither its length nor its types, nor that it ends, nor that it keeps the key to itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import itertools
import json
import math
import os
import random
from collections.abc import Generator, Iterable, Mapping
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from maxatk.errors import InvalidValueError, ServerError
from maxatk.records import Sample
from maxatk.sampling.backend import in_order
from maxatk.sampling.settings import ModelSettings, Request, SamplingSettings, sample_seed
from maxatk.settings import HIDDEN, masked_url

_AHEAD = 4  # batches that are asked for, or answered and not yet stored
_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 60.0
_EXCERPT = 300  # characters of a server's answer in an error message
_MOST_BYTES = 64 << 20  # of an answer, once unpacked
_PACKED = ("", "identity", "gzip", "deflate")  # others unpack to any size at once
_SECRET = 12  # characters of a key that is kept out of texts; shorter ones are placeholders


@dataclasses.dataclass(frozen=True)
class _Answer:
    """What a server answered, read to its end."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        """Return its JSON, None where it is none."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None


class OpenAIBackend:
    """Draw samples from a server; `model` is the name it has there.

    `tokens` is the server's own count where it gives one; `entropy` stays None, and so does
    `logprob` but for vLLM's server at temperature 1. The seed of a sample depends on the seed of
    the settings, the problem id and its index; whether the same seed gives the same text is up to
    the server.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        server, prompt = settings.server, settings.prompt
        if server.url is None:
            raise InvalidValueError("server.url: the backend 'openai' needs the URL of a server")
        if prompt.template != "auto":
            raise InvalidValueError(
                f"prompt.template: the server has its own; server.chat decides, got "
                f"{prompt.template!r}"
            )
        if not server.chat and (prompt.system or prompt.template_arguments):
            raise InvalidValueError("prompt: a system turn and template_arguments need server.chat")
        self.name, self.server, self.settings = model, server, settings
        self._base = server.url.rstrip("/")
        self._url = self._base + ("/chat/completions" if server.chat else "/completions")
        self._shown = masked_url(self._url)
        self.batch_size = min(settings.batch_size or server.concurrency, server.concurrency)
        self._key = key = os.environ.get(server.key_variable, "")
        if not (key.isascii() and key.isprintable()):
            raise InvalidValueError(
                f"server.key_variable: the key in {server.key_variable} has a line break or "
                "another character that no request can carry"
            )
        self._is_vllm = False  # until `prepare` has asked
        self._headers = {"Accept-Encoding": "identity"}
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}

    def describe(self) -> dict[str, Any]:
        """Return model name and API; not the address, which may change between two runs."""
        return {
            "name": "openai",
            "model": self.name,
            "chat": self.server.chat,
            "prompt": self.settings.prompt.to_json(),
        }

    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Raise InvalidValueError for an empty prompt, ServerError if the server is not there.

        Or if it lists its models and this one is not among them.
        """
        if settings.stop_at_fence:
            raise InvalidValueError("stop_at_fence: the backend 'openai' cannot stop there")
        for problem_id, prompt in prompts.items():
            if not prompt:
                raise InvalidValueError(f"problem {problem_id!r}: the prompt is empty")
        url = f"{self._base}/models"
        try:
            with start_blocking_portal() as portal:  # a thread: here a loop may be running
                answer = portal.call(self._get, url)
        except (httpx.HTTPError, httpx.InvalidURL, asyncio.TimeoutError) as error:
            shown, reason = masked_url(url), self._reason(error)
            raise ServerError(f"{shown}: the server cannot be reached: {reason}") from error
        rows = _models(answer.json())
        self._is_vllm = any(row.get("owned_by") == "vllm" for row in rows)
        names = [str(row.get("id")) for row in rows]
        if names and self.name not in names:
            listed = self._excerpt(", ".join(names[:10]))
            raise ServerError(
                f"{masked_url(url)}: the server has no model {self.name!r}; it has {listed}"
            )

    def sample(
        self, requests: Iterable[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, in that order, as the server gives them.

        Raises ServerError when a request is refused or goes on failing after its retries; the
        other requests are then dropped, as they are when the iterator is closed.
        """
        return in_order(requests, settings, self._answers)

    def _answers(
        self, requests: list[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        asked = ((request, index) for request in requests for index in request.indices)
        # The event loop has a thread of its own: it goes on asking while samples are stored, and
        # it works within another loop, as in a notebook. What is left when it ends is cancelled.
        with start_blocking_portal() as portal:
            slots = asyncio.Semaphore(self.batch_size)
            with portal.wrap_async_context_manager(self._client()) as client:
                waiting: set[concurrent.futures.Future[Sample]] = set()
                while True:
                    for one in itertools.islice(asked, _AHEAD * self.batch_size - len(waiting)):
                        body = self._body(*one, settings)
                        waiting.add(portal.start_task_soon(self._asked, client, slots, body, *one))
                    if not waiting:
                        return
                    first = concurrent.futures.FIRST_COMPLETED
                    done, waiting = concurrent.futures.wait(waiting, return_when=first)
                    yield [future.result() for future in done]

    async def _asked(
        self,
        client: httpx.AsyncClient,
        slots: asyncio.Semaphore,
        body: Mapping[str, Any],
        request: Request,
        index: int,
    ) -> Sample:
        async with slots:
            answer = await self._ask(client, body, f"sample {index} of {request.problem_id!r}")
        return self._sample_of(answer, request.problem_id, index)

    def _body(self, request: Request, index: int, settings: SamplingSettings) -> dict[str, Any]:
        extra: dict[str, Any] = {"top_k": settings.top_k, "min_p": settings.min_p}
        if self._is_vllm:
            # It fills what is left out from the model's generation_config.json. Other servers
            # refuse fields that they do not know.
            extra["repetition_penalty"] = 1.0
            if settings.temperature == 1:
                extra["logprobs"] = True if self.server.chat else 1
        else:
            extra = {name: value for name, value in extra.items() if value}
        if settings.stop:
            extra["stop"] = list(settings.stop)
        return {
            "model": self.name,
            **self._prompt(request.prompt),
            "max_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            **extra,
            "seed": sample_seed(settings.seed, request.problem_id, index),
        }

    def _prompt(self, prompt: str) -> dict[str, Any]:
        if not self.server.chat:
            return {"prompt": prompt}
        settings = self.settings.prompt
        turns = [*settings.turns_before, {"role": "user", "content": prompt}]
        arguments = dict(settings.template_arguments)
        return {"messages": turns, **({"chat_template_kwargs": arguments} if arguments else {})}

    async def _ask(self, client: httpx.AsyncClient, body: Mapping[str, Any], place: str) -> _Answer:
        for attempt in range(self.server.retries + 1):
            wait = None
            try:
                answer = await self._answer(client, "POST", self._url, body)
            except (httpx.HTTPError, asyncio.TimeoutError) as error:
                problem = self._reason(error)
            else:
                if 200 <= answer.status < 300:
                    return answer
                problem = f"status {answer.status}: {self._excerpt(answer.text)}"
                if answer.status not in _MAY_PASS:
                    raise ServerError(f"{self._shown}: {place} was refused: {problem}")
                wait = _asked_to_wait(answer)
            if attempt < self.server.retries:
                await asyncio.sleep(self._pause(attempt) if wait is None else wait)
        raise ServerError(
            f"{self._shown}: {place} failed {self.server.retries + 1} times, the last: {problem}"
        )

    def _pause(self, attempt: int) -> float:
        # A random half, so that many requests refused at once do not come back at once.
        longest = min(self.server.backoff_s * 2.0**attempt, _LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=self.batch_size)
        return httpx.AsyncClient(
            headers=self._headers, timeout=self.server.timeout_s, limits=limits
        )

    async def _get(self, url: str) -> _Answer:
        async with self._client() as client:
            return await self._answer(client, "GET", url)

    async def _answer(
        self, client: httpx.AsyncClient, method: str, url: str, body: Any = None
    ) -> _Answer:
        async def read() -> _Answer:
            parts = bytearray()
            async with client.stream(method, url, json=body) as response:
                packed = response.headers.get("Content-Encoding", "").lower()
                if packed not in _PACKED:
                    raise httpx.DecodingError(
                        f"the answer is packed by {packed!r}, which was not asked for"
                    )
                async for part in response.aiter_bytes():
                    parts += part
                    if len(parts) > _MOST_BYTES:
                        raise httpx.DecodingError(
                            f"the answer is longer than {_MOST_BYTES:,} bytes"
                        )
            text = parts.decode("utf-8", "replace")
            return _Answer(response.status_code, response.headers, text)

        # The time-out of httpx is for every part of an answer by itself.
        return await asyncio.wait_for(read(), self.server.timeout_s)

    def _excerpt(self, text: str) -> str:
        return self._without_key(text)[:_EXCERPT]

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, HIDDEN) if len(self._key) >= _SECRET else text

    def _reason(self, error: Exception) -> str:
        return self._excerpt(masked_url(f"{type(error).__name__} {error}".strip()))

    def _sample_of(self, answer: _Answer, problem_id: str, index: int) -> Sample:
        place, found = f"{self._shown}: sample {index} of {problem_id!r}", answer.json()
        if found is None:
            shown = self._excerpt(answer.text)
            raise ServerError(f"{place}: the answer is not JSON: {shown!r}")
        try:
            choice = found["choices"][0]
            text = choice["message"]["content"] if self.server.chat else choice["text"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            shown = self._excerpt(str(found))
            raise ServerError(f"{place}: the answer has no text: {shown}")
        # Half a surrogate pair, which JSON can spell, is no character that a file can hold.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        usage, reason = found.get("usage"), choice.get("finish_reason")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        return Sample(
            problem_id=problem_id,
            sample=index,
            completion=self._without_key(text),
            tokens=tokens if type(tokens) is int and 0 <= tokens <= _MOST_BYTES else None,
            finish_reason=reason if _is_word(reason) else None,
            logprob=_logprob(choice),
        )


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and len(value) < 40


def _asked_to_wait(answer: _Answer) -> float | None:
    try:
        seconds = float(answer.headers["Retry-After"])
    except (KeyError, ValueError):  # absent, or a date
        return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST_WAIT_S)


def _models(answer: Any) -> list[dict[str, Any]]:
    rows = answer.get("data") if isinstance(answer, dict) else None  # not every server lists them
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _logprob(choice: Mapping[str, Any]) -> float | None:
    try:
        found = choice.get("logprobs") or {}
        values = found.get("token_logprobs") or [token["logprob"] for token in found["content"]]
        total = math.fsum(values)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):  # none, or no numbers
        return None
    return round(total, 4) if values and math.isfinite(total) else None
