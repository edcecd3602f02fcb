"""A tiny policy all of whose completions can be enumerated, and a trainer that meets every group.

The completions are all sequences of `LENGTH` tokens over a vocabulary of four. A rollout function
hands the trainer every tuple of `n` of them as a group, and each group is weighed by its
probability under the policy that sampled: the loss of one step is an exact expectation.
"""

import itertools

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from maxatk.train import MaxAtKTrainer
from maxatk.train.batch import GROUP_ROW

WORDS = ("<pad>", "<eos>", "a", "b")
PROMPT = "a b"


def write_model(folder, *, seed=0):
    """A Llama with random weights and a tokenizer with one token a word."""
    torch.manual_seed(seed)
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<pad>"
    )
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.5,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def sequences(length):
    return list(itertools.product(range(len(WORDS)), repeat=length))


def reward_of(sequence):
    """Any function with ties: of the first token, and a little of the last."""
    return (0.0, 0.25, 1.0, 0.25)[sequence[0]] + 0.5 * (sequence[-1] == 3)


def sequence_logps(model, length):
    """log pi of every sequence, (len(sequences),), with its gradient."""
    return token_logps(model, length).sum(1)


def token_logps(model, length):
    rows = torch.tensor([(2, 3, *sequence) for sequence in sequences(length)])
    logps = model(input_ids=rows).logits.log_softmax(-1)[:, 1:-1]
    return logps.gather(2, rows[:, 2:, None])[..., 0]


def max_at_k(probabilities, rewards, k):
    """E max of k draws, from all k-tuples."""
    values = torch.stack([torch.tensor(r, dtype=torch.float64) for r in rewards])
    total = torch.zeros((), dtype=torch.float64)
    for places in itertools.product(range(len(rewards)), repeat=k):
        total = total + probabilities[list(places)].prod() * values[list(places)].max()
    return total


class EveryGroup(MaxAtKTrainer):
    """Trains on every n-tuple of sequences, weighed by its probability; keeps the gradients."""

    def __init__(self, folder, args, *, length, noise=0.0):
        groups = list(itertools.product(range(len(sequences(length))), repeat=args.num_generations))
        self.length = length
        self.groups = groups
        self.noise = noise
        super().__init__(
            model=folder,
            reward_funcs=self.score,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": PROMPT}] * len(groups)),
            rollout_func=self.roll_out,
        )
        self.gradients = []
        self.policies = []
        self.sampled = None
        self._weights = None

    def score(self, completion_ids, **_):
        return [reward_of(tuple(ids)) for ids in completion_ids]

    def roll_out(self, prompts, _trainer):
        """Every group, with the log-probabilities of a sampler whose weights may be noisy."""
        # Not a copy: TRL's patched forward is bound to the model that it was made for.
        sampler = AutoModelForCausalLM.from_config(self.model.config)
        sampler.load_state_dict(self.model.state_dict())
        generator = torch.Generator().manual_seed(1)
        every = sequences(self.length)
        with torch.no_grad():
            for weight in sampler.parameters():
                weight += self.noise * torch.randn(weight.shape, generator=generator)
            tokens = token_logps(sampler, self.length)
        self.sampled = tokens.double().sum(1).exp()
        places = [place for group in self.groups for place in group]
        return {
            "prompt_ids": [[2, 3]] * len(prompts),
            "completion_ids": [list(every[place]) for place in places],
            "logprobs": [tokens[place].tolist() for place in places],
        }

    def _compute_loss(self, model, inputs):
        groups = torch.tensor(self.groups)
        share = self.sampled[groups].prod(1) * len(groups)
        self._weights = share[inputs[GROUP_ROW] // self.num_generations].float()
        return super()._compute_loss(model, inputs)

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        outputs = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        weights = self._weights
        self._weights = None
        if weights is None:  # not the pass of the loss
            return outputs
        logps = outputs[0]  # the same numbers; every row's part of the gradient gets its weight
        weighed = logps.detach() + weights[:, None] * (logps - logps.detach())
        return (weighed, *outputs[1:])

    def training_step(self, model, inputs, *args, **kwargs):
        self.policies.append(
            {name: weight.clone() for name, weight in self.model.state_dict().items()}
        )
        loss = super().training_step(model, inputs, *args, **kwargs)
        grads = [weight.grad.flatten() for weight in self.model.parameters()]
        self.gradients.append(torch.cat(grads).double().numpy().copy())
        return loss


def gradient_of_max_at_k(folder, policy, *, length, k):
    """The gradient of max@k in all weights at a policy, flat, by enumeration of all k-tuples."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.load_state_dict(policy)
    model.double().eval()
    probabilities = sequence_logps(model, length).exp()
    max_at_k(probabilities, [reward_of(s) for s in sequences(length)], k).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]).numpy()
