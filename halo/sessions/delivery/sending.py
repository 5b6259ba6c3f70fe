"""Sends one message: with a time limit for each attempt, and again as the channel wants it."""

import asyncio
from collections.abc import Awaitable, Callable

from halo.errors import DeliveryError
from halo.records.outgoing import Outgoing
from halo.records.session_events import Delivered
from halo.sessions.delivery.channels import Channel, Retry

# Waits for so many seconds.
Sleep = Callable[[float], Awaitable[None]]


async def send(
    channel: Channel, message: Outgoing, seconds: float, sleep: Sleep = asyncio.sleep
) -> Delivered:
    """Send a message, at most `seconds` an attempt, and say what became of it. Raises no error."""
    retry, attempt = channel.retry, 1
    while True:
        error, wait = await _attempt(channel, message, seconds)
        name = message.address.channel
        if error is None:
            return Delivered(name, message.id, message.part, "sent", attempt)
        pause = wait_before(retry, attempt, wait) if error.passes else None
        if pause is None:
            return Delivered(name, message.id, message.part, "failed", attempt, error.on_one_line)
        await sleep(pause)
        attempt += 1


def wait_before(retry: Retry, attempt: int, asked: float | None) -> float | None:
    """Return the seconds to wait behind the `attempt`-th attempt; None where it was the last. Pure."""
    if attempt >= retry.attempts or (asked is not None and asked > retry.patience):
        return None
    own = min(retry.longest, retry.first * 2.0 ** min(attempt - 1, 60))
    return max(own, asked or 0.0)


async def _attempt(
    channel: Channel, message: Outgoing, seconds: float
) -> tuple[DeliveryError | None, float | None]:
    try:
        async with asyncio.timeout(seconds):
            await channel.send(message)
    except TimeoutError:
        return DeliveryError(f"it took longer than {seconds:g} seconds", passes=True), None
    except DeliveryError as error:
        return error, error.retry_after
    except Exception as error:  # noqa: BLE001  # a channel is foreign code: what it raises is told
        return DeliveryError(f"{type(error).__name__}: {error}"), None
    return None, None
