"""transformers' Trainer on a few rows that count upwards."""

import torch
import transformers

N, V = 7, 37


def rows(count=24, seed=0):
    """Sentences that count: i, i+1, i+2 …"""
    random = torch.Generator().manual_seed(seed)
    starts = torch.randint(3, V - N, (count, 1), generator=random)
    return [{"input_ids": row, "labels": row} for row in starts + torch.arange(N)]


def trainer(model, out, steps=12, callbacks=(), data=None, **options):
    given = dict(
        max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-2, save_steps=4,
        report_to=[], use_cpu=True, disable_tqdm=True, seed=3, logging_steps=2,
    )  # fmt: skip
    args = transformers.TrainingArguments(str(out), **{**given, **options})
    data = rows() if data is None else data
    return transformers.Trainer(
        model, args, train_dataset=data, eval_dataset=data[:6], callbacks=list(callbacks)
    )


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
