"""What a turn is set up with: artifacts, the model, slot values, tools."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from halo.build.builder import Builder
from halo.errors import ModelFileError, UsageError
from halo.files.roots import ConfinedRoot
from halo.models.adapter import Adapter
from halo.models.cache_rules import rule_for
from halo.models.cache_watch import CacheWatch, Earlier
from halo.models.disguise import Disguise
from halo.models.opening import open_adapter
from halo.models.retrying import RetryingAdapter
from halo.models.watching import WatchedAdapter
from halo.records.artifacts import Artifact, Binding, Runtime
from halo.records.incoming import Incoming
from halo.records.targets import Access, AgentTarget, Target
from halo.runner.record import History
from halo.runner.slots import fill
from halo.runner.turn import Turn
from halo.sessions.access import allow, least, refused, tool_settings
from halo.sessions.long.pinning import pinned_artifact, skills_of
from halo.sessions.machine import this_machine, user_zone_name
from halo.sessions.policies import turn_policies
from halo.sessions.provider_keys import provider_key
from halo.sessions.rights import hidden_paths, rights_of
from halo.sessions.said import Said, read_message
from halo.sessions.secrets import known_secrets
from halo.sessions.taping import Tape
from halo.sessions.typed_files import Shelf
from halo.sessions.values import Moment, Values, argument_values, slot_values
from halo.tools.base import Surroundings, Tool
from halo.tools.consent import Ask, gate
from halo.tools.hidden import hidden_below
from halo.tools.sandbox.base import Files
from halo.tools.secrets import masker
from halo.tools.toolbox import Toolbox
from halo.workspace.demands import names_a_file
from halo.workspace.ids import is_id, outside_folders
from halo.workspace.settings.delegation import DelegationSettings
from halo.workspace.settings.general import read_general
from halo.workspace.trust import Grants, read_grants


class Equipment(msgspec.Struct, frozen=True):
    """What a turn runs with, all pinned: the artifacts of the agent, its visible skills, an invoked one.

    `access` is what its tools may do, `grants` what the user allowed this workspace.
    """

    artifact: Artifact
    skills: dict[str, Artifact]
    access: Access
    grants: Grants

    @property
    def runtime(self) -> Runtime:
        """All that a turn needs beside the text."""
        return self.artifact.runtime


def equip(
    desk: "Desk",
    target: AgentTarget,
    messages: Sequence[Incoming],
    *,
    frozen: bool,
    waited: frozenset[str],
    pin: str = "",
) -> tuple[Equipment, tuple[Said, ...], tuple[str, ...]]:
    """Get a turn's artifacts, fresh, and read its messages; with `frozen` a stale artifact is refused.

    The access of `target` is what was asked for; the turn gets what it, and everyone who sent a message, is
    allowed. A message that cannot be read is refused with `UsageError`; those whose ids are in `waited` have
    nobody to hear that, and are read as plain text. `pin` is the artifact that the session is pinned to.
    Also returns what the user should know.
    """
    builder = desk.builder
    get: Callable[[Target], Artifact] = builder.frozen if frozen else builder.ensure
    grants = desk.grants()
    access = least(target.access, *(message.sender.access for message in messages))
    allowed = allow(builder, desk.tree, grants, msgspec.structs.replace(target, access=access))
    if pin:
        artifact, access, more = pinned_artifact(builder, desk.tree, pin, allowed)
    else:
        artifact, access = get(allowed.target), allowed.access
        more = refused(artifact, access)
    said = tuple(_said(desk, artifact, message, get, plain=message.id in waited) for message in messages)
    skills, gone = skills_of(artifact, get, pinned=bool(pin))
    skills.update((each.skill.id, each.skill.artifact) for each in said if each.skill is not None)
    notices = (
        *allowed.notices,
        *more,
        *gone,
        *(notice for each in said for notice in each.notices),
    )
    return Equipment(artifact, skills, access, grants), said, notices


def _said(
    desk: "Desk", artifact: Artifact, message: Incoming, get: Callable[[Target], Artifact], *, plain: bool
) -> Said:
    """Read one message. Markers and commands are a user's; what others write is text."""
    builder, text = desk.builder, message.text
    if message.sender.kind != "user":
        return Said(text, text)
    bundled = builder.bundle.ruled if builder.bundle is not None else frozenset()
    shelf = desk.shelf() if message.sender.owner and "@file" in text else None
    try:
        return read_message(text, artifact, builder.places.workspace, desk.tree, get, bundled, shelf)
    except UsageError as error:
        if not plain:
            raise
        return Said(text, text, notices=(f"warning: a message was read as plain text: {error.message}",))


