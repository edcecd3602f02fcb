import pytest

from maxatk.sampling import SamplingSettings
from maxatk.sampling.draw import Stopper, end_of

BLOCK = "Here it is:\n```python\nprint(1)\n```\n"
FENCE = SamplingSettings(stop_at_fence=True)


def stops_at(text, settings):
    """Return how many characters are drawn when every character is a token."""
    stopper = Stopper(settings, "".join)
    for count in range(1, len(text) + 1):
        if stopper.ends(text[:count]):
            return count
    return None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (BLOCK + "More.", BLOCK[:-1]),
        ("```\nx\n```\nmore", "```\nx\n```"),
        ("````\n```\nx\n```\n````\nmore", "````\n```\nx\n```\n````"),
        ("~~~py\nx\n~~~\nmore", "~~~py\nx\n~~~"),
        ("  ```py\n  x\n  ```  \nmore", "  ```py\n  x\n  ```  "),
    ],
)
def test_a_completion_ends_behind_its_first_closed_block(text, kept):
    assert text[: end_of(text, FENCE)] == kept
    assert stops_at(text, FENCE) == len(kept) + 1
    assert Stopper(FENCE, "".join).text(text) == kept


@pytest.mark.parametrize("text", ["no code", "```python\nx = 1\n", "```py\nx\n```", "`x`\n`y`\n"])
def test_an_open_block_goes_on(text):
    assert end_of(text, FENCE) is None
    assert stops_at(text, FENCE) is None


def test_the_first_of_several_stops_counts():
    settings = SamplingSettings(stop=("END", "\nclass"), stop_at_fence=True)
    text = "a\nclass B END"
    assert text[: end_of(text, settings)] == "a"
    assert stops_at(text, settings) == len("a\nclass")
    assert stops_at("nothing of it", settings) is None
