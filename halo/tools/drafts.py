"""`draft`: a draft of the answer is looked at once more before it is given."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from halo.tools.base import Surroundings, ToolFailure

_MOST = 3  # in a turn; more reviews change words, not substance

_CHECKLIST = """\
Nobody has seen this draft yet. Read it as somebody who wants to find it wrong:

1. Question: does it answer what was asked, all of it, in the form that was asked for?
2. Proof: for each claim about files, commands or results, what did you look at? Check now what you only \
assume, and say so where you cannot.
3. Work: is everything done that it says is done? Were tests and commands run after the last change?
4. Holes: which case, input or side effect is not covered? What would break first?
5. Numbers and names: do paths, names, versions and figures stand as they are in their sources?
6. Reader: does the most important thing come first? Leave out what nobody needs.

Mend what you find. Then answer; hand in another draft only if much has changed ({left})."""

_ENOUGH = (
    "That was draft {number}. {most} are reviewed in a turn, and more would not help: write your answer now."
)


class Drafts:
    """The tool, with its count: one for each turn."""

    def __init__(self) -> None:
        self._numbers = count(1)  # also across threads

    def __call__(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Return the checklist; from the fourth draft on, say that it is enough. Empty ones do not count."""
        del around
        if not arguments["content"].strip():
            raise ToolFailure("the draft is empty; hand in the whole text of your answer")
        number = next(self._numbers)
        if number > _MOST:
            return _ENOUGH.format(number=number, most=_MOST)
        left = _MOST - number
        said = f"{left} more can be reviewed" if left else "this was the last review"
        return _CHECKLIST.format(left=said)
