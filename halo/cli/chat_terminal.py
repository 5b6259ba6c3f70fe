"""The terminal that a chat reads: raw from its first prompt to its last."""

import sys
from contextlib import AbstractContextManager, nullcontext

from prompt_toolkit.input import Input, create_input


def terminal_input() -> Input:
    """Return stdin as prompt_toolkit reads it, but raw while something is printed too.

    prompt_toolkit gives the terminal back to the system's line editing while it prints. What is typed in
    these moments is echoed into the output, Ctrl-D comes as a NUL, Backspace and Ctrl-U are eaten and
    Alt-Enter ends the line (termios(3), canonical mode). Nothing that a chat prints reads what is typed, so
    it needs no line editing.
    """
    if sys.platform == "win32":
        return create_input()
    from prompt_toolkit.input.vt100 import Vt100Input

    class RawInput(Vt100Input):
        def cooked_mode(self) -> AbstractContextManager[None]:
            return nullcontext()

    return RawInput(sys.stdin)
