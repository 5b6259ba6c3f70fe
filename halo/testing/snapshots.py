"""Snapshots of prompts: one readable `.md` a prompt, in `__snapshots__/` beside the test (syrupy)."""

from typing import Any

from syrupy.assertion import AssertionResult, SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class PromptSnapshot(SingleFileSnapshotExtension):
    """Stores the text as it is."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"

    def serialize(self, data: Any, **_: Any) -> str:
        """Return the text of a prompt."""
        return str(data)


def recalled(snapshot: Any) -> str | None:
    """Return the text of the snapshot that an assertion has just been compared with; None for none."""
    result = _last(snapshot)
    recalled_data = result.recalled_data if result is not None else None
    return recalled_data if isinstance(recalled_data, str) else None


def is_missing(snapshot: Any) -> bool:
    """Tell whether an assertion has just found that its snapshot was never written."""
    result = _last(snapshot)
    return result is not None and not result.success and result.recalled_data is None and not result.exception


def _last(snapshot: Any) -> AssertionResult | None:
    executions = snapshot.executions if isinstance(snapshot, SnapshotAssertion) else {}
    return executions[max(executions)] if executions else None
