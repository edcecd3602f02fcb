"""Models by name, local folders or on the hub: told apart, identified, tokenizers loaded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from maxatk.errors import MissingFileError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")


def refuse_missing_folder(model: str) -> None:
    """Raise MissingFileError where `model` means a local folder that holds no model.

    A name is taken for a folder when it is one, when it starts with . or / or ~, has more than
    one slash, or lies in a folder that exists here; anything else may be a name on the hub.
    """
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise MissingFileError(f"model: the folder {model!r} holds no config.json")
        return
    beside = "/" in model and folder.parent.is_dir()
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or beside:
        raise MissingFileError(f"model: there is no folder {model!r}")


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model as its folder declares it; for training and evaluation.

    AutoTokenizer follows the model's type: beside a Qwen2 config it builds a Qwen2Tokenizer and
    ignores the pre-tokenizer in tokenizer.json, which changes the ids. A folder that declares the
    generic class means tokenizer.json as it is. Raises OSError where there is no tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    config = Path(model) / "tokenizer_config.json"
    if config.is_file():
        declared = json.loads(config.read_text(encoding="utf-8")).get("tokenizer_class")
        if declared in _GENERIC_TOKENIZERS:
            return PreTrainedTokenizerFast.from_pretrained(model)
    return AutoTokenizer.from_pretrained(model)


def prompt_ids(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """Return the token ids of a prompt: a user's turn, or the text where there is no template.

    The ids are those the sampling backends and the trainer feed to the model.
    """
    if tokenizer.chat_template is None:
        ids: list[int] = tokenizer(prompt)["input_ids"]
        return ids
    turns = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def fingerprint(model: str | Path, *, blocks: int = 16, block_size: int = 1 << 16) -> str | None:
    """Return a hash of a local folder's weight files, or None for a hub name.

    It covers sizes and `blocks` spread blocks of every file, not every byte: enough to tell two
    checkpoints apart in milliseconds, whatever their size.
    """
    folder = Path(model)
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as weights:
            for block in range(blocks):
                weights.seek(max(0, size - block_size) * block // (blocks - 1))
                digest.update(weights.read(block_size))
    return digest.hexdigest()[:16]
