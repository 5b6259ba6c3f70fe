"""Arrays of messages as Anthropic's Messages API takes them, read into neutral messages. Pure."""

from typing import Any

from halo.records.messages import Block, Image, ProviderData, Text, Thinking, ToolResult
from halo.sessions.exchange.taking import Taken, Taking, brief

_PROVIDER = "anthropic"


def read_anthropic(items: list[Any]) -> Taken:
    """Read an array. Raises `ExchangeError`, with the number of the message, for what is none."""
    taking = Taking()
    for item in taking.each(items):
        role = item.get("role")
        if role == "system":
            taking.remark("a system text is left out: the agent has a prompt of its own")
        elif role in ("user", "assistant"):
            taking.add(role, _blocks(taking, item.get("content")))
        else:
            raise taking.wrong(f"its role is {brief(role)}", "known: user, assistant")
    return taking.done()


def _blocks(taking: Taking, content: Any) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise taking.wrong(f"content is neither text nor an array, but {brief(content)}")
    return [_block(taking, block) for block in content]


def _block(taking: Taking, block: Any) -> Block:
    kind = block.get("type") if isinstance(block, dict) else None
    match kind:
        case "text":
            return Text(taking.text(block.get("text"), "a block of text"))
        case "image":
            return _picture(taking, block.get("source"))
        case "tool_use":
            return taking.call(block.get("id"), block.get("name"), block.get("input", {}))
        case "tool_result":
            return _result(taking, block)
        case "thinking":
            thought = taking.text(block.get("thinking"), "a thought")
            return Thinking(thought, ProviderData(_PROVIDER, block))
        case "redacted_thinking":
            return Thinking("", ProviderData(_PROVIDER, block))
        case str():
            return taking.left_out(f"a block of type {brief(kind)}")
    raise taking.wrong(f"a block of its content is {brief(block)}", "a block is an object with a type")


def _picture(taking: Taking, source: Any) -> Block:
    if isinstance(source, dict) and source.get("type") == "base64":
        return taking.picture(source.get("media_type"), source.get("data"))
    if isinstance(source, dict) and source.get("type") == "url":
        return taking.linked_picture(source.get("url"))
    return taking.left_out("a picture that is neither base64 nor an address")


def _result(taking: Taking, block: dict[str, Any]) -> ToolResult:
    content = block.get("content")
    blocks = [] if content is None else _blocks(taking, content)
    text = "\n\n".join(each.text for each in blocks if isinstance(each, Text))
    pictures = tuple(each for each in blocks if isinstance(each, Image))
    answered = taking.text(block.get("tool_use_id"), "tool_use_id")
    return ToolResult(answered, text, is_error=block.get("is_error") is True, images=pictures)
