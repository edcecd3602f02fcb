"""Start a zygote: the script that the host executes with a fresh interpreter.

It registers empty parent packages, because `maxatk` imports NumPy, which a zygote must not pay for.
"""

import os
import sys

if __name__ == "__main__":
    here = __file__.rpartition("/")[0]
    # The sandbox has the folders themselves and no link that leads to them.
    sys.path[:] = [os.path.realpath(path) for path in sys.path if path not in ("", here)]
    verifier = here.rpartition("/")[0]
    for name, path in (("maxatk", verifier.rpartition("/")[0]), ("maxatk.verifier", verifier)):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package
    from maxatk.verifier.inside.zygote import main

    main(sys.argv[1:])
