"""A workspace as an object."""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from halo.build.builder import Builder
from halo.build.collecting import artifact_in_memory
from halo.errors import UsageError
from halo.files.tree import OverlayTree
from halo.records.artifacts import Artifact
from halo.records.targets import AgentTarget, Target
from halo.records.tools import ToolSpec
from halo.tools.sandbox.base import Files
from halo.workspace.agents import list_agents
from halo.workspace.places import find_places

if TYPE_CHECKING:
    from halo.files.tree import Tree
    from halo.sessions.desk import Desk


class Workspace:
    """The workspace at or above a folder, seen by a program.

    `layers` lie over the files on disk, in memory: paths as in a workspace (`.halo/INSTRUCTIONS.md`) and
    their text, None to take a file away. Nothing is written for them. `files` (`halo.MemoryFiles`) is what
    tools act on in the place of the folder; it says nothing about prompts. `environ` is where `HALO_HOME`,
    keys and the like are read from, this process's environment by default. Raises NoWorkspaceError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        layers: Mapping[str, str | None] | None = None,
        files: Files | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.files = files
        self.layers: dict[str, str | None] = dict(layers or {})
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self._builder = Builder(find_places(os.path.abspath(os.fspath(path)), self.environ))

    @property
    def path(self) -> str:
        """Its root folder."""
        return self._builder.places.workspace

    def agents(self) -> list[str]:
        """List the ids of its agents, those of the machine and the templates included.

        In a folder that a bundle was unpacked into, those of the bundle.
        """
        bundle = self._builder.bundle
        return list_agents(self._tree()) if bundle is None else sorted(bundle.agents)

    def with_layers(self, layers: Mapping[str, str | None]) -> "Workspace":
        """Return the same workspace with more layers laid over it."""
        changed = object.__new__(Workspace)
        changed.layers = {**self.layers, **layers}
        changed.files, changed.environ, changed._builder = self.files, self.environ, self._builder
        return changed

    def artifact(self, target: Target | str = "default", further: tuple[ToolSpec, ...] = ()) -> Artifact:
        """Return the fresh artifact of a target; text names an agent, in the role of a root.

        It is taken from disk, and built there if need be, unless layers or `further` tools make it another:
        then it is compiled in memory. Raises LayerError (file and line), UnknownNameError, and UsageError
        where nothing can be compiled: in a folder that a bundle was unpacked into.
        """
        if isinstance(target, str):
            target = AgentTarget(target)
        if self.layers or further:
            if self._builder.bundle is not None:
                raise UsageError(
                    "this was unpacked from a bundle, whose prompts stay as they are: they take neither "
                    "layers in memory nor functions as further tools",
                    hint="load the agent where its layers are",
                )
            return artifact_in_memory(self._tree(), target, further)
        return self._builder.ensure(target)

    def desk(self) -> "Desk":
        """Return what turns of this workspace are set up with."""
        from halo.models.catalogue import cache_dir
        from halo.sessions.desk import Desk

        return Desk(self._builder, self.environ, cache_dir(self.environ), time.time_ns, files=self.files)

    def _tree(self) -> "Tree":
        tree = self._builder.places.tree()
        if not self.layers:
            return tree
        changes = {
            f"workspace:{path}": None if text is None else text.encode() for path, text in self.layers.items()
        }
        return OverlayTree(tree, changes)
