"""A desk whose model is recorded, or replaced by recordings."""

import os
from typing import Literal

import msgspec

from halo.models.adapter import Adapter
from halo.models.disguise import Disguise
from halo.models.recording import RecordingAdapter
from halo.models.replaying import Replay
from halo.records.artifacts import Artifact


class Tape(msgspec.Struct, frozen=True):
    """A folder of recordings, absolute, and what is done with it."""

    folder: str
    use: Literal["record", "replay"]

    @classmethod
    def of(cls, record: str | None, replay: str | None) -> "Tape | None":
        """Return what options say; paths are relative to the current directory."""
        if record is not None:
            return cls(os.path.abspath(record), "record")
        return cls(os.path.abspath(replay), "replay") if replay is not None else None

    def recorded(self, adapter: Adapter, disguise: Disguise) -> Adapter:
        """Return a model whose exchanges are written to the folder. Raises StartError if they cannot be."""
        return RecordingAdapter(adapter, self.folder, disguise)

    def replayed(self, artifact: Artifact, disguise: Disguise) -> Adapter:
        """Return the recordings in the place of the artifact's model. Raises UsageError without a folder."""
        runtime = artifact.runtime
        provider, segments = runtime.binding.provider, artifact.manifest.segments
        return Replay(provider, self.folder, disguise, segments, runtime.access)
