"""What tests of the library take from other rooms."""

import sys
from pathlib import Path

# The model that says what it is told (`playing`).
sys.path.append(str(Path(__file__).resolve().parents[1] / "runner"))
