"""`python -m pramaan_pipelines`, for where the `pramaan` script is not on PATH.

Promises: the same as `pramaan`.
Never: does anything when it is imported.
"""

import sys

from pramaan_pipelines.cli import main

if __name__ == "__main__":
    sys.exit(main())
