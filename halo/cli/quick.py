"""Answers what needs no library, before one is imported: that is most of the time of a short command.

Whatever is not plain is left to the commands themselves (`answer` returns None).
"""

import os
import sys

from halo.build import gate
from halo.compiler.version import COMPILER
from halo.errors import HaloError
from halo.version import __version__
from halo.workspace.locate import find_workspace, halo_home, templates_folder, user_home


def open_streams() -> None:
    """Give a process that was started with closed streams (`>&-`) streams that lead nowhere."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def flushed(code: int) -> int:
    """Write out what is buffered, so that a full disk is a message and an exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_gone()
    except OSError as error:
        sys.stderr.write(f"halo: the output could not be written: {error.strerror}\n")
        reader_gone()
        return 1
    return code


def reader_gone() -> int:
    """Answer a reader that went away (`| head`): nothing more may be written, at exit neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 1


def answer(arguments: list[str]) -> int | None:
    """Answer `--version`, a no-op `build`, a `prompt` of a fresh artifact; return the exit code."""
    if arguments == ["--version"]:
        sys.stdout.write(f"halo {__version__}\n")
        return 0
    if arguments[:1] == ["build"]:
        return _build(_options(arguments[1:], {"-w": "workspace", "--workspace": "workspace"}))
    if arguments[:1] == ["prompt"]:
        return _prompt(_options(arguments[1:], _PROMPT_OPTIONS))
    return None


_PROMPT_OPTIONS = {
    "-w": "workspace",
    "--workspace": "workspace",
    "-a": "agent",
    "--agent": "agent",
    "--role": "role",
}


def _options(words: list[str], known: dict[str, str]) -> dict[str, str] | None:
    """Read `-x VALUE` pairs; None for anything else."""
    if len(words) % 2 or any(word not in known for word in words[::2]):
        return None
    return {known[word]: value for word, value in zip(words[::2], words[1::2], strict=True)}


def _ask(options: dict[str, str], target: str | None) -> tuple[str, str] | None:
    """Ask the gate of the workspace, or of a target in it; return the workspace and the answer."""
    try:
        home = halo_home(os.environ)
        workspace = find_workspace(options.get("workspace", os.getcwd()), home)
        path = gate.target_gate(workspace, target) if target else gate.workspace_gate(workspace)
        roots = (workspace, home, templates_folder(), user_home(os.environ))
        found = gate.ask(path, roots, COMPILER, any_age=target is not None)
    except (HaloError, OSError):
        return None  # the command itself will say what is wrong
    return (workspace, found) if found is not None else None


def _build(options: dict[str, str] | None) -> int | None:
    passed = _ask(options, None) if options is not None else None
    if passed is None:
        return None
    sys.stdout.write(f"{passed[1]} targets: all fresh\n")
    return 0


def _prompt(options: dict[str, str] | None) -> int | None:
    if options is None:
        return None
    agent, role = options.get("agent", "default"), options.get("role", "root")
    # Letters of other alphabets are no ids; `build/skills/` belongs to the skills.
    plain = agent.isascii() and agent.replace("_", "").replace("-", "").isalnum()
    if role not in ("root", "sub") or not plain or agent in ("skills", "scopes"):
        return None
    passed = _ask(options, f"{agent}/{role}")
    text = _read(*passed) if passed is not None else _fresh(options, agent, role)
    if text is None:
        return None
    try:  # noqa: SIM105  # contextlib is not imported yet
        sys.stdout.buffer.write(text)
    except OSError:
        pass  # said when the rest is flushed, which fails for the same reason
    return flushed(0)


def _read(workspace: str, artifact: str) -> bytes | None:
    try:
        with open(os.path.join(workspace, ".halo", "artifacts", artifact, "prompt.md"), "rb") as file:
            return file.read()
    except OSError:
        return None


def _fresh(options: dict[str, str], agent: str, role: str) -> bytes | None:
    """Ask the pointer where the gate cannot tell, which is so for two seconds after a build."""
    from halo.build.builder import Builder
    from halo.records.targets import AgentTarget
    from halo.workspace.places import find_places

    try:
        builder = Builder(find_places(options.get("workspace", os.getcwd()), os.environ))
        artifact = builder.fresh(AgentTarget(agent, "sub" if role == "sub" else "root"))
    except (HaloError, OSError):
        return None
    if artifact is None or artifact.manifest.diagnostics:
        return None
    return artifact.prompt.encode()
