"""What `runner.py` starts to time the provider `local`: programs that tell of their first model evaluation.

The engine listens within the process that is timed, so a server outside does not see its requests. Each
program opens a connection to `url` right before it has the engine evaluate tokens for the first time.
"""

import os
from pathlib import Path

from halo.models.catalogue import cache_dir, model_path
from halo.models.llama import default_threads
from halo.models.pull import pull

MODEL = "smollm2-135m-instruct"
CONTEXT = 4096  # tokens

_TOUCH = """
import socket
def touch():
    s = socket.create_connection(('{host}', {port}))
    s.sendall(b'GET / HTTP/1.1\\r\\ncontent-length: 0\\r\\n\\r\\n'); s.recv(1)
"""

# The settings that take time are those of `halo.models.llama`.
_LOAD = """
import xllamacpp
p = xllamacpp.CommonParams()
p.model.path = {model!r}
p.n_ctx, p.n_parallel, p.n_batch, p.n_ubatch = {context}, 1, 128, 128
p.port, p.use_jinja, p.ui, p.verbosity = 0, True, False, 0
p.cache_ram_mib, p.fit_params, p.n_ctx_checkpoints = 0, False, 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = {threads}
p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(p)
"""

_ASK = """
import httpx2
c = httpx2.Client(base_url=server.listening_address, timeout=None, trust_env=False)
touch()
body = {{'messages': [{{'role': 'user', 'content': 'x'}}], 'max_tokens': 1, 'stream': True}}
with c.stream('POST', '/v1/chat/completions', json=body) as reply:
    for _ in reply.iter_lines(): pass
"""

# Whichever comes first: the static prefix is evaluated where no state of it is there, else the chat.
_HALO = """
import runpy, sys
from halo.models.llama_client import LlamaClient
def telling(name):
    whole = getattr(LlamaClient, name)
    def told(*given):
        touch()
        return whole(*given)
    setattr(LlamaClient, name, told)
telling('prefill'); telling('chat')
sys.argv = ['halo', 'run', '-n', '-a', 'local', 'How is it?']
runpy.run_module('halo', run_name='__main__')
"""


def link_model(cache):
    """Fetch the model unless it is there, and put it into an empty cache; the user's gets no states."""
    own = cache_dir(os.environ)
    pull(MODEL, own, lambda _done, _total: None)
    there = Path(model_path(MODEL, cache))
    there.parent.mkdir(parents=True)
    there.symlink_to(os.path.realpath(model_path(MODEL, own)))


def programs(cache, url):
    """Return the floor, import of the engine and loading of the model; the bare engine; and `halo run`."""
    host, port = url.removeprefix("http://").split(":")
    values = {
        "host": host,
        "port": port,
        "model": os.path.realpath(model_path(MODEL, cache)),
        "context": CONTEXT,
        "threads": default_threads(os.environ),
    }
    touch, load, ask = (part.format(**values) for part in (_TOUCH, _LOAD, _ASK))
    return {"import": f"{touch}{load}touch()", "bare": touch + load + ask, "halo": touch + _HALO}
