"""What is written into the documentation from the code: the CLI reference, the error tree, the schemas.

The reference pages call these functions in cog blocks (`doit docs` writes them, `doit lint` checks them).
`python docs/generate.py` writes `docs/schemas/`.
"""
# ruff: noqa: INP001

import inspect
import os
import re
import textwrap
from collections.abc import Iterator

import click

from halo import errors
from halo.cli.main import halo
from halo.errors import HaloError
from halo.files.canonical import readable_json
from halo.records.schemas import RECORDS, json_schema

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas")

# Unions have no docstring of their own.
_UNIONS = {
    "event-data": "what stands in `data` of an event, by the event's `type`",
    "block": "a part of a message: text, thinking, a tool call, a tool result, a picture",
    "target": "what can be compiled: an agent, a skill's body, a directory's rules",
}


def cli_reference() -> str:
    """Write every command with every option, as Markdown."""
    return "\n".join(_commands(halo, "halo"))


def _commands(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"## `{name}`\n\n```text\n{name} {pieces}\n```\n\n{_paragraphs(command.help or '')}"
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        rows = [f"| {_names(option, context)} | {_cell(_meaning(option))} |" for option in options]
        yield "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _commands(found, f"{name} {below}")


def _paragraphs(text: str) -> str:
    blocks = [
        textwrap.fill(block, 118, break_long_words=False, break_on_hyphens=False)
        for block in inspect.cleandoc(text).split("\n\n")
    ]
    return "\n\n".join(blocks).replace("{{", "`{{").replace("}}", "}}`") + "\n"


def _names(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    return f"{names} `{_cell(option.make_metavar(context))}`"


def _meaning(option: click.Option) -> str:
    text = option.help or ""
    if option.show_default:
        text = f"{text} Default: `{option.default}`."
    return text.strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def error_classes() -> list[type[HaloError]]:
    """List the exported errors, each before its subclasses, in the order of the module."""

    def below(kind: type[HaloError]) -> Iterator[type[HaloError]]:
        yield kind
        for child in kind.__subclasses__():
            if child.__module__ == errors.__name__:
                yield from below(child)

    return list(below(HaloError))


def error_tree() -> str:
    """Write the tree of errors with exit codes, as a Markdown table."""
    rows = ["| error | exit code | meaning |", "|---|---|---|"]
    for kind in error_classes():
        depth = len(kind.__mro__) - len(HaloError.__mro__)
        indent = "&emsp;" * depth
        rows.append(f"| {indent}`{kind.__name__}` | {kind.exit_code} | {_cell(first_line(kind))} |")
    return "\n".join(rows) + "\n"


def first_line(thing: object) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def schema_list() -> str:
    """List the JSON Schemas with links, as Markdown; seen from `docs/reference/`."""
    lines = (f"- [`{name}`](../schemas/{name}.json): {_about(name)}" for name in sorted(RECORDS))
    return "".join(textwrap.fill(line, 118, subsequent_indent="  ") + "\n" for line in lines)


def _about(name: str) -> str:
    if name in _UNIONS:
        return _UNIONS[name]
    text = re.sub(r" \(design [\d.]+\)", "", first_line(RECORDS[name])).removesuffix(".")
    return text[:1].lower() + text[1:]


def schema_text(name: str) -> bytes:
    """Write one JSON Schema as it lies in `docs/schemas/`: sorted and indented."""
    return readable_json(json_schema(name))


def write_schemas() -> None:
    """Write `docs/schemas/<name>.json` for every record; files of records that are gone go as well."""
    os.makedirs(SCHEMAS, exist_ok=True)
    for old in os.listdir(SCHEMAS):
        if old.removesuffix(".json") not in RECORDS:
            os.unlink(os.path.join(SCHEMAS, old))
    for name in RECORDS:
        with open(os.path.join(SCHEMAS, f"{name}.json"), "wb") as file:
            file.write(schema_text(name))


if __name__ == "__main__":
    write_schemas()
