"""A GGUF file of a Llama model as an ordinary model folder of transformers.

transformers reads such a file but does not write what it has read, and it loses two things: how the
text is split before the byte pairs are merged, and the tokens that end a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.models import no_progress_bar

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
PRE_TOKENIZERS: Mapping[str, Mapping[str, Any]] = {
    "gpt-2": _BYTES,
    "smollm": {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTES]},
}
"""What `tokenizer.ggml.pre` of a GGUF file means in tokenizer.json, as llama.cpp has it."""

_PRE, _CONTEXT = "tokenizer.ggml.pre", "llama.context_length"
_OF_THE_READER = ("quantization_config", "_name_or_path", "_model_name_or_path", "dtype")


def write_model_folder(file: Path, out: Path) -> None:
    """Write weights, config and tokenizer of a GGUF file to the folder `out`.

    The weights are float32: exactly the values that the file stands for. Raises DataError for a
    file of another architecture or with an unknown pre-tokenizer, ModuleNotFoundError without the
    package gguf.
    """
    header = _checked_header(file)
    pre_tokenizer = PRE_TOKENIZERS[header[_PRE]]
    with no_progress_bar():
        _write_tokenizer(file, out, pre_tokenizer=pre_tokenizer, context=header[_CONTEXT])
        _write_model(file, out)


def _checked_header(file: Path) -> Mapping[str, Any]:
    """Return the fields of the file's header; refuse what this module does not know."""
    from gguf import GGUFReader

    try:
        fields = GGUFReader(file).fields
    except (ValueError, IndexError, KeyError) as error:
        raise DataError(f"{file}: is no GGUF file ({error})") from error
    for name, allowed in (
        ("general.architecture", ("llama",)),
        ("tokenizer.ggml.model", ("gpt2",)),
        (_PRE, tuple(PRE_TOKENIZERS)),
    ):
        found = fields[name].contents() if name in fields else None
        if found not in allowed:
            raise DataError(f"{file}: {name} must be {' or '.join(allowed)}, got {found!r}")
    return {name: fields[name].contents() for name in (_PRE, _CONTEXT)}


def _write_model(file: Path, out: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

    read = AutoModelForCausalLM.from_pretrained(
        str(file.parent), gguf_file=file.name, dtype=torch.float32
    )
    fields = {k: v for k, v in read.config.to_dict().items() if k not in _OF_THE_READER}
    config = LlamaConfig(**fields)
    with torch.device("meta"):  # what is read is assigned: there is nothing to draw at random
        model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    config.dtype = torch.float32
    ends = {name: getattr(config, name) for name in ("bos_token_id", "eos_token_id")}
    model.generation_config = GenerationConfig(**ends, pad_token_id=config.pad_token_id)
    model.save_pretrained(out)


def _write_tokenizer(
    file: Path, out: Path, *, pre_tokenizer: Mapping[str, Any], context: int
) -> None:
    import tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    read = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    whole = json.loads(read.backend_tokenizer.to_str())
    # The generic class: the class of the model's type would build a pre-tokenizer of its own.
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(
            json.dumps({**whole, "pre_tokenizer": pre_tokenizer})
        ),
        chat_template=read.chat_template,
        model_max_length=context,
        **read.special_tokens_map,
    ).save_pretrained(out)
