"""The `openai` backend: any server of that API, whose answers are not trusted in any way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import math
import os
import random
from collections.abc import Generator, Iterator, Mapping
from typing import Annotated, Any

import anyio
import httpx
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal

from maxatk.check import require
from maxatk.conversations import reply_text
from maxatk.errors import InvalidValueError, ServerError, counted
from maxatk.records import Sample
from maxatk.sampling.backend import Backend
from maxatk.sampling.settings import ModelSettings, Request, SamplingSettings, sample_seed
from maxatk.settings import HIDDEN, masked_url

_AHEAD = 4  # batches that are asked for, or answered and not yet stored
# A server that has no such route says 501.
_MAY_PASS = frozenset({408, 409, 425, 429, *range(500, 600)} - {501})
_LONGEST_WAIT_S = 60.0
_MOST_LISTINGS = 5  # repetitions, of some 15 seconds: a server may do without the list for ever
_MOST_DOUBLINGS = 1000  # of a wait: a float has no 2^1024, which many retries would come to
_EXCERPT = 300  # characters of a server's answer in an error message
_MOST_BYTES = 64 << 20  # of an answer, once unpacked
_PACKED = ("", "identity", "gzip", "deflate")  # others unpack to any size at once
_SECRET = 12  # characters of a key that is kept out of texts; shorter ones are placeholders

_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)]
_ErrorStatus = Annotated[int, msgspec.Meta(ge=400, le=599)]
_Word = Annotated[str, msgspec.Meta(max_length=39, pattern=r"^[ -~]*\Z")]


class _Token(msgspec.Struct):
    logprob: float


class OpenAIBackend(Backend):
    """Draw samples from a server, each by a request and seed of its own; `model` is its name there.

    `tokens` is the server's own count where it gives one; `entropy` stays None, and so does
    `logprob` but for vLLM's server at temperature 1. Whether the same seed gives the same text is
    up to the server.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        server = settings.server
        prompt = settings.prompt
        if server.url is None:
            raise InvalidValueError("server.url: the backend 'openai' needs the URL of a server")
        allowed = "auto with a server, which has its own (server.chat)"
        require(prompt.template == "auto", "prompt.template", allowed, prompt.template)
        if not server.chat and (prompt.system or prompt.template_arguments):
            raise InvalidValueError("prompt: a system turn and template_arguments need server.chat")
        self.name = model
        self.server = server
        self.settings = settings
        self._base = server.url.rstrip("/")
        self._url = self._base + ("/chat/completions" if server.chat else "/completions")
        self._shown = masked_url(self._url)
        self.batch_size = min(settings.batch_size or server.concurrency, server.concurrency)
        self._key = key = os.environ.get(server.key_variable, "")
        allowed = "the name of a key that a request can carry, without line breaks"
        sendable = key.isascii() and key.isprintable()
        require(sendable, "server.key_variable", allowed, server.key_variable)
        self._is_vllm = False  # until `prepare` has asked
        self._headers = {"Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def describe(self) -> dict[str, Any]:
        """Return model name and API; not the address, which may change between two runs."""
        facts = {"chat": self.server.chat, "prompt": self.settings.prompt.to_json()}
        return {"name": "openai", "model": self.name, **facts}

    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Raise InvalidValueError for an empty prompt, ServerError without server or model."""
        if settings.stop_at_fence:
            raise InvalidValueError("stop_at_fence: the backend 'openai' cannot stop there")
        for problem_id, prompt in prompts.items():
            if not prompt:
                raise InvalidValueError(f"problem {problem_id!r}: the prompt is empty")
        url = f"{self._base}/models"
        try:
            with self._connected() as (portal, client):
                answer = portal.call(self._listing, client, url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            reason = self._reason(error)
            raise ServerError(
                f"{masked_url(url)}: the server cannot be reached: {reason}"
            ) from error
        models = _at(_json(answer), list[dict[str, Any]], "data") or []  # not all list them
        self._is_vllm = any(model.get("owned_by") == "vllm" for model in models)
        names = [str(model.get("id")) for model in models]
        if names and self.name not in names:
            listed = self._keyless(", ".join(names[:10]))
            raise ServerError(
                f"{masked_url(url)}: the server has no model {self.name!r}; it has {listed}"
            )

    async def _listing(self, client: httpx.AsyncClient, url: str) -> httpx.Response:
        """Return the answer about models, asked for again where the server is not ready yet.

        By its models alone vLLM's server is known, which is told of the whole distribution.
        """
        answer = await self._answer(client, "GET", url, None)
        for attempt in range(min(self.server.retries, _MOST_LISTINGS)):
            if answer.status_code not in _MAY_PASS:
                break
            await asyncio.sleep(self._pause(attempt, answer.headers["Retry-After"]))
            answer = await self._answer(client, "GET", url, None)
        return answer

    def draw(
        self, requests: list[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples as the server gives them; raise ServerError for a failed request."""
        wanted = ((request, index) for request in requests for index in request.indices)
        with self._connected() as (portal, client):
            slots = asyncio.Semaphore(self.batch_size)

            async def sample(request: Request, index: int) -> Sample:
                where = f"{self._shown}: sample {index} of {request.problem_id!r}"
                async with slots:
                    answer = await self._ask(client, self._body(request, index, settings), where)
                return self._sample_of(answer, where, request.problem_id, index)

            waiting: set[concurrent.futures.Future[Sample]] = set()
            while True:
                free = _AHEAD * self.batch_size - len(waiting)
                for request, index in itertools.islice(wanted, free):
                    waiting.add(portal.start_task_soon(sample, request, index))
                if not waiting:
                    return
                first = concurrent.futures.FIRST_COMPLETED
                done, waiting = concurrent.futures.wait(waiting, return_when=first)
                yield [future.result() for future in done]

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[BlockingPortal, httpx.AsyncClient]]:
        """Yield an event loop in a thread, also in a notebook, and a client; end what is left."""
        limits = httpx.Limits(max_connections=self.batch_size)
        timeout = self.server.timeout_s
        with start_blocking_portal() as portal:
            client = httpx.AsyncClient(headers=self._headers, timeout=timeout, limits=limits)
            with portal.wrap_async_context_manager(client):
                yield portal, client

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
        if self.server.chat:
            prompt = self.settings.prompt
            turn = {"role": "user", "content": request.prompt}
            extra["messages"] = [*prompt.turns_before, turn]
            if prompt.template_arguments:
                extra["chat_template_kwargs"] = dict(prompt.template_arguments)
        else:
            extra["prompt"] = request.prompt
        return {
            "model": self.name,
            "max_tokens": settings.max_new_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            **extra,
            "seed": sample_seed(settings.seed, request.problem_id, index),
        }

    async def _ask(
        self, client: httpx.AsyncClient, body: Mapping[str, Any], where: str
    ) -> httpx.Response:
        """Return the answer to a request, which is repeated where that may help."""
        for attempt in range(self.server.retries + 1):
            wait = ""
            try:
                answer = await self._answer(client, "POST", self._url, body)
            except (httpx.HTTPError, TimeoutError) as error:
                problem = self._reason(error)
            else:
                status = _status_of(answer)
                if httpx.codes.is_success(status):
                    return answer
                problem = f"status {status}: {self._keyless(answer.text)}"
                if status not in _MAY_PASS:
                    raise ServerError(f"{where} was refused: {problem}")
                wait = answer.headers["Retry-After"]
            if attempt < self.server.retries:
                await asyncio.sleep(self._pause(attempt, wait))
        raise ServerError(
            f"{where} failed {counted(self.server.retries + 1, 'time')}, the last: {problem}"
        )

    def _pause(self, attempt: int, wanted: str) -> float:
        """Return the seconds to wait: what the server wants, or twice as long each time."""
        with contextlib.suppress(ValueError):  # absent, or a date
            seconds = float(wanted)
            if seconds > 0:  # servers round down to 0, which would use up all repetitions at once
                return min(seconds, _LONGEST_WAIT_S)
        # A random half, so that many requests refused at once do not come back at once.
        doubled = 2.0 ** min(attempt, _MOST_DOUBLINGS)
        longest = min(self.server.backoff_s * doubled, _LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)

    async def _answer(
        self, client: httpx.AsyncClient, method: str, url: str, body: Mapping[str, Any] | None
    ) -> httpx.Response:
        """Return an answer that has been read to its end."""
        parts = bytearray()
        # The time-out of httpx is for every part of an answer by itself.
        with anyio.fail_after(self.server.timeout_s):
            async with client.stream(method, url, json=body) as response:
                packed = response.headers.get("Content-Encoding", "").lower()
                if packed not in _PACKED:
                    wrong = f"the answer is packed by {packed!r}, which was not asked for"
                    raise httpx.DecodingError(wrong)
                async for part in response.aiter_bytes():
                    parts += part
                    if len(parts) > _MOST_BYTES:
                        wrong = f"the answer is longer than {_MOST_BYTES:,} bytes"
                        raise httpx.DecodingError(wrong)
        wait = {"Retry-After": response.headers.get("Retry-After", "")}
        return httpx.Response(response.status_code, headers=wait, content=bytes(parts))

    def _keyless(self, text: str, most: int | None = _EXCERPT) -> str:
        hidden = text.replace(self._key, HIDDEN) if len(self._key) >= _SECRET else text
        return hidden[:most]

    def _reason(self, error: Exception) -> str:
        reason = f"{type(error).__name__} {error}".strip()
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):  # which say nothing more
            reason = f"{reason} (server.timeout_s is {self.server.timeout_s:g})"
        return self._keyless(masked_url(reason))

    def _sample_of(self, answer: httpx.Response, where: str, problem_id: str, index: int) -> Sample:
        content = _json(answer)
        if content is None:
            raise ServerError(f"{where}: the answer is not JSON: {self._keyless(answer.text)!r}")
        choice = _at(content, dict[str, Any], "choices", 0)
        finish_reason = _at(choice, _Word, "finish_reason")
        if self.server.chat:
            message = _at(choice, dict[str, Any], "message")
            text = None if message is None else reply_text(message, finish_reason=finish_reason)
        else:
            text = _at(choice, str, "text")
        if text is None:
            raise ServerError(f"{where}: the answer has no text: {self._keyless(str(content))}")
        logprobs = _at(choice, list[float], "logprobs", "token_logprobs")
        if not logprobs:
            tokens = _at(choice, list[_Token], "logprobs", "content") or []
            logprobs = [token.logprob for token in tokens]
        total = sum(logprobs)
        # Half a surrogate pair, which JSON can spell, is no character that a file can hold.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return Sample(
            problem_id=problem_id,
            sample=index,
            completion=self._keyless(text, None),
            tokens=_at(content, _Count, "usage", "completion_tokens"),
            finish_reason=finish_reason,
            logprob=round(total, 4) if logprobs and math.isfinite(total) else None,
        )


def _status_of(answer: httpx.Response) -> int:
    """Return the status of an answer, or that of the error which stands in its place.

    A gateway such as OpenRouter answers 200 where the server behind it has failed.
    """
    if answer.is_success and b'"error"' in answer.content:
        content = _json(answer)
        for place in (("error", "code"), ("choices", 0, "error", "code")):
            status: int | None = _at(content, _ErrorStatus, *place)
            if status is not None:
                return status
    return answer.status_code


def _json(answer: httpx.Response) -> Any:
    """Return the JSON of an answer, None where it is none."""
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError):
        return None


def _at(content: Any, kind: Any, *path: str | int) -> Any:
    """Return the value at a path in the JSON of an answer, None where it is not of that kind."""
    try:
        for name in path:
            content = content[name]
        return msgspec.convert(content, kind)
    except (LookupError, TypeError, msgspec.ValidationError):
        return None
