"""Where `halo` starts."""

import os
import sys


def read_names_as_utf8() -> None:
    """Start again in UTF-8 mode where a locale makes Python read file names as something else.

    The same files must make the same prompts, on whatever machine.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  # itself


def main() -> None:
    """Run the command line and exit with its code."""
    from halo.cli.quick import answer, flushed, open_streams

    read_names_as_utf8()
    open_streams()
    arguments = sys.argv[1:]
    code = answer(arguments)
    if code is None:
        from halo.cli.main import run

        code = run(arguments)
    sys.exit(flushed(code))


if __name__ == "__main__":
    main()
