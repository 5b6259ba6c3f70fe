"""Few-shots: conversations in `agents/<id>/fewshots/` that a model is shown before the first message.

The format stands in docs/reference/agent-yaml.md. A file is a whole conversation: it begins with the user,
ends with the assistant, and every call in it has its result. The texts are given as they are written;
placeholders in them are text.
"""

import json
from typing import Any

import msgspec

from halo.errors import LayerError, near_miss_hint
from halo.files.canonical import canonical_text
from halo.files.tree import Entry, NotFound, Tree
from halo.records.artifacts import Scope
from halo.records.diagnostics import Diagnostic
from halo.records.messages import Message, Text, ToolCall, ToolResult
from halo.records.tools import BUILTIN_TOOLS, SESSION_TOOLS, ToolSpec
from halo.workspace.agents import Agent
from halo.workspace.conversion import convert
from halo.workspace.layers import unusable
from halo.workspace.yamldoc import Path, YamlDocument, load_yaml

_MOST = 100  # files; a model's window ends long before


class CallExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One item of `calls:`: a call that the assistant makes in this turn."""

    name: str
    arguments: dict[str, Any] = {}


class TurnExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation: exactly one of `user`, `assistant` (with or without `calls`), `results`."""

    user: str | msgspec.UnsetType = msgspec.UNSET
    assistant: str | msgspec.UnsetType | None = msgspec.UNSET
    calls: tuple[CallExample, ...] = ()
    results: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def kind(self) -> str:
        """Which of the three it is; empty where it is none or several."""
        kinds = [k for k in ("user", "assistant", "results") if getattr(self, k) is not msgspec.UNSET]
        return kinds[0] if len(kinds) == 1 else ""


class FewShots(msgspec.Struct, frozen=True):
    """The conversation of one file. The i-th of `lines` is where the i-th message stands.

    `tools` names the tools that are called in it.
    """

    source: str
    scope: Scope
    messages: tuple[Message, ...]
    lines: tuple[int, ...]
    tools: frozenset[str]


class FoundFewShots(msgspec.Struct, frozen=True):
    """The conversations of an agent in the order of their files' names, and what in the folder is none."""

    conversations: tuple[FewShots, ...]
    diagnostics: tuple[Diagnostic, ...] = ()


def read_few_shots(tree: Tree, agent: Agent) -> FoundFewShots:
    """Read the few-shots in the folder that serves `agent`.

    Raises `LayerError` with file and line for what is no conversation, or calls a tool in a way in which
    the agent cannot.
    """
    folder = f"{agent.folder}/fewshots"
    kind = tree.kind(folder)
    if kind == "other":
        raise unusable(folder)
    if kind == "file":
        return FoundFewShots((), (_remark(folder, "a file where a folder of conversations should be"),))
    if kind == "absent":
        return FoundFewShots(())
    entries = [e for e in tree.list(folder) if not e.name.startswith(".")]
    names = [e.name for e in entries if _is_conversation(e)]
    if len(names) > _MOST:
        raise LayerError(
            f"holds {len(names)} conversations, more than {_MOST}", file=folder, hint="keep the best ones"
        )
    remarks = tuple(
        _remark(f"{folder}/{e.name}", "only files that end in .yaml are conversations")
        for e in entries
        if not _is_conversation(e)
    )
    found = (_read(tree, f"{folder}/{name}", agent, number) for number, name in enumerate(names, 1))
    return FoundFewShots(tuple(f for f in found if f is not None), remarks)


def _is_conversation(entry: Entry) -> bool:
    return entry.name.endswith(".yaml") and entry.kind != "dir"


def _remark(source: str, message: str) -> Diagnostic:
    return Diagnostic("few-shot-file", "warning", message, source)


def _read(tree: Tree, source: str, agent: Agent, number: int) -> FewShots | None:
    """Read the `number`-th file; None when it is blank."""
    try:
        text = canonical_text(tree.read(source), source)
    except NotFound:
        raise unusable(source) from None
    document = load_yaml(text, source)
    if document.value is None:
        return None
    turns = _turns(document)
    _check_order(document, turns)
    _check_calls(document, turns, agent)
    return FewShots(
        source,
        agent.scope,
        _messages(document, turns, number),
        tuple(document.line(i) for i in range(len(turns))),
        frozenset(call.name for turn in turns for call in turn.calls),
    )


