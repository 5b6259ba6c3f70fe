"""Arrays of messages as OpenAI's Chat Completions take them, read into neutral messages. Pure."""

from typing import Any

from halo.records.messages import Block, Text, Thinking, ToolCall, ToolResult
from halo.sessions.exchange.taking import Taken, Taking, brief

_SYSTEM = frozenset({"system", "developer"})
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})


def read_openai(items: list[Any]) -> Taken:
    """Read an array. Raises `ExchangeError`, with the number of the message, for what is none."""
    taking, calls = Taking(), _OldCalls()
    for item in taking.each(items):
        role, kind = item.get("role"), item.get("type")
        if not isinstance(role, str) and isinstance(kind, str) and kind in _ITEMS:
            hint = "ask for the conversation as Chat messages: objects with role and content"
            raise taking.wrong("it is an item of the Responses API", hint)
        if isinstance(role, str) and role in _SYSTEM:
            taking.remark("a system text is left out: the agent has a prompt of its own")
        elif role == "user":
            taking.add("user", _parts(taking, item.get("content")))
        elif role == "assistant":
            taking.add("assistant", _assistant(taking, item, calls))
        elif role == "tool":
            answered = taking.text(item.get("tool_call_id"), "tool_call_id")
            taking.add("user", [ToolResult(answered, _result(taking, item.get("content")))])
        elif role == "function":
            answered = calls.answered(item.get("name"))
            taking.add("user", [ToolResult(answered, _result(taking, item.get("content")))])
        else:
            raise taking.wrong(
                f"its role is {brief(role)}", "known: system, developer, user, assistant, tool"
            )
    return taking.done()


class _OldCalls:
    """Ids for calls from before there were ids: a result is that of the last call of the function."""

    def __init__(self) -> None:
        self._number = 0
        self._last: dict[Any, str] = {}

    def made(self, name: str) -> str:
        self._number += 1
        self._last[name] = f"function_{self._number}"
        return self._last[name]

    def answered(self, name: Any) -> str:
        return self._last.get(name, "") if isinstance(name, str) else ""


def _assistant(taking: Taking, item: dict[str, Any], old: _OldCalls) -> list[Block]:
    blocks: list[Block] = []
    thought = item.get("reasoning_content")
    if isinstance(thought, str) and thought:
        blocks.append(Thinking(thought))
    blocks += _parts(taking, item.get("content"))
    if isinstance(refusal := item.get("refusal"), str) and refusal:
        blocks.append(Text(refusal))
    if item.get("audio"):
        blocks.append(taking.left_out("a sound"))
    if isinstance(call := item.get("function_call"), dict):
        name = taking.text(call.get("name"), "the name of a function")
        blocks.append(taking.call(old.made(name), name, call.get("arguments", "")))
    calls = item.get("tool_calls") or []
    if not isinstance(calls, list):
        raise taking.wrong(f"tool_calls is no array, but {brief(calls)}")
    return [*blocks, *(_call(taking, call) for call in calls)]


def _call(taking: Taking, call: Any) -> ToolCall:
    kind = call.get("type", "function") if isinstance(call, dict) else None
    asked = call.get(kind) if isinstance(kind, str) else None
    if not isinstance(asked, dict) or kind not in ("function", "custom"):
        raise taking.wrong(f"a call of a tool is {brief(call)}", "a call has id, type and function")
    if kind == "custom":
        return taking.call(call.get("id"), asked.get("name"), {"input": asked.get("input")})
    return taking.call(call.get("id"), asked.get("name"), asked.get("arguments", ""))


def _parts(taking: Taking, content: Any) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise taking.wrong(f"content is neither text nor an array, but {brief(content)}")
    return [_part(taking, part) for part in content]


def _part(taking: Taking, part: Any) -> Block:
    if isinstance(part, str):
        return Text(part)
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "refusal"):
        return Text(taking.text(part.get(kind), f"a part of type {kind}"))
    if kind == "image_url":
        where = part.get("image_url")
        return taking.linked_picture(where.get("url") if isinstance(where, dict) else where)
    if not isinstance(kind, str):
        raise taking.wrong(f"a part of its content is {brief(part)}", "a part is an object with a type")
    return taking.left_out(f"a part of type {brief(kind)}")


def _result(taking: Taking, content: Any) -> str:
    return "\n\n".join(block.text for block in _parts(taking, content) if isinstance(block, Text))
