"""Snapshots of prompts: one readable `.md` a prompt, in `__snapshots__/` beside the test (syrupy)."""

from typing import Any

from syrupy.assertion import SnapshotAssertion
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
    if not isinstance(snapshot, SnapshotAssertion):
        return None
    executions = snapshot.executions
    result = executions[max(executions)] if executions else None
    recalled_data = result.recalled_data if result is not None else None
    return recalled_data if isinstance(recalled_data, str) else None
