"""`ensure(target)`: the fresh artifact of a target, compiled if need be."""

import os
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from halo.build.bundled import Bundle, read_bundle
from halo.build.freshness import check_inputs
from halo.build.pointers import Pointers
from halo.build.store import Store
from halo.compiler.version import COMPILER
from halo.errors import ArtifactError, HaloError, UnknownNameError
from halo.files.regular import refuse_links
from halo.records.artifacts import FORMAT, Artifact, Pointer
from halo.records.targets import AgentTarget, Target
from halo.workspace.places import Places

if TYPE_CHECKING:
    from halo.files.tree import RecordingTree


class Status(msgspec.Struct, frozen=True):
    """What is known of a target: its artifact if it is fresh, else why it is not.

    `renewed`: its pointer has just been written anew, because stamps alone were out of date.
    """

    artifact: Artifact | None
    reason: str = ""
    pointer: Pointer | None = None
    renewed: bool = False


class Builder:
    """Builds the artifacts of one workspace. `now_ns` is the wall clock in ns since the epoch."""

    def __init__(self, places: Places, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.places = places
        refuse_links(places.halo, "build", "artifacts")
        self.store = Store(places.halo)
        self.pointers = Pointers(places.halo, places.home)
        self.now_ns = now_ns

    @cached_property
    def bundle(self) -> Bundle | None:
        """What was unpacked here from a bundle; then nothing is compiled. Raises `ArtifactError`."""
        return read_bundle(self.places.halo, self.places.home)

    def status(self, target: Target) -> Status:
        """Say whether `target` is fresh, and load its artifact if so.

        A pointer whose stamps alone are out of date is renewed, so that a touched tree is read once.
        """
        if self.bundle is not None:
            return self._unpacked(self.bundle, target)
        pointer = self.pointers.read(target)
        if pointer is None:
            return Status(None, "it was not built yet")
        if pointer.compiler != COMPILER:
            return Status(None, f"it was built by {pointer.compiler}, this is {COMPILER}", pointer)
        checked_ns = self.now_ns()
        verdict = check_inputs(pointer, self.places.roots, checked_ns)
        if verdict.reason:
            return Status(None, verdict.reason, pointer)
        try:
            artifact = self.store.load(pointer.artifact)
        except (ArtifactError, msgspec.MsgspecError) as error:
            return Status(None, str(error).partition("\n")[0], pointer)
        if verdict.inputs is not None or pointer.stale:
            pointer = msgspec.structs.replace(
                pointer,
                inputs=verdict.inputs if verdict.inputs is not None else pointer.inputs,
                recorded_ns=checked_ns if verdict.inputs is not None else pointer.recorded_ns,
                stale="",
            )
            return Status(artifact, pointer=pointer, renewed=self._renew(pointer))
        return Status(artifact, pointer=pointer)

    def ensure(self, target: Target) -> Artifact:
        """Return the fresh artifact of `target`, compiling it when it is not fresh.

        Raises what the compiler raises; the old pointer then stays, marked stale.
        """
        status = self.status(target)
        artifact = self._opened(status)
        if artifact is not None and self.store.keep(artifact.id):
            return artifact
        return self.compile(target, status.pointer)

    def fresh(self, target: Target) -> Artifact | None:
        """Return the artifact of `target` if it is fresh; never compiles."""
        return self._opened(self.status(target))

    def _opened(self, status: Status) -> Artifact | None:
        if status.artifact is not None and status.pointer is not None:
            self._open_gate(status.artifact, status.pointer)
        return status.artifact

    def frozen(self, target: Target) -> Artifact:
        """Return the artifact of `target` only if it is fresh; raise `ArtifactError` otherwise."""
        status = self.status(target)
        if status.artifact is not None and self.store.keep(status.artifact.id):
            return status.artifact
        self._refuse_in_bundle(target, status.reason)
        raise ArtifactError(
            f"{target.label} is stale: {status.reason or 'its artifact was just removed'}",
            hint="halo build, or leave --frozen away",
        )

    def compile(
        self, target: Target, old: Pointer | None = None, tree: "RecordingTree | None" = None
    ) -> Artifact:
        """Compile `target`, publish the artifact, and point to it.

        `tree` is for who wants to know what was consulted even where that fails; by default a new one.
        """
        from halo.compiler.compile import compile_target

        if self.bundle is not None:
            self._refuse_in_bundle(target, self.status(target).reason)
        tree = tree or self.recording_tree()
        try:
            compiled = compile_target(tree, target)
        except HaloError as error:
            if old is not None:
                self._renew(msgspec.structs.replace(old, stale=str(error)))
            raise
        artifact = self.store.add(compiled.prompt, compiled.manifest)
        pointer = Pointer(
            format=FORMAT,
            compiler=COMPILER,
            target=target,
            artifact=artifact.id,
            fingerprint=compiled.manifest.fingerprint,
            recorded_ns=tree.recorded_ns,
            inputs=tree.inputs(),
        )
        self.pointers.write(pointer)
        self._open_gate(artifact, pointer)
        return artifact

    def _unpacked(self, bundle: Bundle, target: Target) -> Status:
        """Look a target up in what was unpacked here: it is fresh for as long as it is whole."""
        identity = bundle.artifact(target)
        if identity is None:
            return Status(None, "it is not in the bundle that was unpacked here")
        try:
            return Status(self.store.load(identity))
        except (ArtifactError, msgspec.MsgspecError) as error:
            return Status(None, str(error).partition("\n")[0])

    def _refuse_in_bundle(self, target: Target, reason: str) -> None:
        """Raise where only what was unpacked can be used: there are no layers to compile."""
        if self.bundle is None:
            return
        if isinstance(target, AgentTarget) and target.agent not in self.bundle.agents:
            raise UnknownNameError.of("agent", target.agent, sorted(self.bundle.agents))
        raise ArtifactError(
            f"{target.label} cannot be used: {reason}",
            hint="nothing is compiled here; make a bundle where the layers are, and unpack it here",
        )

    def recording_tree(self) -> "RecordingTree":
        """Open the roots for reading; what is consulted is kept."""
        from halo.files.tree import RecordingTree

        return RecordingTree(self.places.tree(), self.now_ns)

    def prune(self, targets: list[Target]) -> list[str]:
        """Remove the pointers of agents, skills and directories that no longer exist; return their names.

        Artifacts stay: sessions may refer to them.
        """
        removed = []
        for path in self.pointers.orphans({t.name for t in targets}):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue  # another build was faster
            name, extension = os.path.splitext(os.path.relpath(path, self.pointers.folder))
            if extension == ".json":
                removed.append(name.replace(os.sep, "/"))
        return removed

    def _open_gate(self, artifact: Artifact, pointer: Pointer) -> None:
        """Let the next `halo prompt` of this agent pass without the pointer.

        An artifact with diagnostics stays closed: they are to be seen each time.
        """
        if not isinstance(pointer.target, AgentTarget):
            return
        from halo.build import gate
        from halo.build.gatekeeper import Gatekeeper, Seen, gate_roots

        path = gate.target_gate(self.places.workspace, pointer.target.name)
        if artifact.manifest.diagnostics or gate.ask(path, gate_roots(self.places), COMPILER):
            return
        keeper = Gatekeeper(self.places)
        try:
            seen = Seen(self.pointers.path(pointer.target), self.now_ns())
            self.store.load(artifact.id)  # what the stamps stand for must be what was verified
            keeper.own_target(pointer, seen, self.store.files(artifact.id))
            if keeper.lines.sure:
                keeper.write(path, artifact.id, self.now_ns())
        except (OSError, ArtifactError):
            return  # a gate only saves time

    def _renew(self, pointer: Pointer) -> bool:
        """Write a pointer that only saves work later; a read-only workspace is no reason to fail."""
        try:
            self.pointers.write(pointer)
        except OSError:
            return False
        return True
