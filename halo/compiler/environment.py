"""The last segment: what differs from machine to machine, in slots (docs/decisions/0001)."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import RULES, Fill, Part, Piece
from halo.workspace.layers import one_line
from halo.workspace.models.choice import line_of
from halo.workspace.models.config import ModelConfig
from halo.workspace.settings.files import WORKSPACE_SETTINGS
from halo.workspace.settings.prompt_lines import prompt_setting_at, prompt_setting_error
from halo.workspace.time_zone import LOCAL, is_zone_name


def environment(job: Compilation) -> Part:
    """Say where the workspace is, the working directory, and if the settings ask for it, zone and runtime."""
    lead = "The project workspace is at: " if job.root else "The workspace root is: "
    pieces = [Piece(lead, RULES, 1), _slot("workspace_root", 1)]
    if job.target.directory:
        pieces += [Piece("\nWorking directory: ", RULES, 2), _slot("working_dir", 2)]
    if not job.internal:
        pieces += [*_time_zone(job), *_runtime(job)]
    return Part("environment", "environment", "halo", RULES, tuple(pieces))


def _slot(name: str, line: int) -> Piece:
    return Piece(f"{{{{{name}}}}}", RULES, line, fill=Fill(name, "builtin"))


def _time_zone(job: Compilation) -> list[Piece]:
    """Name the time zone, never a time: that would make every prompt another one.

    What the workspace names is text. What belongs to the machine is a slot: its own zone, or the one that the
    global settings name.
    """
    zone = job.general.prompt.time_zone
    if not zone:
        return []
    if zone != LOCAL and not is_zone_name(zone):
        raise prompt_setting_error(
            job.tree,
            f"{zone!r} does not look like a time zone",
            "time_zone",
            hint=f"write a name of the IANA database, such as Europe/Oslo, or {LOCAL}",
        )
    source, line = prompt_setting_at(job.tree, "time_zone")
    here = zone != LOCAL and source == WORKSPACE_SETTINGS
    return [Piece("\nTime zone: ", RULES, 3), Piece(zone, source, line) if here else _slot("time_zone", 3)]


def _runtime(job: Compilation) -> list[Piece]:
    """Say who runs, on which model, and in a slot on what: system, machine, versions."""
    if "runtime" not in job.general.prompt.sections:
        return []
    document, model = job.agent.document, job.model
    line = line_of(job.tree, job.agent, model.source, (*model.path, "id"))
    return [
        Piece("\nRuntime: agent ", RULES, 4),
        Piece(job.agent.id, document.source, 1),
        Piece(", model ", RULES, 4),
        Piece(_model(model.model), model.source, line),
        Piece(", ", RULES, 4),
        _slot("runtime", 4),
    ]


def _model(model: ModelConfig) -> str:
    """Write provider and model; of a model file its name alone, for its folder is somebody's."""
    name = one_line(model.id)
    if model.provider == "local":
        name = name.replace("\\", "/").rpartition("/")[2]
    return f"{model.provider}/{name}"
