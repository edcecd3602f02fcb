"""Files of other tools: their logs read, and our runs written for them."""

from maxatk.exchange.formats import FORMATS
from maxatk.exchange.log_rows import LogRow
from maxatk.exchange.mapping import parse_mapping
from maxatk.exchange.open_log import read_log

__all__ = ["FORMATS", "LogRow", "parse_mapping", "read_log"]
