"""What tests of sessions take from other rooms."""

import sys
from pathlib import Path

# The disk that loses what was not synced (`crash`), the model that says what it is told (`playing`), the web
# server that says exactly the bytes it is told (`web_server`).
for room in ("files", "runner", "tools"):
    sys.path.append(str(Path(__file__).resolve().parents[1] / room))
