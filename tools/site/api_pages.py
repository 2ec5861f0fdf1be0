"""The reference: API pages whose text mkdocstrings takes from the docstrings."""

from __future__ import annotations

# Page → (title, what it is for, objects). Every public name of the package is on one of them
# (tests/project/test_site.py).
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "attention": (
        "The attention",
        "The layer, the same attention as a function, and what they take and return. "
        "[Using the attention](../using.md) has examples.",
        ("ascender.nn.module.AscenderAttention", "ascender.core.attention.asc_attention",
         "ascender.core.attention.asc_parts", "ascender.core.varlen.asc_attention_varlen",
         "ascender.core.rules.Rules", "ascender.core.combine.Parts",
         "ascender.core.combine.LowRank", "ascender.nn.cache.Cache"),
    ),
    "slot": (
        "Positions, baselines, normalisers",
        "What fills the same slot, by name, and the classes that an attention or a position of "
        "your own derives from.",
        ("ascender.nn.slot.Attention", "ascender.nn.baselines.attention",
         "ascender.nn.positions.position", "ascender.nn.positions.base.Position",
         "ascender.core.normalizers.normalizer", "ascender.core.normalizers.Normalizer",
         "ascender.core.backends.base.Backend"),
    ),
    "losses": (
        "Losses and schedules",
        "The auxiliary losses, and when rules, losses and flock scope come in "
        "([training](../training.md#auxiliary-losses-and-schedules)).",
        ("ascender.core.losses.collect", "ascender.core.losses.Losses",
         "ascender.core.schedule.LossWeights", "ascender.core.schedule.Schedule",
         "ascender.core.schedule.Ramp", "ascender.core.schedule.Adaptive"),
    ),
    "models": (
        "Hugging Face models",
        "ASCender as transformers models ([models](../models.md)).",
        ("ascender.hf.configuration.AscenderConfig", "ascender.hf.modeling.AscenderModel",
         "ascender.hf.heads.AscenderForCausalLM", "ascender.hf.heads.AscenderForMaskedLM",
         "ascender.hf.heads.AscenderForSequenceClassification",
         "ascender.hf.heads.AscenderForTokenClassification",
         "ascender.hf.seq2seq.AscenderForConditionalGeneration",
         "ascender.hf.trainer.SwarmCallback"),
    ),
    "retrofit": (
        "Retrofit",
        "The rules, and flock scope, for a pretrained model ([retrofit](../retrofit.md)).",
        ("ascender.hf.retrofit.install.retrofit", "ascender.hf.retrofit.distil.distil_index",
         "ascender.hf.retrofit.install.unretrofit",
         "ascender.hf.retrofit.install.swarm_parameters",
         "ascender.hf.retrofit.install.print_trainable_parameters",
         "ascender.hf.retrofit.adapter_files.save_adapter",
         "ascender.hf.retrofit.adapter_files.load_adapter"),
    ),
    "tasks": (
        "Tasks and training",
        "Tasks by name, and one run of training ([tasks](../tasks.md), "
        "[training](../training.md)).",
        ("ascender.tasks.task", "ascender.tasks.base.Task", "ascender.tasks.base.Drawn",
         "ascender.tasks.base.Stored", "ascender.tasks.base.Batch", "ascender.tasks.base.Display",
         "ascender.train.run.Run", "ascender.train.loop.train"),
    ),
    "lab": (
        "Suites and reports",
        "Runs over tasks, variants and seeds, judged by criteria fixed before "
        "([reproducing](../reproducing.md)).",
        ("ascender.lab.suite.Suite", "ascender.lab.suite.grid",
         "ascender.lab.verdict.DecisionRule", "ascender.lab.bundle.Bundle",
         "ascender.lab.bundle.Claim", "ascender.lab.runner.run", "ascender.lab.runner.show",
         "ascender.lab.runner.report", "ascender.lab.runner.write_paper"),
    ),
    "insight": (
        "Looking inside",
        "Every term of a trained model's scores, as tensors and as a page "
        "([insight](../insight.md), [view](../view.md)).",
        ("ascender.insight.capture.capture", "ascender.insight.page.view",
         "ascender.insight.loading.load",
         "ascender.insight.capture.muted", "ascender.insight.contribution.contributions"),
    ),
}  # fmt: skip


# Of these classes the named methods, inherited ones too; of the others what they are.
MEMBERS = {
    "ascender.nn.module.AscenderAttention": ("forward", "new_cache", "rules"),
    "ascender.core.combine.Parts": ("terms",),
    "ascender.nn.slot.Attention": (
        "forward", "attend_heads", "parts", "bias", "pattern", "new_cache",
    ),
    "ascender.nn.positions.base.Position": (
        "embed", "rotate", "bias", "scores", "key_scores", "values",
    ),
    "ascender.core.normalizers.Normalizer": ("sharpen", "weights"),
    "ascender.core.backends.base.Backend": ("run", "refuses"),
    "ascender.core.losses.Losses": ("total",),
    "ascender.core.schedule.Schedule": ("default", "constant", "lam", "visible_phase", "apply"),
    "ascender.core.schedule.Adaptive": ("report", "lam", "visible_phase", "apply"),
    "ascender.core.schedule.Ramp": ("at",),
    "ascender.hf.configuration.AscenderConfig": ("preset",),
    "ascender.tasks.base.Task": (
        "train", "eval_batches", "chance", "example", "score", "clusters", "display",
    ),
    "ascender.tasks.base.Drawn": ("draw",),
    "ascender.tasks.base.Stored": ("rows", "collate"),
    "ascender.train.run.Run": ("of", "key", "cell"),
    "ascender.lab.suite.Suite": ("with_seeds",),
}  # fmt: skip


def entry(path: str) -> str:
    """What mkdocstrings reads."""
    members = MEMBERS.get(path)
    shown = f"[{', '.join(members)}]" if members else "false"
    more = "\n      inherited_members: true" if members else ""
    return f"::: {path}\n    options:\n      members: {shown}{more}\n"


def api_page(name: str) -> str:
    title, what, objects = PAGES[name]
    return f"# {title}\n\n{what}\n\n" + "\n".join(map(entry, objects))


def api_pages() -> dict[str, str]:
    """Place on the site → Markdown."""
    return {f"reference/{name}.md": api_page(name) for name in PAGES}
