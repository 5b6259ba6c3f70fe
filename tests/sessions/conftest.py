"""What tests of sessions take from other rooms."""

import sys
from pathlib import Path

# The disk that loses what was not synced (`crash`), the model that says what it is told (`playing`).
for room in ("files", "runner"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / room))
