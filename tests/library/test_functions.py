"""Python functions as tools."""

import asyncio
import datetime as dt
import enum
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import pytest

from halo.library.functions import tool
from halo.records.messages import ToolCall
from halo.tools.base import Answer, ToolFailure
from halo.tools.toolbox import check_arguments


@tool
def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Say what the weather will be.

    It is made up.

    Args:
        city: Where, in
            English.
        days: How many days ahead.
    """
    return f"{city} in {days}: 20 {unit}"


def run(made, arguments):
    checked = check_arguments(made.spec, msgspec.json.encode(arguments).decode())
    answer = made.bound()(checked, None)
    return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def test_what_the_model_is_told():
    assert weather.spec.name == "weather"
    assert weather.spec.description == "Say what the weather will be.\n\nIt is made up."
    assert weather.spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where, in English."},
            "days": {"type": "integer", "description": "How many days ahead.", "default": 1},
            "unit": {"enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_it_is_still_the_function():
    assert weather("Oslo", days=2) == "Oslo in 2: 20 C"


def test_the_model_calls_it_with_json():
    assert run(weather, {"city": "Oslo", "unit": "F"}) == "Oslo in 1: 20 F"


def test_numpy_and_rest_docstrings_are_read_too():
    @tool
    def numpy_style(x: int) -> int:
        """Double it.

        Parameters
        ----------
        x : int
            The number.
        """
        return 2 * x

    @tool
    def rest_style(x: int) -> int:
        """Double it.

        :param x: The number.
        """
        return 2 * x

    for made in (numpy_style, rest_style):
        assert made.spec.parameters["properties"]["x"]["description"] == "The number."
        assert run(made, {"x": 4}) == "8"


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Box:
    size: Size
    due: dt.date


def test_arguments_arrive_as_the_types_of_the_hints():
    seen = []

    @tool
    def pack(boxes: list[Box], note: Annotated[str, msgspec.Meta(max_length=5)] = "") -> dict[str, int]:
        """Pack boxes."""
        seen.extend(boxes)
        return {"packed": len(boxes)}

    assert run(pack, {"boxes": [{"size": "large", "due": "2026-12-24"}]}) == '{"packed":1}'
    assert seen == [Box(Size.LARGE, dt.date(2026, 12, 24))]
    with pytest.raises(ToolFailure, match="due"):
        run(pack, {"boxes": [{"size": "large", "due": "tomorrow"}]})
    with pytest.raises(ToolFailure, match="note"):
        run(pack, {"boxes": [], "note": "too long"})


def test_coroutine_functions_and_answers_with_more_than_text():
    @tool(name="look", read_only=True)
    async def look_around() -> Answer:
        """Look around."""
        await asyncio.sleep(0)
        return Answer("a wall")

    assert (look_around.spec.name, look_around.spec.access) == ("look", "readonly")
    assert weather.spec.access == "workspace"
    assert run(look_around, {}) == Answer("a wall")


def test_nothing_is_said_as_done():
    @tool
    def quiet() -> None:
        """Do it."""

    assert run(quiet, {}) == "done"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(x):\n    'Doc.'", "no type hint"),
        ("def f(*x: int):\n    'Doc.'", "named parameters only"),
        ("def f(**x: int):\n    'Doc.'", "named parameters only"),
        ("def f(x: int): pass", "docstring"),
        ("def f(x: object.__class__.__class__('T', (), {})):\n    'Doc.'", "f: "),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_at_once(source, says):
    scope = {}
    exec(source, scope)
    with pytest.raises(TypeError, match=says):
        tool(scope["f"])


def test_a_call_that_does_not_fit_never_runs():
    ran = []

    @tool
    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "acted"

    for arguments in ("{}", '{"n": "x"}', '{"n": 1, "m": 2}', "[1]", "{", '"n"'):
        with pytest.raises(ToolFailure):
            check_arguments(act.spec, ToolCall("c", "act", arguments).arguments)
    assert not ran
