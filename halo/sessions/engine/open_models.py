"""The models that a session has open between its turns."""

from collections.abc import Callable

from halo.models.adapter import Adapter
from halo.records.artifacts import Artifact
from halo.records.targets import AgentTarget


class OpenModels:
    """Opens models by `opens`, and keeps them: that of the turn before goes on if it is the same."""

    def __init__(self, opens: Callable[[Artifact, AgentTarget], Adapter]) -> None:
        self._opens = opens
        self._open: list[tuple[Artifact, Adapter]] = []

    def get(self, artifact: Artifact, target: AgentTarget) -> Adapter:
        """Return the model of an artifact; opening a local one takes time."""
        for earlier, adapter in self._open:
            if earlier.runtime == artifact.runtime:
                return adapter
        adapter = self._opens(artifact, target)
        self._open.append((artifact, adapter))
        return adapter

    async def close(self) -> None:
        """Close them all."""
        while self._open:
            await self._open.pop()[1].close()
