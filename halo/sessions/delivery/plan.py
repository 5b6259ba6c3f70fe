"""How one answer is delivered: the settings of a channel, and what the channel can. Pure."""

from typing import Literal

import msgspec

from halo.sessions.delivery.chunks import ChunkConfig
from halo.sessions.delivery.coalescer import JOINERS, CoalesceConfig
from halo.sessions.delivery.pacing import NATURAL_MS, Pace
from halo.workspace.settings.delivery import ChunkSettings, DeliverySettings, HumanDelay, laid_over

TEXT_LIMIT = 4000
BLOCK = (800, 1200)
DRAFT = (200, 800)
IDLE_MS = 1000
SEND_SECONDS = 30.0

Streaming = Literal["off", "text_end", "message_end"]


class Plan(msgspec.Struct, frozen=True):
    """What counts for one answer.

    `whole` cuts an answer that is sent when it is over, `blocks` one that is sent in parts, `draft_blocks`
    says when a draft is shown anew. `seconds` bounds an attempt to send.
    """

    streaming: Streaming
    whole: ChunkConfig
    blocks: ChunkConfig
    coalesce: CoalesceConfig
    pace: Pace
    drafts: Literal["off", "partial", "block"]
    draft_blocks: ChunkConfig
    seconds: float


def plan_for(
    settings: DeliverySettings,
    channel: str,
    account: str = "",
    agent: str = "",
    *,
    text_limit: int = 0,
    drafts: bool = False,
) -> Plan:
    """Return how answers of `agent` are delivered to an account of a channel.

    `text_limit` is the channel's own (0: none), which no setting exceeds; `drafts`: it can show them. Where
    drafts are shown, no parts are sent: everything would be there twice.
    """
    options = settings.options(channel, account)
    asked = TEXT_LIMIT if options.text_limit is None else options.text_limit
    limit = min(asked, text_limit) if asked > 0 and text_limit > 0 else max(asked, text_limit, 0)
    lines = options.max_lines_per_message or 0
    paragraphs = options.chunk_mode == "newline"
    shown = options.drafts or "off"
    shown = shown if drafts else "off"
    blocks = _blocks(options.chunk, BLOCK, limit, lines, paragraphs=paragraphs)
    streaming: Streaming = options.block_break or "text_end"
    if not options.block_streaming or shown != "off":
        streaming = "off"
    whole = ChunkConfig(
        1 if paragraphs else max(1, limit // 2),
        limit,
        blocks.break_preference,
        paragraphs,
        lines,
    )
    most = options.coalesce.max_chars or limit
    own = settings.agents.get(agent)
    delay = laid_over(HumanDelay, options.human_delay, *([own.human_delay] if own is not None else []))
    return Plan(
        streaming,
        whole,
        blocks,
        CoalesceConfig(
            blocks.min_chars if options.coalesce.min_chars is None else options.coalesce.min_chars,
            min(most, limit) if limit > 0 else most,
            lines,
            (IDLE_MS if options.coalesce.idle_ms is None else options.coalesce.idle_ms) / 1000,
            JOINERS[blocks.break_preference],
        ),
        Pace(
            delay.mode or "off",
            NATURAL_MS[0] if delay.min_ms is None else delay.min_ms,
            NATURAL_MS[1] if delay.max_ms is None else delay.max_ms,
        ),
        shown,
        _blocks(options.draft_chunk, DRAFT, limit, lines, paragraphs=False),
        SEND_SECONDS if options.send_seconds is None else options.send_seconds,
    )


def _blocks(
    asked: ChunkSettings, default: tuple[int, int], limit: int, lines: int, *, paragraphs: bool
) -> ChunkConfig:
    """Return how parts are cut; neither bound is above what a message may have."""
    most = asked.max_chars or default[1]
    most = min(most, limit) if limit > 0 else most
    least = default[0] if asked.min_chars is None else asked.min_chars
    return ChunkConfig(
        1 if paragraphs else max(1, min(least, most)),
        most,
        asked.break_preference or "paragraph",
        paragraphs or bool(asked.flush_on_paragraph),
        lines,
    )
