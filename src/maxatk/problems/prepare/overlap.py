"""Which problems of Codeforces a data set holds: keys that data sets of different makers share.

A key is (contest, index), such as ("1041", "E"). Codeforces gives one problem several keys when
two divisions share it; open-r1/codeforces lists them as aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from maxatk.problems.benchmarks.base import Row

ContestKey: TypeAlias = tuple[str, str]
KEY_COLUMNS = ("name", "cf_contest_id", "cf_index")  # what `contest_keys` needs of CodeContests

_NAME = re.compile(r"(?:code_contests/)?(\d+)_([A-Z]\d*)\. ")
_ID = re.compile(r"(?:codeforces/)?(\d+)/([A-Z]\d*)\Z")


def contest_keys(row: Row) -> set[ContestKey]:
    """Return the key of a CodeContests row, of a problem made from one, or nothing.

    It is taken from `cf_contest_id` and `cf_index`, and from the name or id
    (`1041_E. Tree Reconstruction`) too, where they name a problem of Codeforces.
    """
    keys: set[ContestKey] = set()
    if row.get("cf_contest_id") and row.get("cf_index"):
        keys.add((str(row["cf_contest_id"]), str(row["cf_index"]).upper()))
    named = _NAME.match(str(row.get("name") or row.get("id") or ""))
    if named:
        keys.add((named[1], named[2]))
    return keys


def codeforces_keys(row: Row) -> set[ContestKey]:
    """Return the keys of an open-r1/codeforces row: its id, its contest and index, its aliases."""
    names: Iterable[object] = [
        row.get("id"),
        f"{row.get('contest_id')}/{row.get('index')}",
        *(row.get("aliases") or ()),
    ]
    found = (_ID.match(str(name).strip().upper().replace("CODEFORCES/", "")) for name in names)
    return {(match[1], match[2]) for match in found if match}
