"""Training for max@k on TRL."""

from maxatk.check import needing

with needing("maxatk.train needs torch, transformers and TRL: pip install 'maxatk[train]'"):
    from maxatk.train.config import MaxAtKConfig
    from maxatk.train.distill import distill, plan_distillation
    from maxatk.train.distill_recipe import DistillRecipe
    from maxatk.train.preview import Preview, preview
    from maxatk.train.programs import Programs
    from maxatk.train.recipe import TrainRecipe, check_settings
    from maxatk.train.run import train
    from maxatk.train.trainer import MaxAtKTrainer

__all__ = [
    "DistillRecipe",
    "MaxAtKConfig",
    "MaxAtKTrainer",
    "Preview",
    "Programs",
    "TrainRecipe",
    "check_settings",
    "distill",
    "plan_distillation",
    "preview",
    "train",
]
