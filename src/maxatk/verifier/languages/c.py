"""C, by gcc or clang: what a further language with a compiler needs."""

from __future__ import annotations

from maxatk.verifier.languages.compiled import SHARED_OBJECT, compiled_language
from maxatk.verifier.languages.language import Compiler

C = compiled_language(
    "c",
    title="C",
    marks=r"c\d*",
    seven='#include <stdio.h>\nint main() { printf("7"); }\n',
    compiler=Compiler(
        commands=("gcc", "clang"),
        source_name="program.c",
        flags=("-O2", "-std=gnu17", "-DONLINE_JUDGE"),
        fixed=SHARED_OBJECT,
        libraries=("-lm",),
    ),
)
