"""Run the command line with `python -m maxatk`."""

import sys

from maxatk.cli.main import main

sys.exit(main())
