"""What tests of builds take from other rooms."""

import sys
from pathlib import Path

# Generated workspaces (`generated`).
sys.path.append(str(Path(__file__).resolve().parents[1] / "compiler"))
