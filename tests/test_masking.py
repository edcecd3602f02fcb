import json

import pytest

from maxatk.errors import InvalidValueError, ServerError
from maxatk.evaluation.folder import MANIFEST, check_folder, write_manifest
from maxatk.folders import refuse_other_settings
from maxatk.sampling import ModelSettings, Request, ServerSettings
from maxatk.sampling.openai import OpenAIBackend
from maxatk.sampling.settings import SamplingSettings
from maxatk.settings import HIDDEN, masked

SETTINGS = {
    "model": "m",
    "trainer": {"hub_token": "hf_abc", "eos_token": "<|end|>", "max_tokens": 5, "push": True},
    "servers": [{"url": "https://me:word@host:1/v1?x=y@z", "api_key": "k", "key_variable": "NAME"}],
    "empty": {"password": "", "token": None},
}


def test_secrets_are_hidden_and_nothing_else():
    assert masked(SETTINGS) == {
        "model": "m",
        "trainer": {"hub_token": HIDDEN, "eos_token": "<|end|>", "max_tokens": 5, "push": True},
        "servers": [
            {"url": f"https://{HIDDEN}@host:1/v1?x=y@z", "api_key": HIDDEN, "key_variable": "NAME"}
        ],
        "empty": {"password": "", "token": None},
    }


@pytest.mark.parametrize("text", ["http://host/a@b", "me@host", "a://", "write to a@b: http://c"])
def test_other_texts_stay_as_they_are(text):
    assert masked(text) == text


def test_a_manifest_holds_no_secret_and_another_one_is_no_other_setting(tmp_path):
    write_manifest(tmp_path / "run", SETTINGS, threshold=1.0)
    written = (tmp_path / "run" / MANIFEST).read_text()
    assert "hf_abc" not in written
    assert "word" not in written.replace("password", "")
    renewed = json.loads(json.dumps(SETTINGS).replace("hf_abc", "hf_def"))
    (tmp_path / "run" / "scores.jsonl").write_text("{}")
    check_folder(tmp_path / "run", renewed)
    with pytest.raises(InvalidValueError, match=r"model: 'm' in the folder, 'n' now"):
        refuse_other_settings(tmp_path, {**SETTINGS}, {**renewed, "model": "n"})


def test_no_message_about_a_server_names_a_password():
    server = ServerSettings(url="http://me:word@127.0.0.1:9/v1", retries=0, timeout_s=2.0)
    backend = OpenAIBackend("m", ModelSettings("openai", server=server))
    with pytest.raises(ServerError) as caught:
        backend.prepare({"p": "x"}, SamplingSettings())
    assert "word" not in str(caught.value)
    with pytest.raises(ServerError) as caught:
        list(backend.sample([Request("p", "x", range(1))], SamplingSettings()))
    assert "word" not in str(caught.value)
    with pytest.raises(InvalidValueError) as refused:
        ServerSettings(url="ftp://me:word@host")
    assert "word" not in str(refused.value)
