"""The one-shot: `python scripts/run_all.py [ARGUMENTS OF tfcnn run]`, on a Python with nothing installed.

It makes the wrapper's own environment in `.venv/` (once), and starts `tfcnn run` in it. It runs in Python 3.6 and later, so that a Python that has an
old TensorFlow can start it, and can be read by any, so that one that is too old gets a message.
"""

import sys

if sys.version_info < (3, 6):
    sys.exit("tfcnn: this is Python %d.%d, which is too old; start it with Python 3.6 or later" % sys.version_info[:2])

from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # -I and PYTHONSAFEPATH leave it out
import _start

sys.exit(_start.run_all(sys.argv[1:]))
