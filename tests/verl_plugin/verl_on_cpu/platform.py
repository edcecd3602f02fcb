"""A platform "cpu" for verl: torch.cpu with the calls that verl makes on every accelerator."""

import os
from contextlib import contextmanager
from types import ModuleType

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

# Memory that an accelerator reads while the host works, where verl offloads weights; here is none.
torch.Tensor.pin_memory = lambda self, *_: self

_NOTHING = ("empty_cache", "synchronize", "set_device")
_ZERO = (
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
)


class _Device(ModuleType):
    def __getattr__(self, name):
        if name in _NOTHING:
            return lambda *_: None
        if name in _ZERO:
            return lambda *_: 0
        return getattr(torch.cpu, name)

    def mem_get_info(self, *_):
        return 0, 0

    def get_device_name(self, *_):
        return "CPU"

    def get_rng_state(self, *_):
        return torch.get_rng_state()

    def set_rng_state(self, state, *_):
        torch.set_rng_state(state)

    def is_available(self):
        return False

    def current_device(self):
        return torch.device("cpu")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _Device("verl_on_cpu_device")

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return False

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def visible_devices_envvar(self):
        return "VERL_ON_CPU_VISIBLE"

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"  # ray.init(num_gpus=...) lends slots, not devices

    def ray_resource_options(self, num_gpus):
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None

    def communication_backend_name(self):
        # verl asks torch for "cpu:gloo,cpu:<name>", which torch refuses, unless there is a process
        # group already. This is called on that very line, so it is made here.
        import torch.distributed as dist

        if "RANK" in os.environ and "MASTER_ADDR" in os.environ and not dist.is_initialized():
            dist.init_process_group(
                backend="cpu:gloo",
                rank=int(os.environ["RANK"]),
                world_size=int(os.environ["WORLD_SIZE"]),
            )
        return "gloo"

    @contextmanager
    def nvtx_range(self, msg):
        yield
