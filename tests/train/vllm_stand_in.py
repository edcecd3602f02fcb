"""A stand-in for vLLM, which needs a GPU: it samples from noisy weights and says with which odds.

It takes the place of the class through which TRL talks to vLLM. What it was handed and the weights
that it sampled with are kept, so that tests can compute every probability by themselves.
"""

import copy

import torch
from transformers import AutoModelForCausalLM


class StandIn:
    noise = 0.02
    """Of the weights, relative to their spread: the sampler is a policy of its own."""

    unknown = 0.0
    """The share of tokens without a log-probability, as vLLM now and then has none."""

    def __init__(self, model, **_):
        self.model = model
        self.handed = []
        self.used = []
        self._generator = torch.Generator().manual_seed(0)

    def sync_weights(self):
        self.handed.append(copy.deepcopy(self.model.state_dict()))

    def generate(self, prompts, images, num_generations, profiler):
        # Not a copy: TRL's patched forward is bound to the model that it was made for.
        sampler = AutoModelForCausalLM.from_config(self.model.config)
        sampler.load_state_dict(self.handed[-1])
        with torch.no_grad():
            for weight in sampler.parameters():
                noise = torch.randn(weight.shape, generator=self._generator)
                weight += self.noise * weight.std().nan_to_num(0) * noise
        sampler.eval()
        self.used.append(sampler.state_dict())
        drawn = [self._complete(sampler, prompt) for prompt in prompts]
        return None, [ids for ids, _ in drawn], [odds for _, odds in drawn], None

    def _complete(self, sampler, prompt):
        ids = []
        odds = []
        for _ in range(6):
            with torch.no_grad():
                logits = sampler(torch.tensor([list(prompt) + ids])).logits[0, -1]
            logps = logits.log_softmax(-1)
            token = int(torch.multinomial(logps.exp(), 1, generator=self._generator))
            known = float(torch.rand(1, generator=self._generator)) >= self.unknown
            ids.append(token)
            odds.append([float(logps[token]) if known else None])
        return ids, odds
