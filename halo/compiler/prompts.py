"""The prompt folders: `prompts/bootstrap`, `prompts/root`, `prompts/all`."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import Part, verbatim
from halo.workspace.layers import prompt_scope


def bootstrap(job: Compilation) -> list[Part]:
    """First-run guidance: for a root agent while no USER.md exists."""
    if job.user is not None or not job.root or job.internal:
        return []
    return _scope(job, "bootstrap", section=True)


def prompts(job: Compilation) -> list[Part]:
    """Root rules lead, the rules for everyone trail: the nearer to the top, the more attention."""
    if job.internal:
        return []
    root = _scope(job, "root") if job.root else []
    return [*root, *_scope(job, "all")]


def _scope(job: Compilation, name: str, *, section: bool = False) -> list[Part]:
    """Make a part of each file in `prompts/<name>/`."""
    found = prompt_scope(job.tree, name, job.target.platform)
    job.diagnostics.extend(found.diagnostics)
    return [
        Part(
            f"prompts/{name}/{layer.source.rsplit('/', 1)[1]}",
            f"prompts/{name}",
            layer.scope,
            layer.source,
            (verbatim(layer),),
            section=section,
            hides=found.hides,
        )
        for layer in found.layers
    ]
