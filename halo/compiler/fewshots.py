"""The few-shots of an artifact: messages before the first one of a session, and where they come from."""

from typing import NamedTuple

from halo.compiler.compilation import Compilation
from halo.compiler.tokens import estimate, spoken
from halo.records.artifacts import FewShotSource
from halo.records.diagnostics import Diagnostic
from halo.records.messages import Message
from halo.records.tools import ToolSpec
from halo.workspace.fewshots import read_few_shots


class Shown(NamedTuple):
    """The messages, and for each of them its source."""

    messages: tuple[Message, ...] = ()
    sources: tuple[FewShotSource, ...] = ()


def few_shots(job: Compilation, specs: tuple[ToolSpec, ...]) -> Shown:
    """Collect the few-shots of the agent.

    A conversation that calls a tool which this target does not offer is left out whole, with a remark: it
    would teach the model to call what it does not have.
    """
    found = read_few_shots(job.tree, job.agent)
    job.diagnostics.extend(found.diagnostics)
    offered = {spec.name for spec in specs}
    messages: list[Message] = []
    sources: list[FewShotSource] = []
    for conversation in found.conversations:
        if missing := ", ".join(sorted(conversation.tools - offered)):
            job.say(
                Diagnostic(
                    "few-shots-left-out",
                    "info",
                    f"left out of {job.target.label}, which does not offer {missing}",
                    conversation.source,
                )
            )
            continue
        for message, line in zip(conversation.messages, conversation.lines, strict=True):
            messages.append(message)
            tokens = estimate(spoken(message).encode())
            sources.append(FewShotSource(conversation.source, conversation.scope, line, tokens))
    return Shown(tuple(messages), tuple(sources))