def gather(desk: "Desk", equipment: Equipment) -> Values:
    """Gather the values of all slots but the time, which is known when the turn has started."""
    artifact = equipment.artifact
    slots = [s for a in (artifact, *equipment.skills.values()) for s in a.manifest.slots]
    moment = Moment.of(artifact, desk.builder.places.workspace, "", this_machine(artifact.manifest.slots))
    return slot_values(slots, moment, desk.tree, desk.environ, equipment.grants)


class Desk:
    """Everything around one turn that is not the conversation: paths, environment, clock, cache.

    `ask` asks the user about calls of tools; None where nobody can be asked. `tape`: what the model says is
    recorded, or answered from recordings. `files`: what tools act on in the place of the workspace's folder;
    no command runs then, for programs could not reach them.
    """

    def __init__(
        self,
        builder: Builder,
        environ: Mapping[str, str],
        cache: str,
        now_ns: Callable[[], int],
        ask: Ask | None = None,
        tape: Tape | None = None,
        files: Files | None = None,
    ) -> None:
        self.files = files
        self.builder = builder
        self.environ = environ
        self.cache = cache
        self.now_ns = now_ns
        self.ask = ask
        self.tape = tape
        self.tree = builder.places.tree()

    def grants(self) -> Grants:
        """Return what the user allowed this workspace."""
        return read_grants(self.tree, self.builder.places.workspace, self.builder.places.home)

    def delegation(self) -> DelegationSettings:
        """Return how far sessions may start and reach one another."""
        return read_general(self.tree).session.delegation

    def shelf(self) -> Shelf:
        """Return where the files lie that the owner of a session may name in a message."""
        places, grants = self.builder.places, self.grants()
        root = self.files or ConfinedRoot(places.workspace)
        hidden = hidden_paths(places, tool_settings(self.tree, grants))
        secrets = masker(known_secrets(self.tree, self.environ, grants))
        return Shelf(root, hidden_below(root, hidden, root), secrets)

    def zone_name(self) -> str:
        """Name the user's time zone, by the settings or by the machine; empty if unknown."""
        return user_zone_name(self.tree)

    def admit_model_file(self, binding: Binding, target: AgentTarget) -> None:
        """Raise `ModelFileError` for a model file that the workspace names and the user has not allowed.

        Native code reads it. Models that Halo fetched are verified by their digest.
        """
        if not names_a_file(binding.provider, binding.model):
            return
        if self.grants().model_file(self.tree, target.agent, target.profile):
            return
        raise ModelFileError(
            f"the model file {binding.model} is named by this workspace, and nobody has allowed it",
            hint="halo trust shows what the workspace asks for",
        )

    def adapter(self, artifact: Artifact, target: AgentTarget) -> Adapter:
        """Open the model that the artifact of `target` is bound to, or the recordings in its place."""
        if self.tape is None:
            return self._model(artifact, target)
        disguise = Disguise(
            {"workspace_root": self.builder.places.workspace},
            masker(known_secrets(self.tree, self.environ, self.grants())),
        )
        if self.tape.use == "replay":
            return self.tape.replayed(artifact, disguise)
        return self.tape.recorded(self._model(artifact, target), disguise)

    def _model(self, artifact: Artifact, target: AgentTarget) -> Adapter:
        runtime = artifact.runtime
        binding = runtime.binding
        self.admit_model_file(binding, target)
        adapter = open_adapter(
            binding,
            tool_mode=runtime.tool_mode,
            key=provider_key(binding.provider, self.tree, self.environ, self.grants),
            trusted=bool(binding.endpoint)
            and self.grants().endpoint(
                self.tree, target.agent, binding.provider, binding.endpoint, target.profile
            ),
            context_tokens=runtime.context_tokens,
            min_cacheable=runtime.min_cacheable_tokens,
            capabilities=runtime.capabilities,
            cache=self.cache,
            base_dir=self.builder.places.workspace,
        )
        # What fails in this very process fails again.
        return adapter if binding.provider == "local" else RetryingAdapter(adapter)

    def watched(self, adapter: Adapter, artifact: Artifact, earlier: Earlier | None = None) -> Adapter:
        """Watch what one conversation finds in the provider's cache. Recordings have none."""
        runtime = artifact.manifest.runtime
        if runtime is None or (self.tape is not None and self.tape.use == "replay"):
            return adapter
        watch = CacheWatch(rule_for(runtime.binding, runtime.capabilities), earlier)
        return WatchedAdapter(adapter, watch, lambda: self.now_ns() / 1e9)


