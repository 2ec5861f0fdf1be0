"""Many processes: a model in shards (FSDP), and its checkpoint.

    shard(model)                    every block a group, the rest one; parameters become DTensors
    save(model, folder)             each process writes its own shards (safetensors, no pickle)
    AscenderForCausalLM.from_pretrained(folder)              … and one process reads the whole

Replicas (DDP) need nothing of ours: torch.nn.parallel.DistributedDataParallel(model). Both are
torch's own; what is ours to know is which modules go together. Law: the losses are those of one
process with the same global batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard

from ascender.hf.modeling import AscenderPreTrainedModel, Block


def shard(model: AscenderPreTrainedModel, **options: Any) -> AscenderPreTrainedModel:
    """The model in shards over the processes of the group, in place (torch's FSDP2). `options`
    are fully_shard's: mesh, mp_policy, offload_policy. A position that all blocks learn together
    (t5, shaw) is with the rest, which stays whole from the first block to the last."""
    for module in list(model.modules()):
        if isinstance(module, Block):
            fully_shard(module, **options)
    fully_shard(model, **options)
    return model


def save(model: AscenderPreTrainedModel, folder: Path) -> None:
    """What save_pretrained writes, from a model in shards: every process its own part into
    folder/sharded, then put together. All processes call it."""
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        model.config.architectures = [type(model).__name__.removeprefix("FSDP")]
        model.config.save_pretrained(folder)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True, enable_consolidation=True)
    dcp.save(state(model), storage_writer=writer)


def state(model: nn.Module) -> dict[str, Any]:
    """The state dict with every tensor once: of tied weights the first name, as safetensors and
    save_pretrained have it."""
    every = set(dict(model.named_parameters(remove_duplicate=False)))
    again = every - set(dict(model.named_parameters()))
    return {name: t for name, t in get_model_state_dict(model).items() if name not in again}
