"""The sessions of a workspace as resources of an MCP server."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Annotations,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from halo.errors import HaloError
from halo.sessions.shown_sessions import HEADER, SCHEME, ShownSessions

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext


def resource_handlers(sessions: ShownSessions) -> dict[str, Any]:
    """Return what answers the requests for resources, by the parameters of `Server`."""

    async def list_resources(
        _: "ServerRequestContext[Any]", params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        begin = (params.cursor if params is not None else None) or ""
        page = await _beside(lambda: sessions.page(begin))
        return ListResourcesResult(
            resources=[
                Resource(
                    name=row.uri.removeprefix(SCHEME),
                    title=row.title,
                    uri=row.uri,
                    description=row.about,
                    mime_type="text/markdown",
                    annotations=Annotations(last_modified=row.changed_at),
                )
                for row in page.rows
            ],
            next_cursor=page.following or None,
        )

    async def list_templates(
        _: "ServerRequestContext[Any]", __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        whole = ResourceTemplate(
            name="session",
            uri_template=f"{SCHEME}{{id}}",
            description="A conversation as a document.",
            mime_type="text/markdown",
        )
        header = ResourceTemplate(
            name="session header",
            uri_template=f"{SCHEME}{{id}}{HEADER}",
            description="What is known of a conversation: agent, turns, tokens, cost, settings.",
            mime_type="application/json",
        )
        return ListResourceTemplatesResult(resource_templates=[whole, header])

    async def read_resource(
        _: "ServerRequestContext[Any]", params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        found = await _beside(lambda: sessions.read(params.uri))
        text = TextResourceContents(uri=params.uri, mime_type=found.media_type, text=found.text)
        return ReadResourceResult(contents=[text])

    return {
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
    }


def refusing(make: Callable[[], Any]) -> Any:
    """Make something; what a user could mend is told to the client."""
    try:
        return make()
    except HaloError as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


async def _beside(make: Callable[[], Any]) -> Any:
    """Make something that takes time, while the server goes on."""
    return await asyncio.to_thread(refusing, make)
