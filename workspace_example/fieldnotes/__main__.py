"""Run the command line as `python -m fieldnotes`."""

import sys

from fieldnotes.cli import main

sys.exit(main())
