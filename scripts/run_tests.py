"""The tests: `python scripts/run_tests.py [--no-lint] [ARGUMENTS OF pytest]`, on a Python with nothing installed.

It makes the wrapper's own environment in `.venv/` with the packages for the tests (once), and runs ruff, mypy and pytest in it.
"""

import sys

if sys.version_info < (3, 6):
    sys.exit("tfcnn: this is Python %d.%d, which is too old; start it with Python 3.6 or later" % sys.version_info[:2])

from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # -I and PYTHONSAFEPATH leave it out
import _start

sys.exit(_start.run_tests(sys.argv[1:]))
