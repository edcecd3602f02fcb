"""Let accelerate shard weights in CPU processes, which it would run as DDP, to test FSDP 2."""

import os

if os.environ.get("ACCELERATE_USE_FSDP") == "true":
    from accelerate.state import AcceleratorState, DistributedType, PartialState

    first = AcceleratorState.__init__
    first_of_process = PartialState.__init__

    def init_process(self, *args, **kwargs):
        first_of_process(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.FSDP

    def init(self, *args, **kwargs):
        plugin = kwargs.get("fsdp_plugin")
        first(self, *args, **kwargs)
        if plugin is not None and self.distributed_type == DistributedType.FSDP:
            self.fsdp_plugin = plugin

    AcceleratorState.__init__ = init
    PartialState.__init__ = init_process
