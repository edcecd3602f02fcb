"""The keys `environment` and `tools` of a training recipe: read, loaded and checked."""

from __future__ import annotations

import dataclasses
import inspect
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import trl
from transformers.utils import get_json_schema

from maxatk.check import needing, one_of, require
from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.train.message_calls import call_by_messages, keeps_messages, training_template
from maxatk.train.programs import TURNS, Programs
from maxatk.verifier import Verifier

PROGRAMS = "programs"
"""The name of `Programs` in a recipe."""

Tools: TypeAlias = list[Callable[..., Any]]

_ALLOWED = f"{PROGRAMS}, module:Name, file.py:Name, or {{name: one of these, and its arguments}}"
_CALLS = ("tool", "messages")
_ARGUMENTS = ("turns", "time_limit", "calls")  # of `programs` in a recipe


@dataclasses.dataclass(frozen=True, eq=False)
class Factory:
    """Makes an environment with each call, as TRL asks for one: by a class or a function."""

    made_by: Callable[..., Any]
    arguments: Mapping[str, Any]

    def __call__(self) -> Any:
        """Return a new environment."""
        return self.made_by(**self.arguments)


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What a recipe says of its environment.

    With `calls` "messages" every message of the model is a program that is submitted.
    """

    name: str
    arguments: Mapping[str, Any]
    calls: str = "tool"

    @property
    def most_answers(self) -> int | None:
        """How often TRL may answer a rollout, None for any number."""
        if self.name != PROGRAMS:
            return None
        turns: int = self.arguments.get("turns", TURNS)
        # The program of the last turn needs no answer where the model does nothing with one.
        return turns - 1 if self.calls == "messages" else turns

    @property
    def needed_answers(self) -> int:
        """How often TRL has to answer for all turns: the program of the last needs no answer."""
        turns: int = self.arguments.get("turns", TURNS)
        return turns - 1 if self.name == PROGRAMS else 0


def read_environment(value: Any) -> EnvironmentSpec | None:
    """Return what a recipe's `environment` says; raises InvalidValueError."""
    if value is None:
        return None
    arguments: dict[str, Any] = {}
    name = value
    if isinstance(value, Mapping):
        arguments = dict(value)
        name = arguments.pop("name", None)
    is_name = isinstance(name, str) and (name == PROGRAMS or ":" in name)
    require(is_name, "environment", _ALLOWED, value)
    for argument in arguments:
        require(isinstance(argument, str), "environment", "a mapping with names as keys", argument)
    if name != PROGRAMS:
        return EnvironmentSpec(name, arguments)
    for argument in arguments:  # not `verifier`, which is a section of the recipe
        one_of("environment", argument, _ARGUMENTS)
    calls = arguments.pop("calls", "tool")
    require(calls in _CALLS, "environment.calls", " or ".join(_CALLS), calls)
    try:
        Programs(**arguments)
    except InvalidValueError as error:
        raise InvalidValueError(f"environment.{error}") from error
    return EnvironmentSpec(name, arguments, calls)


def read_tools(value: Any) -> list[str]:
    """Return the names of a recipe's `tools`; raises InvalidValueError for anything else."""
    is_list_of_names = isinstance(value, list) and all(isinstance(item, str) for item in value)
    require(is_list_of_names, "tools", "a list of module:function or file.py:function", value)
    return list(value)


def load_environment(value: Any, *, verifier: Verifier) -> Factory | None:
    """Return what makes the environments that a recipe names, None for none.

    `Programs` runs the visible tests on `verifier`. Raises InvalidValueError for a name without a
    class that has `reset`, for a tool of it that cannot be described to a model, and for arguments
    that it does not take; MissingFileError without file.
    """
    spec = read_environment(value)
    if spec is None:
        return None
    if spec.name == PROGRAMS:
        return Factory(Programs, {"verifier": verifier, **spec.arguments})
    made_by = load_function(spec.name, field="environment")
    is_environment = not inspect.isclass(made_by) or hasattr(made_by, "reset")
    require(is_environment, "environment", "a class with a method `reset`", spec.name)
    for method in _tools_of(made_by):
        _check_tool("environment", spec.name, method)
    try:
        inspect.signature(made_by).bind(**spec.arguments)
    except TypeError as error:
        raise InvalidValueError(
            f"environment: {spec.name!r} cannot be made with {sorted(spec.arguments)}: {error}"
        ) from error
    return Factory(made_by, spec.arguments)


