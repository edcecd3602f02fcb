"""The compilers of this machine: where they are, what they call themselves, what they need."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import subprocess
from pathlib import Path

from maxatk.errors import SandboxError
from maxatk.verifier.languages import Compiler, Language

# Where a compiler, its parts and its headers may lie. No folder of this list holds data of a user.
_FOLDERS = (
    "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/lib",
    "/lib64", "/bin", "/etc/alternatives",
)  # fmt: skip
_SECONDS = 20.0
_FEW_MESSAGES = {
    "g++": ("-fmax-errors=3", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never"),
    "clang": ("-ferror-limit=3", "-fno-caret-diagnostics", "-fno-color-diagnostics"),
}


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """A compiler that is here: its path and version, and which compiler of a language it is.

    `folders` are those that it reads and runs, `libraries` are paths that its objects need.
    """

    path: str
    version: str
    compiler: Compiler
    folders: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def is_clang(self) -> bool:
        """Whether it takes the options of clang where those of GNU differ."""
        return "clang" in self.version

    def command(self, flags: tuple[str, ...], source: str) -> list[str]:
        """Return the command that builds a source into `program.so`."""
        compiler = self.compiler
        replaces = compiler.replaces is not None and compiler.replaces.search(source)
        return [
            self.path,
            *compiler.fixed,
            *_FEW_MESSAGES["clang" if self.is_clang else "g++"],
            *flags,
            *(compiler.static_flags if replaces else ()),
            "-o",
            "program.so",
            compiler.source_name,
            *compiler.libraries,
        ]


@functools.cache
def toolchain(language: Language) -> Toolchain:
    """Return the compiler of a language; raises SandboxError where this machine has none."""
    compiler = language.compiler
    assert compiler is not None
    for command in compiler.commands:
        path = shutil.which(command)
        if path is not None:
            return _described(_without_links(path, command), compiler)
    names = " and no ".join(compiler.commands)
    raise SandboxError(f"{language.title} cannot be built on this machine: there is no {names}")


def _without_links(path: str, command: str) -> str:
    """Return where a compiler really lies, which is what the box of the builds has.

    By its own name where that folder has it: `clang` is the file of `clang++` too, and links no
    library of C++ when it is called so.
    """
    place = os.path.realpath(path)
    named = os.path.join(os.path.dirname(place), command)
    return named if os.path.exists(named) and os.path.samefile(named, place) else place


def _described(path: str, compiler: Compiler) -> Toolchain:
    version = _said_by(path, "--version").partition("\n")[0]
    libraries: tuple[str, ...] = ()
    if compiler.runtime:
        library = os.path.realpath(_said_by(path, f"-print-file-name={compiler.runtime}").strip())
        libraries = (library,) if os.path.isabs(library) and os.path.isfile(library) else ()
    folders = [folder for folder in _FOLDERS if os.path.isdir(folder)]
    if not path.startswith("/usr/"):  # a toolchain with a prefix of its own
        folders.append(str(Path(path).parents[1]))
    return Toolchain(path, version, compiler, tuple(folders), libraries)


def _said_by(path: str, option: str) -> str:
    try:
        run = subprocess.run(
            [path, option], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the compiler {path} does not work: {error}") from error
    return run.stdout
