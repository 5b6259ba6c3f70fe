"""Provider `local`: a model file in this process, with its static prefix restored from disk.

A turn's first call loads the model. Then the state of the static prefix comes into the engine's only slot:
it is there already, or it is restored, or it is computed and saved for the processes that come after. Only
then the whole chat is sent, of which the engine computes what the slot does not hold.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from halo.errors import BusyError, ModelFileError, ProviderError
from halo.files.digests import sha256
from halo.models import llama
from halo.models.adapter import ModelEvent, Notice, Request
from halo.models.catalogue import KNOWN_MODELS, resolve
from halo.models.chat_stream import ChatStream
from halo.models.chat_wire import LOCAL, chat_body, chat_tools, renderer
from halo.models.failures import Call
from halo.models.gguf import ModelFile, verify
from halo.models.rendering import Rendering
from halo.models.state_keys import key_of
from halo.models.states import StateStore
from halo.records.tools import ToolSpec
from halo.records.usage import Usage

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from halo.models.llama_client import LlamaClient


class Prepared(msgspec.Struct, frozen=True):
    """What happened to the state of a static prefix: its `tokens`, and whether it was there before."""

    tokens: int
    existed: bool


class Local:
    """One model file, loaded on first use. One call at a time: the engine has one slot."""

    provider = "local"

    def __init__(self, model: str, *, cache: str, base_dir: str, context_tokens: int, threads: int) -> None:
        """`model`: a name of the catalogue or a path ending in `.gguf`, relative to `base_dir`."""
        self.model = model
        self._cache, self._base_dir = cache, base_dir
        self._context_tokens, self._threads = context_tokens, threads
        self._store = StateStore(cache, base_dir)
        self._turn = asyncio.Lock()
        self._file: ModelFile | None = None
        self._engine: llama.Engine | None = None
        self._client: LlamaClient | None = None
        self._temporary: TemporaryDirectory[str] | None = None  # of states, where the cache takes none
        self._rendering = Rendering(renderer(LOCAL))
        self._slot = ""  # key of the state that the slot's content begins with

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`.

        In the usage, tokens that this very call computed and saved as a state count as written; those that
        the slot held before, or that were restored into it, as read.
        """
        async with self._turn:
            file = await self._model_file()
            if self._engine is None:
                yield Notice(f"loading {self.model}")
            client = await self._load(file)
            restored = computed = 0
            prefix = request.prefix
            async with aclosing(self._warm(client, file, prefix.static_prefix, prefix.tools)) as steps:
                async for step in steps:
                    if isinstance(step, Notice):
                        yield step
                    elif step.existed:
                        restored = step.tokens
                    else:
                        computed = step.tokens
            rendered = self._rendering.of(request.messages)
            chat = chat_body(request, rendered.messages, LOCAL)
            body = {**chat, "cache_prompt": True, "id_slot": 0}
            reply = ChatStream(self._call(), rendered.digest_with({**body, "system": prefix.system}))
            async with aclosing(client.chat(body)) as chunks:
                async for chunk in chunks:
                    for event in reply.feed(chunk):
                        yield event
            finished = reply.finish(body)
            usage = _counted(finished.usage, computed)
            yield msgspec.structs.replace(finished, usage=usage, restored=restored)

    async def count(self, request: Request) -> int:
        """Count the tokens of a request by the model's own tokenizer and chat template; loads the model."""
        async with self._turn:
            client = await self._load(await self._model_file())
            rendered = Rendering(renderer(LOCAL)).of(request.messages)
            return await client.count_chat(chat_body(request, rendered.messages, LOCAL))

    async def prepare_state(self, static_prefix: str, tools: tuple[ToolSpec, ...] = ()) -> Prepared:
        """Compute and save the state of a static prefix ahead of time, unless it is there.

        `tools`: those that will go out natively, none in tool mode `schema`. A state that is there is not
        verified (the turn that restores it does that), so this costs no loading of the model.
        """
        async with self._turn:
            file = await self._model_file()
            meta = self._store.find(self._key(file, static_prefix, tools))
            if meta is not None:
                return Prepared(meta.tokens, existed=True)
            client = await self._load(file)
            prepared = Prepared(0, existed=False)
            async with aclosing(self._warm(client, file, static_prefix, tools, must_save=True)) as steps:
                async for step in steps:
                    if isinstance(step, Prepared):
                        prepared = step
            return prepared

    async def close(self) -> None:
        """Stop the engine and free the model."""
        client, self._client = self._client, None
        engine, self._engine = self._engine, None
        if client is not None:
            await client.close()
        if engine is not None:
            await asyncio.to_thread(engine.close)
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()
            self._store = StateStore(self._cache, self._base_dir)
        self._slot = ""

    async def _model_file(self) -> ModelFile:
        if self._file is None:
            path = resolve(self.model, self._cache, self._base_dir)
            self._file = await asyncio.to_thread(verify, path, self._cache)
            known = KNOWN_MODELS.get(self.model)
            if known is not None and known.sha256 != self._file.sha256:
                raise ModelFileError(
                    f"this is not the file that {self.model} stands for (SHA-256 {self._file.sha256})",
                    file=path,
                    hint=f"fetch it again: `halo model rm {self.model}`, `halo model pull {self.model}`",
                )
        return self._file

    async def _load(self, file: ModelFile) -> "LlamaClient":
        if self._client is None:
            from halo.models.llama_client import LlamaClient

            try:
                self._store.prepare()
            except OSError:
                # A cache that cannot be written costs time, never a turn: states live as long as the process.
                import tempfile

                self._temporary = tempfile.TemporaryDirectory(prefix="halo-", ignore_cleanup_errors=True)
                self._store = StateStore(self._temporary.name)
                self._store.prepare()
            self._engine = await asyncio.to_thread(
                llama.start,
                file.path,
                alias=self.model,
                context_tokens=self._context(file),
                threads=self._threads,
                states=self._store.folder,
            )
            self._client = LlamaClient(self._call())
        return self._client

    def _context(self, file: ModelFile) -> int:
        """Return the tokens of the context: no more than the model was trained for."""
        return min(self._context_tokens, file.context_length or self._context_tokens)

    def _call(self) -> Call:
        engine = self._engine
        return Call(self.provider, engine.url if engine else "", self.model, engine.key if engine else "")

    def _key(self, file: ModelFile, static_prefix: str, tools: tuple[ToolSpec, ...]) -> str:
        return key_of(static_prefix, tools, file.sha256)

    async def _warm(
        self,
        client: "LlamaClient",
        file: ModelFile,
        static_prefix: str,
        tools: tuple[ToolSpec, ...],
        *,
        must_save: bool = False,
    ) -> AsyncGenerator[Notice | Prepared, None]:
        """Bring the state of the static prefix into the slot; yields what to tell, and at most one Prepared.

        Nothing that is wrong with a saved state may stop a turn: without one it is computed.
        """
        key = self._key(file, static_prefix, tools)
        if not static_prefix or key == self._slot:
            return
        rendered = await client.render_static(static_prefix, chat_tools(tools))
        if not rendered:
            yield Notice("this model's chat template rewrites the prompt: no state is kept")
            return
        self._slot = ""
        recorded = self._store.is_recorded(key)
        if restored := await self._restore(client, key, rendered):
            self._slot = key
            yield Notice(f"restored {restored:,} prompt tokens")
            yield Prepared(restored, existed=True)
            return
        if recorded:
            yield Notice("the saved model state is damaged or outdated and is replaced")
        tokens = await client.count(rendered)
        if tokens >= self._context(file):
            context = self._context(file)
            raise ProviderError(
                f"the prompt has {tokens:,} tokens without its history; the context holds {context:,}",
                hint="shorten the prompt, set a larger `context.max_tokens`, or choose a model with more",
            )
        yield Notice(f"reading {tokens:,} prompt tokens for the first time")
        await client.prefill(rendered)
        self._slot = key
        try:
            await self._save(client, key, rendered)
        except (OSError, BusyError, ProviderError) as error:
            if must_save:
                raise
            yield Notice(f"the model state could not be saved: {error}")
        yield Prepared(tokens, existed=False)

    async def _restore(self, client: "LlamaClient", key: str, rendered: str) -> int:
        """Load a saved state into the slot; returns its tokens, 0 when there is none that fits."""
        try:
            loan = await asyncio.to_thread(self._store.borrow, key)
        except (OSError, BusyError):
            return 0
        if loan is None:
            return 0
        try:
            if loan.meta.rendered != sha256(rendered.encode()):
                return 0  # the template put something else in, such as today's date
            return await client.restore(loan.name)
        except ProviderError:
            return 0  # llama.cpp refuses it; the slot is empty then
        finally:
            self._store.discard(loan.name)

    async def _save(self, client: "LlamaClient", key: str, rendered: str) -> None:
        name = self._store.temporary(key)
        try:
            tokens, size = await client.save(name)
            await asyncio.to_thread(
                self._store.put, key, name, tokens=tokens, size=size, rendered=sha256(rendered.encode())
            )
        finally:
            self._store.discard(name)


def _counted(usage: Usage, computed: int) -> Usage:
    """Move tokens that were computed for the state in this call from read to written."""
    written = min(computed, usage.read)
    return Usage(uncached=usage.uncached, written=written, read=usage.read - written, output=usage.output)
