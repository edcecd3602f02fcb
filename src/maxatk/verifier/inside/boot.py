"""Start a zygote or a builder: the script that the host executes with a fresh interpreter.

It registers empty parent packages, because `maxatk` imports NumPy, which a zygote must not pay for.
Arguments: the role, the bytes that the stack may grow to, and the role's own arguments.
"""

import os
import resource
import sys

_FREE = 128 << 20  # bytes that the kernel keeps free below the stack, whatever its limit

if __name__ == "__main__":
    role = sys.argv[1]
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    stack = int(sys.argv[2])
    if hard != resource.RLIM_INFINITY:
        stack = min(stack, hard)
    if stack > _FREE and soft != resource.RLIM_INFINITY and soft < stack:
        # The kernel leaves room for a larger stack when a process starts, not later.
        resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
        os.execv(sys.executable, sys.orig_argv)
    here = __file__.rpartition("/")[0]
    # The sandbox has the folders themselves and no link that leads to them.
    sys.path[:] = [os.path.realpath(path) for path in sys.path if path not in ("", here)]
    verifier = here.rpartition("/")[0]
    for name, path in (("maxatk", verifier.rpartition("/")[0]), ("maxatk.verifier", verifier)):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package
    if role == "builder":
        from maxatk.verifier.inside.builder import main
    else:
        from maxatk.verifier.inside.zygote import main

    main(stack, sys.argv[3:])
