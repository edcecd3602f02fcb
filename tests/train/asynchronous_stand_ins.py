"""What asynchronous training has on GPUs: FlashAttention's kernel, NCCL, and vLLM's server.

The server is a real one: it answers over HTTP, in threads of its own, with samples of the weights
that it was handed last. Everything else is TRL's.
"""

import contextlib
import copy
import http.server
import itertools
import json
import queue
import threading
import types

import torch
from transformers import AutoModelForCausalLM
from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker, packing

from maxatk.train.asynchronous import MaxAtKRolloutLoop

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
RESPONSE = {"defaults": {"role": "assistant"}, "fields": {"content": {"content": "text"}}}


def attend(query, key, value, starts, key_starts, *_, softmax_scale, causal, window_size):
    """What FlashAttention's kernel for sequences of different lengths computes, in PyTorch."""
    assert causal
    assert window_size == (-1, -1)
    repeated = query.shape[1] // key.shape[1]
    parts = []
    bounds = zip(itertools.pairwise(starts), itertools.pairwise(key_starts), strict=True)
    for (first, last), (start, stop) in bounds:
        keys = key[start:stop].repeat_interleave(repeated, dim=1)
        values = value[start:stop].repeat_interleave(repeated, dim=1)
        scores = torch.einsum("qhd,khd->hqk", query[first:last], keys) * softmax_scale
        ahead = torch.ones(last - first, stop - start).tril(int(stop - start - (last - first)))
        weights = scores.masked_fill(ahead == 0, float("-inf")).softmax(-1)
        parts.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(parts)


def without_gpu(monkeypatch):
    """Let TRL's asynchronous trainer run here."""
    kernel = types.SimpleNamespace(flash_attn_varlen_func=attend)
    monkeypatch.setattr(packing, "_flash_attn", lambda: kernel)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)
    monkeypatch.setattr(async_rollout_worker, "is_vllm_available", lambda: True)


class Prepared:
    """A worker whose rows are there from the start, twice because TRL reads a batch ahead."""

    _loop_cls = MaxAtKRolloutLoop

    def __init__(self, rows):
        self.rollout_buffer = queue.Queue()
        self.metrics_queue = queue.Queue()
        for row in [*rows, *copy.deepcopy(rows)]:
            self.rollout_buffer.put(row)

    def start(self): ...
    def stop(self): ...
    def update_model_version(self, version): ...
    def check_health(self, stale_after_s):
        raise RuntimeError("the prepared rows are used up")


class NoTransfer:
    def init_weight_transfer(self): ...
    def pause(self): ...
    def send_weights(self, iterator): ...
    def resume(self): ...
    def destroy(self): ...


class Server(NoTransfer):
    """Samples over HTTP with the weights of the last transfer, and is itself the transfer."""

    def __init__(self, folder):
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.transfers = 0
        self.requests = 0
        self._lock = threading.Lock()

    def send_weights(self, iterator):
        with self._lock, torch.no_grad():
            parameters = dict(self.model.named_parameters())
            for name, weight in iterator:
                parameters[name].copy_(weight)
        self.transfers += 1

    @torch.no_grad()
    def complete(self, request):
        """The answer to a request for one completion; the lock is free between two tokens."""
        ids = list(request["prompt"])
        logps = []
        generator = torch.Generator().manual_seed(request["seed"])
        for _ in range(request["max_tokens"]):
            with self._lock:
                last = self.model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            token = int(torch.multinomial(last.exp(), 1, generator=generator))
            ids.append(token)
            logps.append(float(last[token]))
            if token == self.model.generation_config.eos_token_id:
                break
        self.requests += 1
        drawn = ids[len(request["prompt"]) :]
        return {"choices": [{"token_ids": drawn, "logprobs": {"token_logprobs": logps}}]}

    @contextlib.contextmanager
    def listening(self):
        """Yield the address while the server answers."""
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(served.complete(request)).encode()
                self.send_response(200 if self.path == "/v1/completions" else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_): ...

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()
