"""`halo build --kv`: model state ahead of time."""

import os
import time
from typing import TYPE_CHECKING

import click

from halo.records.targets import AgentTarget, Target

if TYPE_CHECKING:
    from halo.build.builder import Builder


def prepare_states(builder: "Builder", targets: list[Target]) -> None:
    """Compute and save the state of the static prefix of every `local` agent, as root and as sub.

    Agents that only the templates define are left to their first use, the one that answers by default
    excepted.
    """
    import asyncio

    from halo.models.catalogue import cache_dir
    from halo.models.opening import prepare_state
    from halo.sessions.desk import Desk
    from halo.workspace.ids import serving_folder

    tree = builder.places.tree()
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    for target in targets:
        if not isinstance(target, AgentTarget):
            continue
        if target.agent != "default" and serving_folder(tree, "agents", target.agent).scope == "builtin":
            continue
        artifact = builder.ensure(target)
        runtime = artifact.manifest.runtime
        if runtime is None or runtime.binding.provider != "local":
            continue
        desk.admit_model_file(runtime.binding, target)
        size = artifact.manifest.static_prefix.bytes
        prepared = asyncio.run(
            prepare_state(
                runtime.binding,
                artifact.prompt.encode()[:size].decode(),
                tools=artifact.manifest.tools,
                tool_mode=runtime.tool_mode,
                context_tokens=runtime.context_tokens,
                cache=cache_dir(os.environ),
                base_dir=builder.places.workspace,
            )
        )
        how = "was there" if prepared.existed else "saved"
        click.echo(f"state   {target.name}  {prepared.tokens:,} tokens {how}", err=True)