def load_tools(value: Any) -> Tools:
    """Return the functions that a recipe names.

    Raises as `load_function`, and InvalidValueError for one that cannot be described to a model.
    """
    tools = []
    for name in read_tools(value):
        tool = load_function(name, field="tools")
        _check_tool("tools", name, tool)
        tools.append(tool)
    return tools


def check_tools(factory: Factory | None, tools: Tools) -> None:
    """Raise InvalidValueError for tools of one name, by which a model calls them.

    Warn of an environment that leaves the model without any.
    """
    made_by = None if factory is None else factory.made_by
    all_tools: list[Any] = [*tools, *_tools_of(made_by)]
    names = [tool.__name__ for tool in all_tools]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    allowed = "of different names, those of an environment's methods too"
    require(not twice, "tools", allowed, twice)
    if inspect.isclass(made_by) and not names:
        warnings.warn(
            f"environment: {made_by.__name__} has no public method beside reset and get_reward, "
            "so the model has no tool, and a rollout is one message",
            stacklevel=4,
        )


def check_reset(factory: Factory | None, columns: Iterable[str]) -> None:
    """Raise InvalidValueError for an environment whose `reset` does not take the rows' columns.

    Of a factory that is a function nothing is known before it is called.
    """
    if factory is None or not inspect.isclass(factory.made_by):
        return
    made_by = factory.made_by
    reset = _as_of_an_object(made_by, "reset")
    try:
        inspect.signature(reset).bind(**dict.fromkeys(columns))
    except TypeError as error:
        raise InvalidValueError(
            f"environment: {made_by.__name__}.reset is called with the columns of a row and does "
            f"not take them: {error}; allowed: def reset(self, **row)"
        ) from error


def _tools_of(made_by: Any) -> list[Any]:
    """Return the methods of a class that TRL makes tools of; none of a factory that is no class."""
    if not inspect.isclass(made_by):
        return []
    return [
        _as_of_an_object(made_by, name)
        for name, _ in inspect.getmembers(made_by, inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    ]


def _as_of_an_object(made_by: type, name: str) -> Callable[..., Any]:
    """Return a method of a class with the arguments that it takes when an object has it."""
    method: Callable[..., Any] = getattr(made_by, name)
    takes_no_object = isinstance(inspect.getattr_static(made_by, name), (staticmethod, classmethod))
    # Bound to the class for want of an object: what is described has no `self`.
    return method if takes_no_object else types.MethodType(method, made_by)


def _check_tool(field: str, name: str, tool: Callable[..., Any]) -> None:
    """Raise InvalidValueError for a function of which no description for a model can be made."""
    try:
        get_json_schema(tool)
    except Exception as error:  # whatever its type hints and its docstring make transformers raise
        raise InvalidValueError(
            f"{field}: {name!r}: {error}; allowed: tools with type hints and a docstring that "
            "describes every argument below `Args:`"
        ) from error


def prepare_tokenizer(tokenizer: Any, environment: Any, tools: Any) -> None:
    """Let a tokenizer show and read calls as a recipe's keys need it.

    Raises InvalidValueError for a chat template that cannot show the calls of tools, or changes
    earlier messages when later ones follow.
    """
    spec = read_environment(environment)
    if spec is None and not tools:
        return
    with needing(f"trl {trl.__version__}: tools and environments need 1.16: pip install trl==1.16"):
        from trl.chat_template_utils import supports_tool_calling
    if spec is not None and spec.calls == "messages":
        require(not tools, "tools", "left out beside an environment with calls: messages", tools)
        call_by_messages(tokenizer)
    field = "tools" if spec is None else "environment"
    if not supports_tool_calling(tokenizer):
        raise InvalidValueError(
            f"{field}: needs a model whose chat template shows calls of tools and their answers, "
            "which this model's does not; allowed: another model or prompt.template, and "
            "{name: programs, calls: messages}, which needs no such template"
        )
    if not keeps_messages(tokenizer) and training_template(tokenizer) is None:
        raise InvalidValueError(
            f"{field}: needs a model whose chat template shows a message as before when others "
            "follow, or for which TRL has such a template, and this model's is neither; allowed: "
            "another model or prompt.template"
        )
