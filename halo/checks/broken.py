"""H101: what is broken, as a finding."""

from halo.errors import HaloError
from halo.records.diagnostics import Diagnostic


def broken(error: HaloError, what: str = "") -> Diagnostic:
    """Say what is broken where it is; `what` failed because of it, for an error that names no place."""
    hint = f" ({error.hint})" if error.hint else ""
    message = f"{'' if error.file else what}{error.message}{hint}"
    return Diagnostic("does-not-compile", "error", message, error.file or "", error.line or 0)
