"""How rollout batches are drawn and scored within the methods that TRL's trainer has for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing

from maxatk.conversations import completion_text, transcript
from maxatk.functions import load_function
from maxatk.rewards import Reward
from maxatk.train import own_rollouts
from maxatk.train.checked_rewards import with_checked_values
from maxatk.train.clock import Clock
from maxatk.train.cut_messages import closing_tokens
from maxatk.train.draw_metrics import DrawMetrics
from maxatk.train.generated import read_generated
from maxatk.train.reward_arguments import place_of_selection
from maxatk.train.rollout_batch import RolloutBatch, Scored
from maxatk.train.scoring import Scoring
from maxatk.train.signal_groups import DrawnGroups, marking_part, random_places
from maxatk.train.verdicts import log_outcomes, tests_of
from maxatk.training import Learner
from maxatk.verifier import CodeReward, quick_turns


class RolloutTrainer(GRPOTrainer):
    """TRL's trainer whose samples and rewards are drawn here, by `rollouts`: own, trl or vllm.

    With "own" the functions of this package that run tests verify completions while others are
    still sampled, and wait for the verdicts when TRL calls them.
    """

    reward_funcs: list[Any]  # which TRL sets and calls

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._clock = Clock()
        self._learner = Learner(self.args.objective)
        # TRL 1.14 knows the tokenizer's end token alone.
        self._end_tokens = getattr(self, "eos_token_ids", [self._tokenizer.eos_token_id])
        self._own_settings = own_rollouts.own_settings(self)  # None where another loop samples
        self.rollouts = self._sampling_loop()
        self._scoring = self._scoring_of_rewards()
        self._marking = marking_part(
            self.args.groups_with_signal, self.reward_funcs, self.reward_func_names
        )
        self._early_rewards = self._rewards_that_verify_early()
        # A function of each of them that starts a verification; none but in `_draw_rollout_batch`.
        self._start_verification: list[Callable[..., None]] = []
        self._conversations: tuple[Any, Any] = ([], [])  # messages and tokens, while tools answer
        self._rows: list[Any] = []  # of the data set, whose completions are being drawn
        self._scored: Scored | None = None  # of the batch being drawn
        self._tokens_drawn: list[int] = []  # by the policy, of each completion of the batch

    def _sampling_loop(self) -> str:
        """Return whose loop samples the completions: own, trl or vllm."""
        if self._own_settings is not None:
            return "own"
        return "vllm" if self.args.use_vllm else "trl"

    def _scoring_of_rewards(self) -> Scoring:
        """Return how rewards are read, and take its weight from the function that selects."""
        args = self.args
        selecting = place_of_selection(args.selection, self.reward_func_names)
        if selecting is not None:
            self.reward_weights[selecting] = 0.0  # also in what TRL logs as the reward
        return Scoring(
            names=self.reward_func_names,
            weights=self.reward_weights,
            selecting=selecting,
            answer=None if args.answers is None else load_function(args.answers, field="answers"),
            masks_cut_off=self.mask_truncated_completions,
        )

    def _rewards_that_verify_early(self) -> list[CodeReward]:
        """Return the rewards by tests that may verify a completion as soon as it has ended."""
        # Where TRL makes more of a completion than its text, nothing is known of it before.
        parsers = ("response_template", "response_schema")
        parsed = any(getattr(self._tokenizer, name, None) for name in parsers)
        if self._own_settings is None or parsed or self.tools:
            return []
        parts: list[Any] = []
        for function in self.reward_funcs:
            parts += function.by_tests if isinstance(function, Reward) else [function]
        return [part for part in parts if isinstance(part, CodeReward)]

    @property
    def _mode_metrics(self) -> Any:
        return self._metrics["train" if self.model.training else "eval"]

    def _draw_rollout_batch(self, rows: list[Any]) -> tuple[RolloutBatch, Scored, dict[str, Any]]:
        """Return a rollout batch, its scores, and what TRL returns for the rows of this process."""
        self._rows = rows
        self._scored = None
        with quick_turns(), contextlib.ExitStack() as stack:
            self._start_verification = [
                stack.enter_context(reward.ahead()) for reward in self._early_rewards
            ]
            stack.callback(self._start_verification.clear)
            output = super()._generate_and_score_completions(rows)
        assert self._scored is not None  # TRL has called `_calculate_rewards`
        return self._rollout_batch_of(self._scored), self._scored, output

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        draw_metrics = DrawMetrics(self._mode_metrics)
        generated: tuple[Any, ...] = super()._generate(prompts)
        if self.args.groups_with_signal and self.model.training:
            self._scored = self._fill_with_signal(prompts, generated, draw_metrics)
        self._tokens_drawn = read_generated(generated).tokens_of_policy()
        return generated

    def _generate_single_turn(self, prompt_ids: list[Any], *args: Any, **kwargs: Any) -> Any:
        if self._own_settings is None:
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            completion_ids = own_rollouts.draw_completions(
                self.accelerator.unwrap_model(self.model_wrapped),
                prompt_ids,
                settings=self._own_settings,
                end_tokens=self._end_tokens,
                on_end=self._verify_early,
            )
        return completion_ids, None

    def _tool_call_loop(
        self, prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, *others: Any
    ) -> Any:
        # TRL changes these lists in place, and tells `_get_tool_suffix_ids` of the answers alone.
        self._conversations = (completions, completion_ids)
        return super()._tool_call_loop(prompts, prompt_ids, completion_ids, completions, *others)

    def _get_tool_suffix_ids(self, tool_messages: list[Any]) -> list[int]:
        suffix: list[int] = super()._get_tool_suffix_ids(tool_messages)
        completions, completion_ids = self._conversations
        closing = closing_tokens(
            self._tokenizer,
            tool_messages[-1],
            completions=completions,
            completion_ids=completion_ids,
            end_tokens=self._end_tokens,
        )
        return closing + suffix

    def _verify_early(self, row: int, ids: Sequence[int]) -> None:
        """Start the verification of a row's completion, of these ids, while others are sampled."""
        if not self._start_verification:
            return
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        for start in self._start_verification:
            start(text, self._rows[row])

    def _calculate_rewards(self, *arguments: Any) -> torch.Tensor:
        if self._scored is None:  # otherwise they are known from the search for a signal
            self._scored = self._score(*arguments)
        return self._scoring.for_trl(self._scored.scores)

    @contextlib.contextmanager
    def _checking_values(self) -> Iterator[None]:
        """Let TRL call functions that name themselves where they return what is no reward."""
        # The functions themselves are asked for more than their values, as their last verdicts.
        functions = self.reward_funcs
        self.reward_funcs = with_checked_values(functions, self.reward_func_names)
        try:
            yield
        finally:
            self.reward_funcs = functions

    def _score(
        self, rows: list[Any], prompts: list[Any], completions: list[Any], ids: list[Any]
    ) -> Scored:
        """Return what the rows of all processes came to, for the arguments of TRL's method."""
        with (
            self._clock.measure("verification", self._mode_metrics),
            self._checking_values(),
        ):
            scores = super()._calculate_rewards(rows, prompts, completions, ids)
        self._scoring.refuse_infinite(scores)
        tests_run = [
            log_outcomes(self._mode_metrics, reward, self.accelerator)
            for reward in self.reward_funcs
        ]
        last_tokens = (*self._end_tokens, self._tokenizer.pad_token_id)  # of what is not cut off
        masked = [
            self.mask_truncated_completions and tokens[-1] not in last_tokens for tokens in ids
        ]
        return Scored(
            scores,
            texts=gather_object([transcript(completion) for completion in completions]),
            last_texts=gather_object([completion_text(completion) for completion in completions]),
            tests=gather_object(tests_of(rows, self.reward_funcs)),
            masked=gather_object(masked),
            marks=None if self._marking is None else self._marking(scores),
            tests_run=sum(tests_run),
        )

    def _fill_with_signal(
        self, prompts: list[Any], generated: tuple[Any, ...], draw_metrics: DrawMetrics
    ) -> Scored:
        """Put groups of other prompts where groups have no signal; all processes decide alike.

        `prompts` and `generated` are TRL's lists of this process, which are changed in place.
        `draw_metrics` takes what every draw logs.
        """
        kept = self._scored_groups(self._rows, prompts, generated)
        draw_metrics.end_draw(completions=kept.completions, tests=kept.scored.tests_run)
        drawn = kept.signal.size
        drawn_with_signal = int(kept.signal.sum())
        most = drawn * self.args.max_prompt_draws
        while not kept.signal.all() and drawn < most:
            fresh = self._draw_fresh_groups(kept.signal, most=most - drawn)
            draw_metrics.end_draw(completions=fresh.completions, tests=fresh.scored.tests_run)
            drawn += fresh.signal.size
            drawn_with_signal += int(fresh.signal.sum())
            kept.take(fresh, process=self.accelerator.process_index)
        draw_metrics.write()
        self._pending_extra_logs.update(kept.logged)
        metrics = self._metrics["train"]
        metrics["prompts/drawn"].append(float(drawn))
        metrics["prompts/with_signal"].append(drawn_with_signal / drawn)
        return kept.scored

    def _draw_fresh_groups(self, signal: np.ndarray, *, most: int) -> DrawnGroups:
        """Draw groups of other prompts, `most` in all, as many in each process as one may lack."""
        processes = len(signal)
        lacking = int((~signal).sum(axis=1).max())  # of the process that lacks most
        shape = (processes, min(lacking, most // processes))
        # The tokens are those of all processes so far, which a checkpoint has.
        moment = (self.args.seed, self.state.num_input_tokens_seen)
        places_of_processes = random_places(len(self.train_dataset), shape, moment)
        places = places_of_processes[self.accelerator.process_index]
        rows = [self.train_dataset[int(place)] for place in places]
        self._rows = [dict(row) for row in rows for _ in range(self.num_generations)]
        prompts = [row["prompt"] for row in self._rows]
        return self._scored_groups(self._rows, prompts, super()._generate(prompts))

    def _scored_groups(
        self, rows: list[Any], prompts: list[Any], generated: tuple[Any, ...]
    ) -> DrawnGroups:
        """Return what was drawn for rows of this process with the scores of all processes."""
        read = read_generated(generated)
        for name, values in read.extra_fields.items():  # TRL hands them on to rewards in the rows
            column = values if isinstance(values, list) else [values] * len(rows)
            for row, value in zip(rows, column, strict=False):
                row[name] = value
        scored = self._score(rows, prompts, read.completions, read.completion_ids)
        logged = dict(self._pending_extra_logs)  # of the rows of this draw alone
        self._pending_extra_logs.clear()
        groups = self._rollout_batch_of(scored)
        signal = groups.have_signal(groups.advantages(self._learner.objective))
        return DrawnGroups(
            rows=rows,
            prompts=prompts,
            generated=generated,
            logged=logged,
            scored=scored,
            signal=signal.reshape(self.accelerator.num_processes, -1),
            group_size=groups.size,
        )

    def _rollout_batch_of(self, scored: Scored) -> RolloutBatch:
        """Return the rollout batch of what the completions of all processes came to."""
        return self._scoring.groups(
            scored,
            self._learner.objective,
            size=self.num_generations if self.model.training else self.num_generations_eval,
            progress=self.state.global_step / max(self.state.max_steps, 1),
        )
