"""The strings of the paper's own abstract and conclusion, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

SUMMARY = Strings({
    "abstract.opening": (
        "We tested {n} claims about attention with three learned, interpretable terms (alignment, "
        "separation and cohesion) in {trials} training runs, on {tasks} tasks and with {variants} "
        "variants of attention.",
        "정렬, 분리, 응집이라는 해석 가능한 세 항을 배우는 어텐션에 대한 주장 {n}개를, 과제 "
        "{tasks}개와 어텐션 변형 {variants}개로 {trials}번 학습하여 검정했다.",
    ),
    "abstract.unclaimed": (
        "No claim was stated with these {trials} training runs (on {tasks} tasks, with {variants} "
        "variants of attention), so none was tested.",
        "이 {trials}번의 학습(과제 {tasks}개, 어텐션 변형 {variants}개)에는 주장이 적혀 있지 않아 "
        "검정한 주장이 없다.",
    ),
    "abstract.counts": (
        "By the criteria recorded with the runs, {supported} held, {not_supported} did not, and "
        "{open} could not be decided.",
        "실행과 함께 기록된 기준에 따르면 {supported}개는 성립하고, {not_supported}개는 성립하지 "
        "않으며, {open}개는 판정할 수 없었다.",
    ),
    "abstract.none": (
        "No claim held. (A tie does not show that two variants are equal.)",
        "성립한 주장은 없다. (무승부는 두 변형이 같다는 증명이 아니다.)",
    ),
    "abstract.scope": (
        "All of this is for models of {parameters} parameters ({layers} layers, width {hidden}), "
        "trained for {steps} steps; larger models were not measured.",
        "모두 매개변수가 {parameters}개인 모델({layers}층, 너비 {hidden})을 {steps}스텝 학습한 "
        "결과이며, 더 큰 모델은 재지 않았다.",
    ),
    "conclusion.held": (
        "Of the {n} claims, {supported} held: {claims}.",
        "주장 {n}개 중 {supported}개가 성립했다: {claims}.",
    ),
    "conclusion.none": ("None of the {n} claims held.", "주장 {n}개 가운데 성립한 것이 없다."),
    "conclusion.failed": (
        "The measurements do not support {not_supported} of the claims: {claims}.",
        "측정값이 지지하지 않는 주장은 {not_supported}개이다: {claims}.",
    ),
    "conclusion.open": (
        "Undecided, for want of finished runs or of data that can test them: {claims}.",
        "끝난 실행이나 검정할 자료가 없어 판정하지 못한 주장: {claims}.",
    ),
    "conclusion.comparisons": (
        "In all, {m} comparisons of {suites} suites were judged: {win} wins, {tie} ties and "
        "{loss} losses. Holm's correction is made within each suite and not over all of them.",
        "모두 {suites}개 묶음의 비교 {m}개를 판정했다: 우세 {win}, 무승부 {tie}, 열세 {loss}. "
        "홀름 보정은 묶음마다 했고 전체에 대해서는 하지 않았다.",
    ),
    "held.wins": (
        "With the rules attention is better than {baseline} on {win} of {n} tasks ({won}), ties "
        "on {tie} and loses on {loss}.",
        "규칙을 쓴 어텐션은 과제 {n}개 중 {win}개({won})에서 {baseline}보다 낫고, {tie}개에서 "
        "무승부, {loss}개에서 열세이다.",
    ),
    "held.gain": (
        "The largest difference from {baseline} that is a win is {x} on {task} ({seeds} seeds).",
        "{baseline} 대비 우세로 판정된 가장 큰 차이는 {task}의 {x}이다(시드 {seeds}개).",
    ),
    "held.gain_over_all": (
        "In the suite `{suite}`, {ours} is better than every control by at least {at_least} on "
        "some task, and wins against each: {gaps}.",
        "묶음 `{suite}`에서 {ours}은(는) 어떤 과제에서 모든 대조군보다 {at_least} 이상 나으며 "
        "각각에 우세하다: {gaps}.",
    ),
    "held.over": (
        "{x} from {control} on {task} ({seeds} seeds)",
        "{task}에서 {control} 대비 {x}(시드 {seeds}개)",
    ),
    "held.faster": (
        "In the suite `{suite}` the rules reach every goal in fewer steps than {baseline} on "
        "every seed ({goals}).",
        "묶음 `{suite}`에서 규칙을 쓰면 모든 시드에서 {baseline}보다 적은 스텝에 모든 목표에 "
        "이른다({goals}).",
    ),
    "held.goal": (
        "{task}: {goal} {metric} after a median of {ours} steps instead of {theirs}, {fewer} of "
        "{seeds} seeds",
        "{task}: {metric} {goal}에 중앙값 {theirs}스텝 대신 {ours}스텝, 시드 {seeds}개 중 "
        "{fewer}개",
    ),
    "held.beats": (
        "Where the rules win over {baseline} they win over the control {control} too: {over}.",
        "{baseline}보다 우세한 과제에서는 대조군 {control}보다도 우세하다: {over}.",
    ),
    "held.cheaper": (
        "In the suite `{suite}`, {best} is not inferior to {baseline} on any task (margin "
        "{margin}, {seeds} seeds) and takes {flops} its attention FLOPs in the worst task.",
        "묶음 `{suite}`에서 {best}은(는) 어느 과제에서도 {baseline}보다 열등하지 않고(허용 한계 "
        "{margin}, 시드 {seeds}개), 가장 불리한 과제에서 어텐션 FLOPs가 {baseline}의 {flops}이다.",
    ),
    "held.plain": (
        "Without the rules, {plain} is not inferior either.",
        "규칙이 없는 {plain}도 열등하지 않다.",
    ),
    "held.groups": (
        "Coordinates $z$ and neighbourhoods recover true groups of tokens better than the states "
        "of {baseline} in {win} of {n} comparisons and worse in {loss}.",
        "좌표 $z$와 이웃은 비교 {n}개 중 {win}개에서 {baseline}의 상태보다 토큰의 실제 무리를 더 "
        "잘 복원하고, {loss}개에서 더 못 복원한다.",
    ),
    "held.roles": (
        "Seeds agree on how the heads of a layer differ on {agreed} of {n} tasks (Holm-adjusted "
        "$p$ by task and layer: {layers}).",
        "과제 {n}개 중 {agreed}개에서 한 층의 헤드가 서로 다른 방식이 시드 사이에 일치한다(과제와 "
        "층별 홀름 보정 $p$: {layers}).",
    ),
    "held.beside": (
        "On {won}, where the rules win alone, they also win beside every partner that was tried, "
        "with {seeds} seeds: {partners}.",
        "규칙만으로 우세한 {won}에서는, 시드 {seeds}개로, 함께 쓴 모든 방식과도 우세하다: "
        "{partners}.",
    ),
    "held.each": (
        "Leaving out any one rule loses on some task and wins on none: {worse}.",
        "어느 규칙을 빼도 나빠지는 과제가 있고 나아지는 과제는 없다: {worse}.",
    ),
    "held.own": ("“{claim}”: {ground}.", "“{claim}”: {ground}."),
})  # fmt: skip
