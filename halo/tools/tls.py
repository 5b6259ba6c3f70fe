"""What certificates are checked against."""

import asyncio
import ssl


async def tls_for(url: str) -> ssl.SSLContext:
    """Return what the certificate of a URL is checked against; nothing passes where there is no TLS.

    Loading the authorities takes longer than a request: tens of milliseconds, in which the event loop would
    stand still.
    """
    import httpx2

    if url.lower().startswith("https:"):
        return await asyncio.to_thread(httpx2.create_ssl_context)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
