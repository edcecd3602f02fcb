"""A rollout server of transformers: slow, small, the same samples under the same seed."""

import asyncio
import hashlib
import os
from collections import Counter

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator


class RolloutFailed(RuntimeError):
    pass


@ray.remote(num_cpus=0)
class Server:
    """Every sample has a random stream of its own, of the prompt, the step and its number."""

    def __init__(self, path, limit, seed):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.eos = AutoTokenizer.from_pretrained(path).eos_token_id
        self.limit = limit
        self.seed = seed
        self.step = 0
        self.drawn = Counter()
        self.waiting = []
        self.task = None
        self.busy = asyncio.Lock()

    async def load(self, state, step):
        async with self.busy:  # a sample is of one version
            missing = self.model.load_state_dict(state, strict=False)
        assert not missing.unexpected_keys, missing
        assert set(missing.missing_keys) <= {"lm_head.weight"}, missing  # tied
        self.step = step
        self.drawn.clear()

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        number = self.drawn[tuple(prompt_ids)]
        self.drawn[tuple(prompt_ids)] += 1
        text = f"{self.seed} {self.step} {list(prompt_ids)} {number}"
        draw = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
        if draw % 1000 < 1000 * float(os.environ.get("VERL_ON_CPU_FAILURES", "0")):
            raise RolloutFailed("this rollout fails on purpose")
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((list(prompt_ids), dict(sampling_params), draw, future))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._drain())
        return await future

    async def _drain(self):
        while self.waiting:
            await asyncio.sleep(0.05)  # let a batch gather
            chunk = self.waiting[:64]
            self.waiting = self.waiting[64:]
            try:
                async with self.busy:
                    outputs = await asyncio.to_thread(self._run, [request[:3] for request in chunk])
            except BaseException as error:
                for request in chunk:
                    request[3].set_exception(error)
                raise
            for request, output in zip(chunk, outputs, strict=True):
                request[3].set_result(output)

    @torch.no_grad()
    def _run(self, requests):
        return [self._sample(*request) for request in requests]

    def _sample(self, prompt, sampling, draw):
        stream = torch.Generator().manual_seed(draw)
        temperature = sampling.get("temperature", 1.0)
        limit = sampling.get("max_tokens") or self.limit
        inputs = torch.tensor([prompt])
        cache = None
        tokens = []
        logps = []
        while len(tokens) < limit and (not tokens or tokens[-1] != self.eos):
            out = self.model(inputs, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            logits = out.logits[0, -1]
            chances = (logits / (temperature or 1.0)).log_softmax(-1)
            if temperature == 0:
                token = chances.argmax()
            else:
                token = torch.multinomial(chances.exp(), 1, generator=stream)[0]
            tokens.append(int(token))
            logps.append(float(chances[token]))
            inputs = token.reshape(1, 1)
        return TokenOutput(
            token_ids=tokens,
            log_probs=logps,
            stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )

    async def resume_generation(self):
        pass

    async def nothing(self, *_, **__):
        pass

    wake_up = sleep = abort_all_requests = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


def _name(rank):
    return f"verl_on_cpu_{ray.get_runtime_context().get_job_id()}_{rank}"


class TransformersReplica(RolloutReplica):
    async def launch_servers(self):
        server = Server.options(name=_name(self.replica_rank), max_concurrency=1000).remote(
            self.model_config.path, self.config.response_length, self.config.get("seed") or 0
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"verl_on_cpu:{self.replica_rank}"


class TransformersAdapter(BaseRollout):
    """Lives in the training worker: hands the weights of a step to the replica's server."""

    def __init__(self, config, model_config, device_mesh, replica_rank=-1):
        super().__init__(config, model_config, device_mesh)
        world = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        rank = int(os.environ["RANK"])
        self.replica_rank = rank // world if replica_rank == -1 else replica_rank
        self.leads = rank % world == 0

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    @torch.no_grad()
    async def update_weights(self, weights, wire_format="named_tensors", global_steps=0, **_):
        assert wire_format == "named_tensors"
        state = {}  # all ranks gather
        async for name, tensor in ensure_async_iterator(weights):
            state[name] = tensor.detach().cpu().clone()
        if self.leads:
            await ray.get_actor(_name(self.replica_rank)).load.remote(state, global_steps or 0)
