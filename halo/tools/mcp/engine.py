"""Whether the SDK is installed: it is an extra."""

from importlib.util import find_spec

MISSING = "the extra mcp is not installed: pip install 'halo-make[mcp]'"


def is_installed() -> bool:
    """Tell whether servers can be spoken to; nothing is imported for that."""
    return find_spec("mcp") is not None and find_spec("mcp_types") is not None
