"""Python functions as tools: the schema from type hints, the descriptions from the docstring."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from halo.errors import UsageError
from halo.records.tools import ToolSpec
from halo.tools.base import Answer, Surroundings, Tool, ToolFailure

_P = ParamSpec("_P")
_R = TypeVar("_R")

# What every provider takes.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool(Generic[_P, _R]):
    """A function that a model may call. Calling the object calls the function.

    `spec` is what the model is told.
    """

    def __init__(self, function: Callable[_P, _R], *, name: str = "", read_only: bool = False) -> None:
        """See `tool`."""
        self.function = function
        self.__doc__ = function.__doc__
        self._arguments = _struct_of(function)
        name = name or function.__name__
        if not _NAME.fullmatch(name):
            raise TypeError(f"{name!r}: the name of a tool has up to 64 of A-Z, a-z, 0-9, _ and -")
        self.spec = ToolSpec(
            name,
            _description(function),
            _schema(self._arguments),
            access="readonly" if read_only else "workspace",
        )

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def bound(self) -> Tool:
        """Return it as the toolbox runs it: a coroutine function if the function is one."""
        if inspect.iscoroutinefunction(self.function):

            async def run(arguments: Mapping[str, Any], around: Surroundings) -> str | Answer:  # noqa: ARG001
                made = self.function(**self._typed(arguments))  # type: ignore[call-arg]  # checked by the schema
                return _said(await made)  # type: ignore[misc]  # a coroutine function gives an awaitable

            return run

        def run_in_thread(
            arguments: Mapping[str, Any],
            around: Surroundings,  # noqa: ARG001
        ) -> str | Answer:
            return _said(self.function(**self._typed(arguments)))  # type: ignore[call-arg]

        return run_in_thread

    def _typed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Turn JSON values into the types of the hints: dates, enums, structs."""
        try:
            value = msgspec.convert(dict(arguments), self._arguments)
        except msgspec.ValidationError as error:
            raise ToolFailure(f"{self.spec.name}: {error}") from error
        return {name: getattr(value, name) for name in self._arguments.__struct_fields__}


Tools = tuple[FunctionTool[..., Any], ...]


def checked(functions: Iterable[Any]) -> Tools:
    """Return the functions of a program. Raises TypeError for one that is no tool yet."""
    tools = tuple(functions)
    for function in tools:
        if not isinstance(function, FunctionTool):
            name = getattr(function, "__name__", repr(function))
            raise TypeError(f"{name} is no tool: decorate it with @halo.tool")
    return tools


def with_added(tools: Tools, new: Tools) -> Tools:
    """Return `tools` and `new` ones; of two with one name the new one stays."""
    names = {tool.spec.name for tool in new}
    return (*(tool for tool in tools if tool.spec.name not in names), *new)


def without(tools: Tools, names: Collection[str]) -> Tools:
    """Return `tools` without those of these names. Raises UsageError for a name that none has."""
    have = [tool.spec.name for tool in tools]
    for name in names:
        if name not in have:
            raise UsageError(
                f"no function {name!r} was added", hint=f"there are: {', '.join(have) or 'none'}"
            )
    return tuple(tool for tool in tools if tool.spec.name not in names)


@overload
def tool(function: Callable[_P, _R], /) -> FunctionTool[_P, _R]: ...
@overload
def tool(
    *, name: str = "", read_only: bool = False
) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...
def tool(
    function: Callable[_P, _R] | None = None, /, *, name: str = "", read_only: bool = False
) -> FunctionTool[_P, _R] | Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]:
    """Make a function a tool. Plain functions run in a thread, coroutine functions in the event loop.

    Every parameter needs a type hint that JSON can carry (what `msgspec` converts: numbers, text, lists,
    dictionaries, dates, enums, dataclasses, structs, `Literal`, unions with None). The first paragraph of the
    docstring says what the tool is for, its parameter section (Google, NumPy or reST style) what the
    parameters mean. Text that is returned is what the model reads; anything else is given to it as JSON.
    Raise `ToolFailure` for what the model can mend.

    `read_only`: it changes nothing, so it may run beside others of the kind and below access `workspace`.
    Raises TypeError for a function that cannot be described.
    """
    if function is not None:
        return FunctionTool(function)
    return lambda function: FunctionTool(function, name=name, read_only=read_only)


def _struct_of(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Build a type that holds the arguments of a function."""
    hints = get_type_hints(function, include_extras=True)
    described = _parameter_descriptions(function)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _KINDS:
            raise TypeError(f"{function.__name__}: a tool takes named parameters only, not *{parameter.name}")
        if parameter.name not in hints:
            raise TypeError(f"{function.__name__}: the parameter {parameter.name!r} has no type hint")
        kind: Any = hints[parameter.name]
        if text := described.get(parameter.name, ""):
            kind = Annotated[kind, msgspec.Meta(description=text)]
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    return msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def _default(value: Any) -> Any:
    # The schema shows plain values. Of others msgspec would make copies, where Python shares the one.
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return msgspec.field(default_factory=lambda: value)


def _schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, an object at the top. Raises TypeError for other types."""
    try:
        (whole,), definitions = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"{arguments.__name__}: {error}") from error
    top = dict(definitions.pop(whole["$ref"].rpartition("/")[2]))
    top.pop("title", None)
    top.setdefault("properties", {})
    if not top.get("required"):
        top.pop("required", None)
    if definitions:
        top["$defs"] = definitions
    return top


def _description(function: Callable[..., Any]) -> str:
    from docstring_parser import parse

    parsed = parse(inspect.getdoc(function) or "")
    text = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    if not text:
        raise TypeError(f"{function.__name__}: a tool needs a docstring that says what it is for")
    return text


def _parameter_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    from docstring_parser import parse

    parsed = parse(inspect.getdoc(function) or "")
    return {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}


def _said(value: Any) -> str | Answer:
    """Return what the model is given of a function's result."""
    if isinstance(value, (str, Answer)):
        return value
    if value is None:
        return "done"
    return msgspec.json.encode(value, order="deterministic").decode()
