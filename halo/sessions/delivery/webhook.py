"""The channel `webhook`: each message is an HTTP POST to an address of the user's, signed.

The name is looked up for each attempt; every address that it leads to must be public, unless the settings
say otherwise, and the connection goes to one of exactly those. Redirects are not followed. No error and no
log names the secret or the query of the address.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from halo.errors import DeliveryError, UsageError
from halo.files.canonical import canonical_json
from halo.models.retry_after import seconds_to_wait
from halo.records.outgoing import Outgoing
from halo.sessions.delivery.channels import Opening, Retry
from halo.sessions.delivery.signing import key_of, signature
from halo.tools.web_addresses import is_public
from halo.tools.web_client import client_for, request_at
from halo.tools.web_fetch import look_up
from halo.workspace.mcp.servers import is_loopback_address

if TYPE_CHECKING:
    import httpx2

# What may be otherwise when it is tried again: time-outs, too early, too many, the server's own faults.
_PASSES = frozenset({408, 409, 425, 429})
_ADDRESSES = 4  # of a name, that are tried


class Webhook:
    """`url`; `secret`, with which the body is signed; `private: true` allows an address of a private network.

    The address is https, or http where `private` allows it or it is this machine's.
    """

    text_limit = 0
    drafts = True
    retry = Retry(attempts=6, first=0.5, longest=30.0)

    def __init__(self, opening: Opening) -> None:
        import httpx2

        opening.only("url", "secret", "private")
        self._now = opening.now
        self._key = key_of(opening.params.get("secret", ""))
        url = opening.params.get("url", "")
        self._private = opening.params.get("private", "false") == "true"
        if not self._key:
            raise UsageError(f"the channel {opening.channel} has no secret", hint='secret: "<<NAME>>"')
        try:
            self._url = httpx2.URL(url)
            parts = urlsplit(url)
            port = parts.port  # is checked when it is asked for
        except (httpx2.InvalidURL, ValueError):
            raise _bad_address(opening.channel) from None
        # What two parsers read differently is no address.
        same = (parts.hostname or "").lower() == self._url.host.lower() and port == self._url.port
        if self._url.scheme not in ("http", "https") or self._url.userinfo or not self._url.host or not same:
            raise _bad_address(opening.channel)
        if self._url.scheme == "http" and not (self._private or is_loopback_address(_without_query(url))):
            raise UsageError(
                f"the channel {opening.channel} has an http address: anybody could read and answer",
                hint="use https, or private: true for an address in your own network",
            )

    async def send(self, message: Outgoing) -> str:
        """Post a message; a second time, it has the same `webhook-id`."""
        return await self._post(message, {"halo-event": "message"})

    async def draft(self, message: Outgoing) -> None:
        """Post a draft: it goes in the place of the last one, and is never retried."""
        await self._post(message, {"halo-event": "draft"})

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    async def _post(self, message: Outgoing, headers: dict[str, str]) -> str:
        body = canonical_json(message)
        now = int(self._now())
        headers = {
            **headers,
            "content-type": "application/json",
            "idempotency-key": message.id,
            "webhook-id": message.id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._key, message.id, now, body),
        }
        addresses = await self._addresses()
        for address in addresses[:-1]:
            answer = await self._try(address, headers, body, last=False)
            if answer is not None:
                return answer
        return await self._try(addresses[-1], headers, body, last=True) or ""

    async def _addresses(self) -> list[str]:
        port = self._url.port or {"http": 80, "https": 443}[self._url.scheme]
        host = self._url.raw_host.decode("ascii")
        try:
            found = await look_up(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise DeliveryError(f"the host {host} is not known", passes=True)
        if not self._private and not all(is_public(address) for address in found):
            raise DeliveryError(
                f"{host} is not on the public internet, and webhooks go nowhere else",
                hint='params: {private: "true"} allows it',
            )
        return found[:_ADDRESSES]

    async def _try(self, address: str, headers: dict[str, str], body: bytes, *, last: bool) -> str | None:
        """Post to one address; None where it takes no connection and another one may."""
        import httpx2

        try:
            async with await client_for(self._url) as client:
                request = request_at(client, "POST", self._url, address, headers, body)
                response = await client.send(request, stream=True)
                try:
                    return await self._answered(response)
                finally:
                    await response.aclose()
        except httpx2.HTTPError as error:
            connecting = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            if connecting and not last:
                return None
            # Its text may repeat the address, and in it a secret.
            certificate = "CERTIFICATE" in str(error).upper()
            why = "its certificate is not accepted" if certificate else _why(error)
            raise DeliveryError(f"{self._url.host} did not take a message: {why}", passes=True) from None

    async def _answered(self, response: "httpx2.Response") -> str:
        status = response.status_code
        if 200 <= status < 300:
            return response.headers.get("webhook-message-id", "")[:200]
        where = f"{self._url.host} answered {status}"
        if 300 <= status < 400:
            raise DeliveryError(f"{where}: redirects are not followed", hint="name the address it leads to")
        wait = seconds_to_wait({k.lower(): v for k, v in response.headers.items()}, None, self._now())
        passes = status in _PASSES or status >= 500
        raise DeliveryError(where, passes=passes, retry_after=wait if passes else None)


def _without_query(url: str) -> str:
    return url.partition("?")[0]


def _why(error: "httpx2.HTTPError") -> str:
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            return "its server does not take the connection"
        case httpx2.ConnectError():
            return "its server cannot be reached"
        case _:
            return "its server broke off, or does not speak HTTP"


def _bad_address(channel: str) -> UsageError:
    # The address itself is not repeated: it may hold a secret.
    return UsageError(
        f"the channel {channel} has no plain http or https address",
        hint="url: https://host[:port][/path], without a user name",
    )
