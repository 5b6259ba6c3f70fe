"""The `halo` command: commands are imported when they are called, errors become messages."""

import io
import sys
from collections.abc import Sequence

import click

from halo.cli.late import LateGroup
from halo.cli.quick import reader_gone
from halo.errors import HaloError
from halo.version import __version__

# name -> module; the command is its attribute `command` unless another is named.
_COMMANDS = {
    "agent": "halo.cli.enabling:agent",
    "build": "halo.cli.build",
    "bundle": "halo.cli.bundle",
    "chat": "halo.cli.chat",
    "check": "halo.cli.check",
    "diff": "halo.cli.diff",
    "doctor": "halo.cli.doctor",
    "export": "halo.cli.export",
    "gc": "halo.cli.gc",
    "init": "halo.cli.init",
    "mcp": "halo.cli.mcp",
    "model": "halo.cli.model",
    "prompt": "halo.cli.prompt",
    "run": "halo.cli.run",
    "send": "halo.cli.send",
    "schema": "halo.cli.schema",
    "session": "halo.cli.session",
    "settings": "halo.cli.settings",
    "skill": "halo.cli.enabling:skill",
    "trust": "halo.cli.trust",
    "usage": "halo.cli.usage",
    "watch": "halo.cli.watch",
    "why": "halo.cli.why",
    "worker": "halo.cli.worker",
}

EXIT_INTERRUPTED = 130


@click.group(cls=LateGroup, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="halo %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error (anywhere in the command).")
def halo(*, debug: bool) -> None:
    """Make for agents: compile layered prompts, run turns from what was compiled.

    Exit codes: 0 fine, 1 failed, 2 the user's mistake, 3 could not start.
    """
    del debug  # taken out by `run`; here for --help


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code. `--debug` may stand anywhere before a `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    debug = "--debug" in arguments[:end]
    words = [word for i, word in enumerate(arguments) if word != "--debug" or i > end]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A prompt is UTF-8 wherever it is printed; a locale must not change or refuse a byte of it.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        result = halo.main(words, prog_name="halo", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except HaloError as error:
        if debug:
            _show_traceback()
        else:
            click.echo(f"halo: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        return reader_gone()
    except OSError as error:
        if debug:
            _show_traceback()
            return 1
        from halo.files.refusals import what_helps
        from halo.files.visible import shown

        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"halo: {shown(f'{where}{error.strerror or error}')}", err=True)
        if hint := what_helps(error):
            click.echo(f"  {hint}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _show_traceback() -> None:
    import traceback

    traceback.print_exc()
