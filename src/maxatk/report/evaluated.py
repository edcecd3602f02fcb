"""The samples of an evaluation as it grows: a problem is a group, as in a training."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluation.folder import FAILURES, MANIFEST, PROMPTS, RESULTS, SAMPLES, SCORES
from maxatk.evaluation.open import load_results, scores_of_folder
from maxatk.evaluation.results import Results
from maxatk.evaluation.tally import build_results
from maxatk.folders import read_json
from maxatk.group_log import prompt_key


class Evaluation:
    """The evaluation in a `folder`; another process may append to its files.

    `results` are those of results.json, before it is there those of the problems that have all
    samples so far, and None before there is a score.
    """

    steps = (0,)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.results: Results | None = None
        self._version, self._rewards = "", dict[str, list[float | None]]()
        self._places: dict[str, int] = {}
        self.refresh()

    def refresh(self) -> str:
        """Read the scores again where there are more; return what stands for what is known."""
        files = [self._folder / name for name in (SCORES, RESULTS)]
        version = ".".join(str(file.stat().st_size) if file.is_file() else "-" for file in files)
        # A line that is being written, or none yet: the next call finds more.
        if version != self._version and files[0].is_file():
            with contextlib.suppress(DataError):
                self._read()
                self._version = version
        return self._version

    def _read(self) -> None:
        scores = scores_of_folder(self._folder)
        rewards, counts = scores.rewards(scores.problem_ids)
        self._rewards = {
            name: [None if value != value else value for value in row[:count]]
            for name, row, count in zip(scores.problem_ids, rewards.tolist(), counts, strict=True)
        }
        self._places = {prompt_key(name): place for place, name in enumerate(self._rewards)}
        if (self._folder / RESULTS).is_file():
            self.results = load_results(self._folder)
        else:
            most = max(map(len, self._rewards.values()))
            whole = [name for name, found in self._rewards.items() if len(found) == most]
            self.results = build_results(whole, None, scores, manifest={})

    @property
    def progress(self) -> str:
        """Return how far the evaluation is."""
        done, path = sum(map(len, self._rewards.values())), self._folder / MANIFEST
        settings = read_json(path).get("settings", {}) if path.is_file() else {}
        samples = settings.get("sampling", {}).get("samples", 0)
        wanted = samples * settings.get("problems", {}).get("count", 0)
        return f"{done:,}{f' of {wanted:,}' if wanted > done else ''} samples verified"

    def count(self, step: int) -> int:  # noqa: ARG002
        """Return how many problems have a score."""
        return len(self._rewards)

    def places(self, key: str) -> list[tuple[int, int]]:
        """Return step 0 and the place of the problem that a key stands for."""
        return [(0, self._places[key])] if key in self._places else []

    def group(self, step: int, place: int) -> dict[str, Any]:  # noqa: ARG002
        """Return a problem with all its samples, as a training has its groups."""
        name = list(self._rewards)[place]
        texts = {row["sample"]: row for row in self._lines(SAMPLES, name)}
        failures = {row["sample"]: row for row in self._lines(FAILURES, name)}
        samples = []
        for score in self._lines(SCORES, name):
            told = {"reward": score.get("reward"), "outcome": score.get("outcome")}
            told |= {"passed": score.get("passed"), "tests": score.get("total")}
            drawn = texts.get(score["sample"], {})
            told |= {"text": drawn.get("completion", ""), "tokens": drawn.get("tokens")}
            samples.append({**told, "failure": failures.get(score["sample"])})
        prompt = next((row["prompt"] for row in self._lines(PROMPTS, name)), "")
        return {"id": name, "group": prompt_key(name), "prompt": prompt, "samples": samples}

    def summary(self, step: int, place: int) -> dict[str, Any]:  # noqa: ARG002
        """Return the id of a problem and the rewards of its samples."""
        name = list(self._rewards)[place]
        samples = [{"reward": reward} for reward in self._rewards[name]]
        return {"id": name, "prompt": "", "samples": samples}

    def search(self, text: str, most: int) -> Iterator[tuple[int, int]]:
        """Yield step 0 and place of at most so many problems whose samples hold a text."""
        wanted = json.dumps(text.lower())[1:-1].encode()
        found: set[str] = set()
        for file in (SAMPLES, PROMPTS, FAILURES):
            for line in self._raw(file):
                if wanted in line.lower():
                    found.add(json.loads(line)["problem_id"])
        known = [(0, place) for place, name in enumerate(self._rewards) if name in found]
        yield from known[: max(most, 0)]

    def _lines(self, file: str, name: str) -> list[dict[str, Any]]:
        head = json.dumps({"problem_id": name})[:-1].encode() + b","
        return [json.loads(line) for line in self._raw(file) if line.startswith(head)]

    def _raw(self, file: str) -> Iterator[bytes]:
        if (self._folder / file).is_file():
            with (self._folder / file).open("rb") as lines:
                yield from (line for line in lines if line.endswith(b"}\n"))
