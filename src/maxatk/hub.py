"""Names on the hub, asked for once and briefly: the libraries that load ask with many retries."""

from __future__ import annotations

from typing import Literal

ANSWER_S = 5.0  # seconds that the hub has for an answer; without a network it fails at once

_CONFIG = "config.json"  # what every model has, so that its presence in the cache says enough


def why_missing(
    name: str, *, kind: Literal["model", "dataset"] = "model", revision: str | None = None
) -> str | None:
    """Return why a name cannot be loaded from the hub, or None where it can be.

    A model in the cache needs no network. Without the package huggingface_hub nothing is known,
    and the answer is None: whatever loads the model names what has to be installed.
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
        api = HfApi()
        ask = api.model_info if kind == "model" else api.dataset_info
        ask(name, revision=revision, timeout=ANSWER_S)
    except RepositoryNotFoundError:
        return f"the hub has no {kind} of that name, or it is not yours to read"
    except Exception as error:  # of the hub's own tree, of its client, and of no name that can be
        return f"the hub does not give it ({_first_line(error)})"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
