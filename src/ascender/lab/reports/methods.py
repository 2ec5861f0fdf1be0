"""methods.md: the statistical checklist of a paper, filled in from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ascender.lab.reports.cells import short
from ascender.lab.reports.suite_results import SuiteResults
from ascender.train.display import clock

# (heading, Korean heading, what fills it in)
Item = tuple[str, str, Callable[[SuiteResults, bool], list[str]]]


def methods(results: SuiteResults, lang: str) -> str:
    """Markdown in one language."""
    ko = lang == "ko"
    lines = ["# 방법" if ko else "# Methods", ""]
    for en, korean, fill in ITEMS:
        lines += [f"## {korean if ko else en}", ""]
        lines += [f"- {_plain(line)}" for line in fill(results, ko)]
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("\n", " ")


def _claim(results: SuiteResults, ko: bool) -> list[str]:
    sheet = results.sheet
    said = (sheet.claim_ko or sheet.claim) if ko else sheet.claim
    if not sheet.given:
        return ["묶음 정보가 없다." if ko else "No suite was recorded with the rows."]
    name = f"묶음: {sheet.name} (키 {sheet.key})" if ko else f"Suite: {sheet.name}, {sheet.key}."
    return [said, name]


def _rule(results: SuiteResults, ko: bool) -> list[str]:
    sheet, rule = results.sheet, results.sheet.rule
    numbers = f"α = {rule.alpha:g}, smallest = {rule.smallest:g}, margin = {rule.margin:g}"
    if ko:
        lines = [
            f"기준 변형: {sheet.baseline}; {numbers}.",
            "우세: 차이의 95% 구간이 전부 0보다 좋은 쪽에 있고, 관심을 둘 최소 차이에 이르며, 홀름 "
            "보정 p가 α보다 작다. 열세는 그 반대이고, 나머지는 무승부이다. 무승부는 같다는 증명이 "
            "아니다.",
        ]
    else:
        lines = [
            f"The baseline is {sheet.baseline}; {numbers}.",
            "Win: the 95% interval of the difference lies wholly on the better side of 0 and "
            "reaches the smallest difference of interest, and Holm's p is below α. Loss: the "
            "opposite. Tie: otherwise; a tie does not show equivalence.",
        ]
    return [*lines, _when(results, ko)]


def _when(results: SuiteResults, ko: bool) -> str:
    sheet = results.sheet
    if sheet.changed:
        return "이 규칙은 실행 후에 바뀌었다." if ko else "This rule was changed after the runs."
    if sheet.fixed:
        return (
            f"규칙이 시행과 함께 기록된 시각: {sheet.fixed} (suite.json)."
            if ko
            else f"The rule was recorded with the trials (suite.json) at {sheet.fixed}."
        )
    return (
        "규칙이 정해진 때는 기록되지 않았다." if ko else "When the rule was fixed is not recorded."
    )


def _seeds(results: SuiteResults, ko: bool) -> list[str]:
    by_count = Counter(tuple(condition.seeds) for condition in results.conditions)
    cells = "개 칸" if ko else " cells"
    lines = [
        f"{n}{cells}: n = {len(seeds)} ({', '.join(map(str, seeds))})"
        for seeds, n in by_count.items()
    ]
    return [
        *lines,
        "시드가 초깃값, 배치, 드롭아웃을 정한다. 같은 시드는 모든 변형에 같은 배치를 준다. "
        "결과를 보고 시드를 고르지 않았다."
        if ko
        else "A seed draws initial weights, batches and dropout; the same seed gives every variant "
        "the same batches. No seed was chosen by its result.",
    ]


def _tests(results: SuiteResults, ko: bool) -> list[str]:
    m = len(results.judged)
    draws = next((c.examples.draws for c in results.judged.values() if c.examples), 0)
    if ko:
        return [
            f"시드별 대응표본 t 검정(양측), 비교 {m}개 전체에 홀름 보정.",
            "평균의 95% t 구간으로, 지표의 범위([0, 1], 차이는 [−1, 1])를 벗어난 부분은 잘랐다. "
            "평균은 그 밖에 있을 수 없으므로 포함 확률은 그대로이다. 윌콕슨 부호 순위 검정은 함께 "
            "보고만 한다.",
            f"시험 예제에 대한 짝지은 부트스트랩과 근사 무작위화, 각 {draws:,}회.",
        ]
    return [
        f"Paired t test over seeds, two-sided, Holm over the family of {m} comparisons.",
        "95% t intervals of means, cut at the metric's range ([0, 1]; differences [−1, 1]): a mean "
        "cannot lie outside it, so coverage stays. Wilcoxon's signed ranks (exact) are reported "
        "beside it.",
        f"Paired bootstrap and approximate randomisation over test examples, {draws:,} draws each.",
    ]


def _effects(results: SuiteResults, ko: bool) -> list[str]:
    both = "클리프의 델타와 짝지은 코언의 d" if ko else "Cliff's δ and Cohen's d of pairs (d_z)"
    return [
        f"{both}: " + ", ".join(
            f"{task}/{variant} δ = {c.delta:+.2f}, d_z = {'–' if c.d is None else f'{c.d:+.2f}'}"
            for (task, variant), c in results.judged.items()
        )
    ] if results.judged else ["–"]  # fmt: skip


def _sizes(results: SuiteResults, ko: bool) -> list[str]:
    return [
        f"{condition.task}, {condition.variant}: {condition.records[0]['parameters']:,}"
        for condition in results.conditions
    ]


def _data(results: SuiteResults, ko: bool) -> list[str]:
    lines = []
    for task in results.tasks:
        runs = [r for condition in results.of_task(task) for r in condition.records]
        options = runs[0]["run"].get("options", {})
        how = options.get("tokenizer", "과제 기본값" if ko else "the task's own")
        parts = [f"{task}: 토큰화는 {how}" if ko else f"{task}: tokenisation {how}"]
        if not results.sheet.tuning:  # which does not look at the test
            n = _range(r["test"]["n"] for r in runs)
            parts.append(f"시험 예제 {n}개" if ko else f"{n} test examples")
        read = short(max(float(r["tokens"]) for r in runs))
        parts.append(f"학습 토큰 최대 {read}" if ko else f"up to {read} tokens in training")
        if options and not ko:
            parts.append(f"options {options}")
        lines.append("; ".join(parts))
    return lines


def _training(results: SuiteResults, ko: bool) -> list[str]:
    lines = []
    for task in results.tasks:
        rs = [r for condition in results.of_task(task) for r in condition.records]
        fields = ("hidden", "layers", "heads", "steps", "batch", "rate", "warmup", "decay", "clip",
                  "dropout", "precision", "schedule")  # fmt: skip
        said = ", ".join(f"{f} {_range(r['run'].get(f) for r in rs)}" for f in fields)
        lines.append(f"{task}: {said}")
    taken = _range(r["steps"] for r in results.records)
    return [*lines, f"{'실제 스텝 수' if ko else 'Steps taken'}: {taken}"]


def _stopping(results: SuiteResults, ko: bool) -> list[str]:
    patience = _range(r["run"].get("patience", 0) for r in results.records)
    early = sum(bool(r.get("stopped_early")) for r in results.records)
    every = _range(r["run"].get("every") for r in results.records)
    if ko:
        return [
            f"{every} 스텝마다 검증하고, 검증 점수가 가장 좋은 가중치를 시험에 쓴다. 시험 예제로는 "
            "아무것도 고르지 않는다.",
            f"개선 없이 기다리는 검증 횟수 {patience} (0: 없음), 일찍 끝난 시행 {early}개.",
        ]
    return [
        f"Validation every {every} steps; the weights with the best validation score are tested. "
        "Nothing is chosen on test examples.",
        f"Patience {patience} (0: never stops early); {early} trials stopped early.",
    ]


def _machine(results: SuiteResults, ko: bool) -> list[str]:
    kinds = Counter(_said(r["hardware"]) for r in results.records)
    seconds = sum(r["seconds"] + r.get("judging_seconds", 0.0) for r in results.records)
    wall = "학습과 검증에 든 시간의 합" if ko else "Training and validation of all trials, summed"
    count = "시행 {}개" if ko else "{} trials"
    said = [f"{kind} ({count.format(n)})" for kind, n in kinds.items()]
    return [*said, f"{wall}: {clock(seconds)}"]


def _versions(results: SuiteResults, ko: bool) -> list[str]:
    return [_said(dict(v)) for v in dict.fromkeys(tuple(r["versions"].items())
                                                  for r in results.records)]  # fmt: skip


def _failures(results: SuiteResults, ko: bool) -> list[str]:
    source = results.source
    lines = [f"{key}: {errors[-1]}" for key, errors in source.failures.items() if errors]
    missing = [key for key in source.missing if key not in source.failures]
    if missing:
        what = "끝나지 않은 시행" if ko else "Not finished"
        lines.append(f"{what}: {', '.join(missing)}")
    done = f"{len(source.records)} / {max(len(source.sheet.trials), len(source.records))}"
    lines.insert(0, f"{'끝난 시행' if ko else 'Trials finished'}: {done}")
    return [*lines, *(remark[ko] for remark in results.remarks())]


def _said(of: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in of.items())


def _range(values: Iterable[Any]) -> str:
    """All the different values, in order."""
    found = list(dict.fromkeys(values))
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in found):
        found.sort()
        if len(found) > 4:
            return f"{found[0]:g} – {found[-1]:g}"
    return " / ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in found)


ITEMS: tuple[Item, ...] = (
    ("Claim", "주장", _claim),
    ("Rule, and when it was fixed", "판정 규칙과 정해진 시점", _rule),
    ("Seeds", "시드", _seeds),
    ("Tests", "검정", _tests),
    ("Effect sizes", "효과 크기", _effects),
    ("Parameters", "매개변수 수", _sizes),
    ("Data and tokenisation", "데이터와 토큰화", _data),
    ("Training", "학습", _training),
    ("Stopping rule", "종료 규칙", _stopping),
    ("Hardware and wall time", "하드웨어와 소요 시간", _machine),
    ("Versions", "버전", _versions),
    ("Failures and what cannot be judged", "실패한 시행과 판정할 수 없는 것", _failures),
)
