"""A stand-in for an agent whose context is compacted: odd sessions have two outputs."""

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


class TwoOutputs(SingleTurnAgentLoop):
    """Answers a prompt once, or twice; the last answer is the one with the reward."""

    async def run(self, sampling_params, **kwargs):
        first = await super().run(sampling_params, **kwargs)
        if kwargs["session_id"] % 2 == 0:
            return first
        return [first, await super().run(sampling_params, **kwargs)]
