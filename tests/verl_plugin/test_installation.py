"""What the plug-in needs of verl, as `maxatk doctor` shows it."""

import pytest

from maxatk.errors import MissingDependencyError
from maxatk.verl import installation


def test_the_installed_verl_has_all_that_the_plug_in_needs(capsys):
    pytest.importorskip("verl", reason="runs in its own environment: make test-verl")
    from maxatk.cli.doctor import command

    installation.check_versions()
    parts = installation.versions() + installation.registrations()
    assert [part for part in parts if not part.holds] == []
    command()
    printed = capsys.readouterr().out
    assert "verl 0.9" in printed
    assert "maxatk_sync in" in printed
    assert "maxatk_separate_async in" in printed


def test_another_version_is_named_with_the_remedy(monkeypatch):
    versions = {"verl": "0.10.0", "ray": "2.60.0", "TransferQueue": "0.1.11"}
    monkeypatch.setattr(installation.metadata, "version", versions.__getitem__)
    with pytest.raises(MissingDependencyError, match=r"verl 0.10.0: must be >=0.9,<0.10"):
        installation.check_versions()


def test_nothing_installed_is_said_part_by_part(monkeypatch):
    def missing(name):
        raise installation.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation.metadata, "version", missing)
    with pytest.raises(MissingDependencyError) as refused:
        installation.check_versions()
    assert str(refused.value).count("is not installed") == 3
    assert "pip install 'maxatk[verl]'" in str(refused.value)


def test_a_trainer_that_cannot_be_imported_is_told_with_the_reason(monkeypatch):
    monkeypatch.setattr(installation, "_REGISTERED", {"maxatk": ("no_such_verl:TABLE", "rows")})
    (part,) = installation.registrations()
    assert part.reason == "ModuleNotFoundError: No module named 'no_such_verl'"
    assert not part.holds


def test_an_entry_point_that_was_not_loaded_is_missing(monkeypatch):
    monkeypatch.setattr(installation, "_REGISTERED", {"maxatk": ("string:digits", "rows")})
    (part,) = installation.registrations()
    assert (part.holds, part.reason) == (False, "the entry point was not loaded")