_NO_PROGRAMS = "shell_exec is refused: the files are in memory, where no program reaches them"


def lay_out(
    desk: Desk,
    equipment: Equipment,
    history: History,
    values: Mapping[str, str],
    further: Mapping[str, Tool] = MappingProxyType({}),
    status: Callable[[], str] = lambda: "nothing is known of this session",
) -> tuple[Turn, Toolbox, list[str]]:
    """Fill the slots with `values`, and lay out the tools, `further` ones beside those of Halo.

    `status` writes the figures of the conversation when the model asks for them. Also returns what the user
    should know: tools that this version cannot run.
    """
    artifact = equipment.artifact
    places, grants = desk.builder.places, equipment.grants
    rights = rights_of(artifact, equipment.access, places, desk.tree, desk.environ, grants)
    toolbox = Toolbox(
        artifact.manifest.tools,
        Surroundings(
            workspace=desk.files or ConfinedRoot(desk.builder.places.workspace),
            skills=_skill_roots(desk, equipment),
            load_skill=lambda skill, arguments: _skill_text(equipment, skill, arguments, values),
            access=rights.access,
            commands=rights.commands if desk.files is None else None,
            refusal=rights.refusal if desk.files is None else _NO_PROGRAMS,
            shell_seconds=rights.shell_seconds,
            secrets=rights.secrets,
            private_hosts=rights.private_hosts,
            status=status,
            mask=rights.mask,
            hidden=rights.hidden,
        ),
        further,
        gate(turn_policies(desk.tree, artifact), desk.ask),
    )
    remarks = [f"warning: {warning}" for warning in rights.warnings]
    if toolbox.missing:
        remarks.append(f"note: nothing runs {', '.join(toolbox.missing)} here")
    return Turn(artifact, fill(artifact, values), history), toolbox, remarks


def _skill_roots(desk: Desk, equipment: Equipment) -> dict[str, ConfinedRoot]:
    """Find the folders of skills that do not lie in the workspace; their files are read as files.

    Which one it is, the compiled body knows; it is believed only where such a skill may lie.
    """
    roots = desk.builder.places.roots
    found = {}
    for skill in equipment.artifact.manifest.commands:
        body = equipment.skills.get(skill.id)
        if body is None or not is_id(skill.id):
            continue
        folder = body.manifest.segments[0].source.rpartition("/")[0]
        if folder in outside_folders(skill.scope, skill.id):
            root, _, relative = folder.partition(":")
            found[skill.id] = ConfinedRoot(f"{roots[root]}/{relative}")
    return found


def _skill_text(equipment: Equipment, skill: str, arguments: str, values: Mapping[str, str]) -> str | None:
    artifact = equipment.skills.get(skill)
    if artifact is None:
        return None
    return fill(artifact, {**values, **argument_values(arguments)}).text
