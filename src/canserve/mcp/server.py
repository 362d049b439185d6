"""The server: tools and resources over whatever carries its messages."""

from __future__ import annotations

import json
from functools import partial
from types import TracebackType
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from pydantic import ValidationError

from canserve import __version__
from canserve.api import SpecError
from canserve.mcp.answers import Answers, NoSuchPartError
from canserve.mcp.approvals import Approvals
from canserve.mcp.asking import Asking, Done, Question, Tool
from canserve.mcp.tools import CHECKS, INSTRUCTIONS, RESOURCES, TEMPLATES, TOOLS, described, schema_address
from canserve.render.escape import visible
from canserve.run.executing import Stop
from canserve.store.journal import JournalError

AT_ONCE = 4
"""Calls that are worked on at the same time; others wait."""
_TICK = 0.5
"""Seconds between two messages about what is being done."""

Context = ServerRequestContext[Any]


def server(*, allow_changes: bool = False) -> Server[Any]:
    """A server whose answers live as long as it does."""
    return Serving(allow_changes).server


class Serving:
    """What all calls to one server share."""

    def __init__(self, allow_changes: bool) -> None:
        self.allow_changes = allow_changes
        self.answers = Answers()
        self.approvals = Approvals()
        self.room = anyio.CapacityLimiter(AT_ONCE)
        self.server: Server[Any] = Server(
            "canserve",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
        )

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """All of them: they fit on one page."""
        del ctx, params
        return types.ListToolsResult(tools=[described(tool, self.allow_changes) for tool in TOOLS.values()])

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """What can be read without having asked anything."""
        del ctx, params
        return types.ListResourcesResult(resources=list(RESOURCES))

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Parts of answers."""
        del ctx, params
        return types.ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """A part of an answer, the check reference, or a schema."""
        del ctx
        text, kind = await anyio.to_thread.run_sync(partial(self._resource, params.uri))
        content = types.TextResourceContents(uri=params.uri, text=text, mime_type=kind)
        return types.ReadResourceResult(contents=[content])

    def _resource(self, uri: str) -> tuple[str, str]:
        if uri == CHECKS:
            from canserve.checks.every import REFERENCE
            from canserve.render.markdown import checks_markdown

            return checks_markdown(REFERENCE), "text/markdown"
        for tool in TOOLS.values():
            if tool.output is not None and uri == schema_address(tool.output):
                from canserve.render.schemas import schema_text

                return schema_text(tool.output), "application/schema+json"
        try:
            return _json(self.answers.view(uri)), "application/json"
        except NoSuchPartError as error:
            raise MCPError(types.INVALID_PARAMS, visible(str(error), 400)) from error

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """One call. What the client did wrong is an answer that says so: it can be put right."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {visible(params.name, 100)}")
        try:
            question = tool.takes.model_validate(params.arguments or {})
        except ValidationError as error:
            return _wrong(_misunderstood(error), f"the input schema of {tool.name} says what it takes")
        return await self._worked(tool, question, ctx)

    async def _worked(self, tool: Tool, question: Question, ctx: Context) -> types.CallToolResult:
        """The work, on a thread of its own. What is cancelled ends between two steps, and is waited for then."""
        said: list[str] = []
        stop = Stop()
        asking = Asking(self.answers, self.approvals, self.allow_changes, stop, said.append)
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, ctx, said, stop)
            result = await anyio.to_thread.run_sync(
                partial(self._done, tool, question, asking),
                abandon_on_cancel=not tool.changes,
                limiter=self.room,
            )
            group.cancel_scope.cancel()
        return result

    def _done(self, tool: Tool, question: Question, asking: Asking) -> types.CallToolResult:
        with Edge() as edge:
            return self._answered(tool.does(question, asking))
        return edge.answer()

    def _answered(self, done: Done) -> types.CallToolResult:
        if done.viewed:
            body: dict[str, Any] = {"result": done.value}
        else:
            address = self.answers.keep(done.value)
            said = {
                "verdict": done.verdict,
                "because": done.because,
                "next": done.next,
                "approve": done.approve,
            }
            body = {key: visible(value) for key, value in said.items() if value}
            body |= {"answer": address, "result": self.answers.view(address)}
        return types.CallToolResult(content=[types.TextContent(text=_json(body))], structured_content=body)


async def _tell(ctx: Context, said: list[str], stop: Stop) -> None:
    """What is being done, to whom it interests; and when nobody waits any more, that is passed on."""
    count = 0
    try:
        while True:
            await anyio.sleep(_TICK)
            if len(said) > count:
                count = len(said)
                await ctx.session.report_progress(count, None, visible(said[-1], 200))
    finally:
        stop()


class Edge:
    """Whatever goes wrong inside becomes an answer that says so: the client goes on, and so does the server."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def __enter__(self) -> Edge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        del kind, trace
        self._error = error if isinstance(error, Exception) else None
        return self._error is not None

    def answer(self) -> types.CallToolResult:
        """What went wrong."""
        match self._error:
            case SpecError() as error:
                return _wrong(str(error), error.hint)
            case JournalError() as error:
                return _wrong(f"the journal of runs cannot be used: {error}", "")
            case OSError() as error:
                return _wrong(f"the system refused that: {error}", "")
            case error:
                return _wrong(
                    f"canserve failed: {type(error).__name__}: {error}",
                    "please report that, it is canserve's fault",
                )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _wrong(message: str, hint: str) -> types.CallToolResult:
    text = visible(message) + (f"\nhint: {visible(hint)}" if hint else "")
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _misunderstood(error: ValidationError) -> str:
    """What is wrong with the arguments, without what stood in them: it may be long, or a secret."""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:8])
