#!/usr/bin/env python3
"""Entry point of the conformance suite; see README.md beside this file."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from harness_conformance import runner  # noqa: E402

if __name__ == "__main__":
    sys.exit(runner.main())
