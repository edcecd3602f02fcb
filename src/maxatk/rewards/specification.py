"""What a recipe may say under `reward:`, read and described, without any of its functions."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.check import is_number, require
from maxatk.errors import InvalidValueError, suggestion, unknown_name

NAMED = ("continuous", "binary", "visible_tests", "answer")
TIMEOUT_S = 300.0
_KEYS = ("reward", "model", "weight", "timeout_s", "on_error")
ON_ERROR = ("stop", "zero", "drop")
_ALLOWED = (
    f"{', '.join(NAMED)}, module:function, file.py:function, {{model: name}}, or a list of "
    "{reward: ..., weight: ...}"
)


@dataclasses.dataclass(frozen=True)
class RewardSpec:
    """One part of a reward as a recipe names it.

    `kind` is a name in `NAMED`, "function" or "model"; `target` is what a function or a model is
    called. `timeout_s` bounds one call of a function.

    `on_error` is about completions that a function or a model fails for. "zero" counts them as 0
    and "drop" leaves them out. "stop" counts them as 0 as long as they are at most 5% (one of
    fewer than 20) and no reward is below 0, and ends the command
    otherwise, so that no score rises by them.
    """

    kind: str
    target: str
    weight: float = 1.0
    timeout_s: float = TIMEOUT_S
    on_error: str = "stop"

    @property
    def name(self) -> str:
        """What the column of this part is called."""
        return self.target if self.kind == "model" else self.target.rpartition(":")[2]


def read_spec(value: Any) -> tuple[RewardSpec, ...]:
    """Return the parts of a reward; `value` is what a recipe holds under `reward`.

    Raises InvalidValueError for anything else than a name, a function, a model or a list of those
    with weights, and for two parts of one name.
    """
    items = value if isinstance(value, list) else [value]
    specs = tuple(_one(item) for item in items)
    names = [spec.name for spec in specs]
    repeated = [name for name in names if names.count(name) > 1]
    if not specs or repeated:
        raise InvalidValueError(
            f"reward: every part needs a name of its own, got {names}; allowed: {_ALLOWED}"
        )
    return specs


def _one(item: Any) -> RewardSpec:
    if isinstance(item, str):
        return _named(item)
    if not isinstance(item, Mapping) or ("reward" in item) == ("model" in item):
        raise InvalidValueError(f"reward: got {item!r}; allowed: {_ALLOWED}")
    for key in item:
        if key not in _KEYS:
            raise InvalidValueError(
                f"reward: unknown key {key!r}; allowed: {', '.join(_KEYS)}{suggestion(key, _KEYS)}"
            )
    if not isinstance(item.get("model", ""), str):
        raise InvalidValueError(f"reward.model: must be text, got {item['model']!r}")
    spec = RewardSpec("model", item["model"]) if "model" in item else _named(item["reward"])
    return dataclasses.replace(
        spec,
        weight=_number(item, "weight", 1.0),
        timeout_s=_number(item, "timeout_s", TIMEOUT_S, positive=True),
        on_error=_on_error(item, spec.kind),
    )


def _on_error(item: Mapping[str, Any], kind: str) -> str:
    value = item.get("on_error", "stop")
    if value not in ON_ERROR:
        raise unknown_name("reward.on_error", value, ON_ERROR)
    if "on_error" in item and kind in NAMED:
        raise InvalidValueError(f"reward.on_error: is for functions and models, got it for {kind}")
    return str(value)


def _named(text: Any) -> RewardSpec:
    if text in NAMED:
        return RewardSpec(text, text)
    place, colon, function = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not place or not function.isidentifier():
        hint = suggestion(str(text), NAMED)
        raise InvalidValueError(f"reward: unknown value {text!r}; allowed: {_ALLOWED}{hint}")
    return RewardSpec("function", text)


def _number(item: Mapping[str, Any], key: str, default: float, *, positive: bool = False) -> float:
    value = item.get(key, default)
    wanted = "a positive number" if positive else "a number"
    fits = is_number(value) and (value > 0 or not positive)
    require(fits, f"reward.{key}", wanted, value)
    return float(value)


def describe_reward(value: Any) -> list[dict[str, Any]]:
    """Return what identifies a reward for the record of a run: its parts and their sources."""
    described = []
    for spec in read_spec(value):
        row = dataclasses.asdict(spec)
        path = Path(spec.target.rpartition(":")[0])
        if spec.kind == "function" and path.suffix == ".py" and path.is_file():
            row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        described.append(row)
    return described