def _turns(document: YamlDocument) -> list[TurnExample]:
    if not isinstance(document.value, list) or not document.value:
        raise document.error("a conversation is a list of turns", hint="begin with: - user: …")
    lines: list[dict[Path, int]] = [{} for _ in document.value]
    for path, line in document.lines.items():
        if path and isinstance(path[0], int):
            lines[path[0]][path[1:]] = line
    turns = []
    for i, value in enumerate(document.value):
        turn = convert(YamlDocument(value, lines[i], document.source), TurnExample)
        if not turn.kind or (turn.calls and turn.kind != "assistant"):
            raise document.error(
                f"turn {i + 1} must be `user`, or `assistant` (with `calls` if it makes any), or `results`",
                i,
            )
        turns.append(turn)
    return turns


def _check_order(document: YamlDocument, turns: list[TurnExample]) -> None:
    """Check that user and assistant alternate, and that every call has its result."""
    expected = "user"
    for i, turn in enumerate(turns):
        if turn.kind != expected:
            raise document.error(
                f"turn {i + 1} is `{turn.kind}` where `{expected}` is to stand",
                i,
                hint="user and assistant alternate; after `calls` come their `results`",
            )
        if turn.kind == "results" and len(turn.results or ()) != len(turns[i - 1].calls):
            raise document.error(
                f"turn {i + 1}: {len(turn.results or ())} results for {len(turns[i - 1].calls)} calls",
                i,
                hint="one text for each call, in their order",
            )
        expected = {"user": "assistant", "results": "assistant"}.get(
            turn.kind, "results" if turn.calls else "user"
        )
    if expected != "user":
        raise document.error(
            f"the conversation ends without its last `{expected}`",
            len(turns) - 1,
            hint="it ends with what the assistant answers",
        )


def _check_calls(document: YamlDocument, turns: list[TurnExample], agent: Agent) -> None:
    """Check that the agent has the tools that are called, and that the arguments are theirs."""
    specs = _declared(agent)
    for i, turn in enumerate(turns):
        for j, call in enumerate(turn.calls):
            where = (i, "calls", j)
            spec = specs.get(call.name)
            if spec is None:
                raise document.error(
                    f"agent {agent.id!r} has no tool {call.name!r}",
                    *where,
                    "name",
                    hint=near_miss_hint(call.name, list(specs)),
                )
            known = spec.parameters["properties"]
            for argument in call.arguments:
                if argument not in known:
                    raise document.error(
                        f"{call.name} has no argument {argument!r}",
                        *where,
                        "arguments",
                        argument,
                        hint=near_miss_hint(argument, list(known)),
                    )
            for argument in spec.parameters.get("required", ()):
                if argument not in call.arguments:
                    raise document.error(f"{call.name} wants the argument {argument!r}", *where)


def _declared(agent: Agent) -> dict[str, ToolSpec]:
    """Return the tools that agent.yaml gives the agent, before access, mode or settings take any away."""
    names = set(agent.config.tools)
    if agent.delegates:
        names.update(spec.name for spec in SESSION_TOOLS)
    if agent.config.skills:
        names.add("activate_skill")
    return {spec.name: spec for spec in BUILTIN_TOOLS if spec.name in names}


def _messages(document: YamlDocument, turns: list[TurnExample], number: int) -> tuple[Message, ...]:
    """Make the messages; the calls of the `number`-th file are `fewshot-<number>-1`, `-2` and so on."""
    messages: list[Message] = []
    count = 0
    open_calls: list[str] = []
    for i, turn in enumerate(turns):
        if turn.results:
            pairs = zip(open_calls, turn.results, strict=True)
            messages.append(
                Message("user", tuple(ToolResult(call, text.strip("\n")) for call, text in pairs))
            )
            continue
        text = ((turn.user if turn.kind == "user" else turn.assistant) or "").strip()
        if not text and not turn.calls:
            raise document.error(f"turn {i + 1} says nothing", i)
        open_calls = [f"fewshot-{number}-{count + j}" for j in range(1, len(turn.calls) + 1)]
        count += len(open_calls)
        calls = tuple(
            ToolCall(open_calls[j], call.name, _arguments(document, call, i, j))
            for j, call in enumerate(turn.calls)
        )
        words = (Text(text),) if text else ()
        messages.append(Message("user" if turn.kind == "user" else "assistant", (*words, *calls)))
    return tuple(messages)


def _arguments(document: YamlDocument, call: CallExample, i: int, j: int) -> str:
    try:
        return json.dumps(call.arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise document.error(
            f"{call.name}: these arguments cannot be written as JSON", i, "calls", j, "arguments"
        ) from None
