"""What the plug-in needs of verl, as `maxatk doctor` shows it."""

import pytest

from maxatk.engines.verl import surface
from maxatk.errors import MissingDependencyError


def test_the_installed_verl_has_all_that_the_plug_in_needs(capsys):
    pytest.importorskip("verl", reason="runs in its own environment: make test-verl")
    from maxatk.cli.small import doctor as command

    surface.check_surface()
    found = surface.surface() + surface.registrations()
    assert [part for part in found if not part.holds] == []
    assert len(found) > 15
    command()
    printed = capsys.readouterr().out
    assert "verl 0.9" in printed
    assert "maxatk_sync in" in printed


def test_another_version_is_named_with_the_remedy(monkeypatch):
    versions = {"verl": "0.10.0", "ray": "2.60.0", "TransferQueue": "0.1.11"}
    monkeypatch.setattr(surface.metadata, "version", versions.__getitem__)
    with pytest.raises(
        MissingDependencyError, match=r"verl 0.10.0: must be 0.9 or newer, below 0.10"
    ):
        surface.check_surface()


def test_nothing_installed_is_said_part_by_part(monkeypatch):
    def missing(name):
        raise surface.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(surface.metadata, "version", missing)
    with pytest.raises(MissingDependencyError) as refused:
        surface.check_surface()
    assert str(refused.value).count("is not installed") == 3
    assert "pip install 'maxatk[verl]'" in str(refused.value)


def test_a_name_that_moved_and_a_parameter_that_went_are_found(monkeypatch):
    used = {
        "json:loads": ("s", "no_such_parameter"),
        "json:no_such_function": (),
        "no_such_module:name": (),
    }
    versions = {"verl": "0.9.1", "ray": "2.60.0", "TransferQueue": "0.1.11"}
    monkeypatch.setattr(surface.metadata, "version", versions.__getitem__)
    monkeypatch.setattr(surface, "_USED", used)
    monkeypatch.setattr(surface, "_IN_SOURCE", {"json:loads": "no such text"})
    missing = [part for part in surface.surface() if not part.holds]
    assert [part.name for part in missing] == [*used, "no such text in json:loads"]
    assert "no_such_parameter" in missing[0].reason
