import math

import pytest

from maxatk.errors import InvalidValueError
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings


def test_defaults_are_the_papers():
    assert SamplingSettings().to_json() == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "stop": [],
        "stop_at_fence": False,
        "max_new_tokens": 256,
        "seed": 0,
        "samples": 256,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("temperature", "warm"),
        ("temperature", None),
        ("top_p", "0.9"),
        ("min_p", [0]),
        ("stop", 5),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", 1.0),
        ("stop", "text"),
        ("stop", [""]),
        ("max_new_tokens", 0),
        ("samples", 0),
        ("samples", 2.5),
        ("samples", True),
        ("seed", -1),
    ],
)
def test_bad_values_name_the_field_and_the_value(field, value):
    with pytest.raises(InvalidValueError, match=rf"SamplingSettings\.{field}: must be .* got"):
        SamplingSettings(**{field: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 2.5}, r"batch_size: must be an integer of 1 or more, got 2\.5"),
        ({"batch_size": True}, r"batch_size: must be an integer of 1 or more, got True"),
        ({"dtype": "float8"}, r"dtype: unknown value 'float8'.*float16"),
    ],
)
def test_a_model_is_not_opened_with_settings_that_no_backend_has(changes, message):
    with pytest.raises(InvalidValueError, match=message):
        ModelSettings(**changes)


@pytest.mark.parametrize("url", [5, "ftp://host"])
def test_what_is_no_address_of_a_server_is_refused(url):
    with pytest.raises(InvalidValueError, match=r"ServerSettings.url: must be an address of http"):
        ServerSettings(url=url)
