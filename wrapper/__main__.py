"""`python -m wrapper` is `tfcnn`."""

import sys

from wrapper.cli import main

sys.exit(main())
