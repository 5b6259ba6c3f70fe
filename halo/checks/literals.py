"""H102: placeholders where nothing resolves them."""

from collections.abc import Iterator

from halo.compiler.placeholders import PLACEHOLDER
from halo.records.diagnostics import Diagnostic


def literals_in(key: str, value: str, source: str, line: int) -> Iterator[Diagnostic]:
    """Say of each placeholder in the `value` of `key` that the model gets it as it is written."""
    for text in dict.fromkeys(match[0] for match in PLACEHOLDER.finditer(value)):
        message = f"{text} in {key} stays as it is: placeholders are for AGENT.md and the text of SKILL.md"
        yield Diagnostic("placeholder-literal", "warning", message, source, line)
