"""Settings of transformers that keep the token of the hub out of the files of a model."""

from __future__ import annotations

from typing import Any


class HiddenToken:
    """Settings that are pickled without their `hub_token`.

    transformers pickles the settings of a trainer beside the weights, in every checkpoint and
    before each push to the hub, where the file may be for all to read.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a pickle, and for a copy too."""
        return {**vars(self), "hub_token": None}
