"""`shell_exec`: a command line in the workspace root, and what came of it."""

from collections.abc import Callable, Mapping
from typing import Any

from halo.tools.base import LONGEST, Surroundings, ToolFailure
from halo.tools.sandbox.base import Executed
from halo.tools.substitution import substitute

# Characters of each stream that the model is given: the beginning and the end say most.
_SHOWN = LONGEST // 2 - 500


async def shell_exec(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Run the command. Raises `ToolFailure` with its output where it failed or was killed."""
    if around.commands is None:
        raise ToolFailure(around.refusal or "no commands can be run here; do without")
    command, environment = substitute(arguments["command"], around.secrets)
    executed = await around.commands.execute(command, environment, around.shell_seconds)
    text = report(executed, around.shell_seconds, around.mask)
    if executed.code or executed.ending != "exit":
        raise ToolFailure(text)
    return text


def report(executed: Executed, seconds: float, mask: Callable[[str], str]) -> str:
    """Write what a command came to: its output, then what it complained of, then how it ended.

    `mask` takes out secrets, before a long output is cut: half of one would be found by nobody.
    """
    parts = [_shortened(executed.output, mask)] if executed.output.strip() else []
    if executed.errors.strip():
        parts.append(f"[stderr]\n{_shortened(executed.errors, mask)}")
    if executed.dropped:
        parts.append(
            f"[{executed.dropped:,} bytes of output beyond the first 5 MiB of a stream were not kept]"
        )
    if ended := _ended(executed, seconds):
        parts.append(ended)
    return "\n".join(part.rstrip("\n") for part in parts) or "(no output)"


def _ended(executed: Executed, seconds: float) -> str:
    match executed.ending:
        case "timeout":
            return (
                f"[killed after {seconds:g} seconds, with everything it had started; do what takes longer "
                "in smaller parts]"
            )
        case "output":
            return "[killed: it wrote without end; send its output to a file, or ask for less of it]"
        case _ if executed.code < 0:
            return f"[killed by signal {-executed.code}]"
        case _ if executed.code:
            return f"[exit code {executed.code}]"
    return ""


def _shortened(text: str, mask: Callable[[str], str]) -> str:
    """Leave out the middle of a text that is too long, and say how much."""
    if len(text) <= _SHOWN:
        return text
    half = (_SHOWN - 100) // 2
    left_out = len(text) - 2 * half
    # More than is shown is searched, so that a secret at the cut is whole; not all of several MiB.
    return (
        f"{mask(text[: 4 * half])[:half]}\n[... {left_out:,} characters are left out here; write the output "
        f"to a file and read that in parts ...]\n{mask(text[-4 * half :])[-half:]}"
    )
