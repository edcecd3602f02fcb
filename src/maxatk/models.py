"""Models by name, local folders or on the hub: told apart, identified, tokenizers loaded."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingFileError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CONFIG = "config.json"  # what every model has, so that its presence in the cache says enough
ANSWER_S = 5.0  # seconds that the hub has for an answer; without a network it fails at once
_BLOCKS = 16  # of a file of weights, for its fingerprint
_BLOCK_SIZE = 1 << 16


def refuse_missing_folder(model: str) -> None:
    """Raise MissingFileError where `model` means a local folder that holds no model.

    It does where there is one, where it starts with . or / or ~, has more than one slash, or lies
    in a folder that exists here; anything else may be a name on the hub.
    """
    if not model:  # which would be the current folder
        raise MissingFileError("model: '' is neither a folder nor a name on the hub")
    folder = Path(model)
    if folder.is_dir():
        if not (folder / _CONFIG).is_file():
            adapter = (folder / "adapter_config.json").is_file()
            hint = "; --adapter takes an adapter, and --model what it is for" if adapter else ""
            raise MissingFileError(f"model: the folder {model!r} holds no {_CONFIG}{hint}")
        return
    beside = "/" in model and folder.parent.is_dir()
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or beside:
        raise MissingFileError(f"model: there is no folder {model!r}")


def refuse_missing_model(model: str, *, revision: str | None = None) -> None:
    """Raise MissingFileError where `model` is neither a local model nor a name on the hub."""
    refuse_missing_folder(model)
    reason = None if Path(model).is_dir() else why_missing(model, revision=revision)
    if reason is not None:
        raise MissingFileError(f"model: {model!r} is no folder here, and {reason}")


def why_missing(
    name: str, *, kind: Literal["model", "dataset"] = "model", revision: str | None = None
) -> str | None:
    """Return why a name cannot be loaded from the hub, or None where it can be.

    A model in the cache needs no network. Without the package huggingface_hub the answer is None.
    """
    try:
        from huggingface_hub import HfApi, constants, try_to_load_from_cache
        from huggingface_hub.errors import RepositoryNotFoundError
    except ImportError:
        return None
    try:
        if kind == "model" and try_to_load_from_cache(name, _CONFIG, revision=revision):
            return None
        if constants.HF_HUB_OFFLINE:
            return f"HF_HUB_OFFLINE is set and no {kind} of that name is in the cache"
        ask = HfApi().model_info if kind == "model" else HfApi().dataset_info
        ask(name, revision=revision, timeout=ANSWER_S)
    except RepositoryNotFoundError:
        return f"the hub has no {kind} of that name, or it is not yours to read"
    except Exception as error:  # of the hub's own tree, of its client, and of no name that can be
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"the hub does not give it ({reason:.200})"
    return None


@dataclasses.dataclass(frozen=True)
class PromptSettings:
    """How a problem's prompt becomes what the model reads.

    Args:
        template: "auto" makes it a user's turn of the tokenizer's chat template, if there is one;
            "none" leaves it as it is; anything else is a file with a template.
        system: A turn of the system before it.
        template_arguments: Handed to the template, such as {"enable_thinking": False}.

    Raises InvalidValueError for turns or arguments without a template, MissingFileError.
    """

    template: str = "auto"
    system: str | None = None
    template_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.template == "none" and (self.system or self.template_arguments):
            raise InvalidValueError(
                "prompt: template 'none' has neither a system turn nor template_arguments"
            )
        arguments = self.template_arguments
        is_mapping = isinstance(arguments, Mapping)
        require(is_mapping, "prompt.template_arguments", "a mapping", arguments)
        if self.template not in ("auto", "none") and not Path(self.template).is_file():
            raise MissingFileError(f"prompt.template: there is no file {self.template!r}")

    @property
    def turns_before(self) -> list[dict[str, str]]:
        """Return the turns before the user's."""
        return [] if self.system is None else [{"role": "system", "content": self.system}]

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object, with the hash of a template's file."""
        row = {**dataclasses.asdict(self), "template_arguments": dict(self.template_arguments)}
        if self.template not in ("auto", "none"):
            content = Path(self.template).read_bytes()
            row["template"] = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return row


def load_tokenizer(
    model: str, *, revision: str | None = None, prompt: PromptSettings | None = None
) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model as its folder declares it; `prompt` decides its template.

    Raises OSError without a tokenizer, InvalidValueError without a template that `prompt` needs.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    config = Path(model) / "tokenizer_config.json"
    declared = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    # AutoTokenizer follows the model's type: beside a Qwen2 config it ignores the pre-tokenizer of
    # tokenizer.json, which changes the ids. The generic class means that file as it is.
    generic = declared.get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend")
    chosen: Any = PreTrainedTokenizerFast if generic else AutoTokenizer
    tokenizer: PreTrainedTokenizerBase = chosen.from_pretrained(model, revision=revision or "main")
    prompt = prompt or PromptSettings()
    if prompt.template == "none":
        tokenizer.chat_template = None
    elif prompt.template != "auto":
        tokenizer.chat_template = Path(prompt.template).read_text(encoding="utf-8")
    elif tokenizer.chat_template is None and (prompt.system or prompt.template_arguments):
        raise InvalidValueError(
            f"prompt: {model!r} has no chat template for a system turn or template_arguments"
        )
    return tokenizer


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep transformers from drawing bars, and what one library deprecates in another to itself."""
    from transformers.utils import logging

    bars_were_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
            yield
    finally:
        if bars_were_on:
            logging.enable_progress_bar()


def prompt_difference(trained: Mapping[str, Any], settings: PromptSettings) -> str | None:
    """Return the first setting of prompts that was another one in a training, or None."""
    for name in ("system", "template_arguments", "template"):
        before = trained.get(name) or None
        now = getattr(settings, name) or None
        if before != now and now != "auto":  # the tokenizer of a trained model has its template
            return f"prompt.{name}: {before!r} in its training, {now!r} now"
    return None


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, settings: PromptSettings | None = None
) -> list[int]:
    """Return the token ids of a prompt: a user's turn, or the text where there is no template.

    `settings` are those of `load_tokenizer`. Raises InvalidValueError where the template fails.
    """
    if tokenizer.chat_template is None:
        return list(tokenizer(prompt)["input_ids"])
    settings = settings or PromptSettings()
    turns = [*settings.turns_before, {"role": "user", "content": prompt}]
    try:
        text = tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, **settings.template_arguments
        )
    except Exception as error:  # whatever the template's own code raises
        raise InvalidValueError(f"prompt: the chat template fails: {error}") from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def fingerprint(model: str | Path) -> str | None:
    """Return a hash of sizes and spread blocks of a folder's weights, or None without any.

    Of a name on the hub nothing is known here.
    """
    folder = Path(model)
    if not folder.is_dir():
        return None
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    if not files:
        return None
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        last_start = max(0, size - _BLOCK_SIZE)
        with path.open("rb") as weights:
            for block in range(_BLOCKS):
                weights.seek(last_start * block // (_BLOCKS - 1))
                digest.update(weights.read(_BLOCK_SIZE))
    return digest.hexdigest()[:16]
