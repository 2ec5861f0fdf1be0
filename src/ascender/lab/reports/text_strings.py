"""The sentences of reports: opening, remarks, advice, results of claims, methods."""

from __future__ import annotations

from ascender.report.strings import Pair

TEXT_STRINGS: dict[str, Pair] = {
    "page.claim": ("Claim:", "주장:"),
    "page.no_claim": ("No claim: no suite was given.", "주장 없음: 묶음이 주어지지 않았다."),
    "page.verdicts": ("Against {baseline}", "{baseline} 대비"),
    "page.own_verdicts": ("Each against its own baseline", "각각의 기준 대비"),
    "page.caveats": ("Comparisons without a verdict, and warnings", "판정이 없는 비교와 주의할 점"),
    "page.tables": ("Tables", "표"),
    "page.figures": ("Figures", "그림"),
    "page.methods": ("Methods", "방법"),
    "page.files": ("Files", "파일"),
    "page.trials_done": ("{n} / {all} trials finished", "끝난 시행 {n} / {all}"),
    "page.trials": ("Trials behind this number", "이 수치의 근거가 된 시행"),
    "page.close": ("close", "닫기"),
    "page.settings": ("settings", "설정"),
    "page.value": ("test", "테스트"),
    "page.task": ("task", "과제"),
    "page.variant": ("variant", "변형"),
    "page.seed": ("seed", "시드"),
    "page.key": ("key", "키"),
    "page.click": ("Click a number to see its trials.", "수치를 누르면 근거가 된 시행이 나온다."),
    "page.left_out": ("Figures not drawn", "그리지 않은 그림"),
    "page.insight": ("Rules and heads", "규칙과 헤드"),
    "page.beside": ("{models} · compared with {others}", "{models} · 비교: {others}"),
    "opening.alone": (
        "{ruled} vs. {baseline} on {n} tasks: {win} won{won}, {tie} tied, {loss} lost{lost}",
        "과제 {n}개에서 {baseline} 대비 {ruled}: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "opening.paired": (
        "With vs. without the rules, {n} pairs: {win} won{won}, {tie} tied, {loss} lost{lost}",
        "규칙이 있는 것과 없는 것의 {n}쌍: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "opening.all": (
        "{n} comparisons with {baseline}: {win} won{won}, {tie} tied, {loss} lost{lost}",
        "{baseline} 대비 비교 {n}개: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "opening.rest": (", {n} not judged", ", 판정 불가 {n}"),
    "opening.cheap": (
        "Not inferior to {baseline} on any task (margin {margin}; in brackets: attention FLOPs as "
        "a multiple of {baseline}'s, worst task): {good}.",
        "모든 과제에서 {baseline}보다 열등하지 않은 변형(허용 한계 {margin}, 괄호 안: 가장 불리한 "
        "과제의 어텐션 FLOPs, {baseline} 대비): {good}.",
    ),
    "opening.dear": (
        "No variant is proven non-inferior to {baseline} on every task (margin {margin}).",
        "모든 과제에서 {baseline} 대비 비열등이 입증된 변형이 없다(허용 한계 {margin}).",
    ),
    "opening.groups": (
        "z and neighbours recover the true groups better than {baseline}'s states in {win} of {n} "
        "comparisons (task, source, layer), worse in {loss}, tied in {tie}; seeds agree on the "
        "heads in {same} of {layers} layers.",
        "z와 이웃은 비교 {n}개(과제, 항목, 층) 중 {win}개에서 {baseline}의 상태보다 실제 무리를 더 "
        "잘 복원하고, {loss}개에서 더 못하고, {tie}개에서 무승부이다. 시드는 {layers}개 층 중 "
        "{same}개의 헤드에서 일치한다.",
    ),
    "opening.tuned": (
        "Tuning suite, judged on validation data only: no verdict. Best by task{best}.",
        "검증 자료만 쓰는 조정용 묶음이므로 판정은 없다. 과제별 최고{best}.",
    ),
    "opening.nothing": (
        "Nothing was compared with the baseline: no verdict.",
        "기준 변형과 비교한 것이 없어 판정이 없다.",
    ),
    "opening.unfinished": (
        "{n} of {all} trials are finished: no verdict yet.",
        "시행 {all}개 중 {n}개가 끝났으므로 아직 판정이 없다.",
    ),
    "opening.claims": (
        "{n} claims: {supported} supported, {not_supported} not supported, {open} open.",
        "주장 {n}개: 지지됨 {supported}, 지지되지 않음 {not_supported}, 미정 {open}.",
    ),
    "advice.seen": (
        "Result: {rule} moves more attention than the other rules, {share} on average and {most} "
        "in layer {layer}",
        "결과: {rule} 규칙이 다른 규칙보다 어텐션을 많이 옮긴다. 평균 {share}, {layer}층에서 "
        "{most}",
    ),
    "advice.muted": (
        "; muting a rule in the trained model changes the score by: {scores}",
        ". 학습된 모델에서 규칙을 끄면 점수가 변한다: {scores}",
    ),
    "advice.look": (
        "Next: inspect layer {layer} head {head} of {model}, where {rule} moves most (ascender "
        "view)",
        "다음: {rule} 규칙이 가장 많이 옮기는 {model}의 {layer}층 {head}번 헤드를 살펴볼 "
        "것(ascender view)",
    ),
    "advice.quiet": (
        "; these rules move less than {share} in every layer: {rules}. Check whether a model "
        "without them does as well ({variants})",
        ". 모든 층에서 {share} 미만을 옮기는 규칙: {rules}. 이 규칙 없이 학습해도 같은지 확인할 "
        "것({variants})",
    ),
    "advice.groups": (
        "Result: true groups of tokens are recovered best from {source} of layer {layer} (NMI "
        "{nmi}, by chance {chance}).",
        "결과: 토큰의 실제 무리는 {layer}층의 {source}에서 가장 잘 복원된다(NMI {nmi}, 우연 "
        "{chance}).",
    ),
    "advice.nothing": (
        "Result: {variant} has no rules, and the task defines no groups of tokens.",
        "결과: {variant}에는 규칙이 없고, 과제에는 토큰의 무리가 정의되어 있지 않다.",
    ),
    "advice.no_rules": (
        "Next: compare it with a model that has rules (ascender insight MODEL --against this one).",
        "다음: 규칙이 있는 모델과 비교할 것(ascender insight MODEL --against 이 모델).",
    ),
    "remark.no_baseline": (
        "{task}: the baseline {baseline} has no finished trial, so there is no comparison.",
        "{task}: 기준 변형({baseline})의 끝난 시행이 없어 비교하지 않았다.",
    ),
    "remark.no_common": (
        "{task}, {variant}: no seed in common with {baseline}, so there is no difference.",
        "{task}, {variant}: 기준 변형({baseline})과 겹치는 시드가 없어 차이를 구하지 않았다.",
    ),
    "remark.one_seed": (
        "{task}, {variant}: only one seed in common with {baseline}, so there is no interval, no "
        "test and no verdict.",
        "{task}, {variant}: 기준 변형({baseline})과 겹치는 시드가 하나뿐이라 구간과 검정, 판정이 "
        "없다.",
    ),
    "remark.no_spread": (
        "{task}, {variant}: the difference is the same for every seed. Without variance there is "
        "no t test and no verdict.",
        "{task}, {variant}: 모든 시드에서 차이가 같다. 분산이 없어 t 검정과 판정이 없다.",
    ),
    "remark.missing": (
        "{n} of {all} trials of the suite are not finished.",
        "묶음의 시행 {all}개 중 {n}개가 끝나지 않았다.",
    ),
    "remark.no_suite": (
        "No suite was given: the default decision rule (α = 0.05) and the baseline {baseline} are "
        "used. There is no record that they were fixed before the runs.",
        "묶음 정보가 없어 기본 판정 규칙(α = 0.05)과 기준 변형({baseline})을 썼다. 실행 전에 "
        "정해졌다는 기록은 없다.",
    ),
    "remark.changed": (
        "The decision rule of the given suite differs from the one recorded with the trials: it "
        "was fixed after the runs.",
        "주어진 묶음의 판정 규칙이 시행과 함께 기록된 것과 다르다. 이 규칙은 실행 후에 정해졌다.",
    ),
    "remark.no_scores": (
        "{variant}: its attention has no matrix of scores, so of its models only scores and states "
        "were measured (no contributions, roles or attention clusters).",
        "{variant}: 이 어텐션에는 점수 행렬이 없어 학습된 모델에서 점수와 상태만 측정했다(기여, "
        "역할, 어텐션 군집 없음).",
    ),
    "remark.few_seeds": (
        "At most {n} seeds per condition: t intervals are wide and p values coarse. Interpret "
        "verdicts with care.",
        "조건마다 시드가 많아야 {n}개이다. t 구간이 넓고 p 값이 거칠므로 판정을 조심해서 해석해야 "
        "한다.",
    ),
    "finding.wins": (
        "{win} won, {tie} tied, {loss} lost of {n} tasks{named}",
        "과제 {n}개 중 우세 {win}, 무승부 {tie}, 열세 {loss}{named}",
    ),
    "finding.no_scores": (
        "no scores of which more is better",
        "높을수록 좋은 점수가 없다",
    ),
    "finding.gain": (
        "largest difference that is a win: {task} {x}",
        "우세로 판정된 가장 큰 차이: {task} {x}",
    ),
    "finding.no_gain": ("no win; largest: {task} {x}", "우세 없음. 가장 큰 차이: {task} {x}"),
    "finding.no_controls": (
        "no task has {ours} and all controls ({controls})",
        "{ours}와(과) 모든 대조군({controls})을 돌린 과제가 없다",
    ),
    "finding.over_all": (
        "{ours} − each control: {tasks}",
        "{ours} − 각 대조군: {tasks}",
    ),
    "finding.faster": (
        "seeds with fewer steps to the goal, and the medians of {ruled} / {baseline}: {tasks}",
        "목표까지의 스텝이 더 적은 시드 수와 {ruled} / {baseline}의 중앙값: {tasks}",
    ),
    "finding.no_win": (
        "ASCender wins nowhere that {control} was run, so there is nothing to explain",
        "{control}을(를) 돌린 과제 가운데 ASCender가 우세한 곳이 없어 설명할 차이가 없다",
    ),
    "finding.beats": (
        "ASCender − {control} where it beats {baseline}: {tasks}",
        "{baseline}보다 우세한 과제에서 ASCender − {control}: {tasks}",
    ),
    "finding.none_cheap": (
        "no variant with the rules is proven not inferior on every task",
        "모든 과제에서 비열등이 입증된 규칙 변형이 없다",
    ),
    "finding.plain_cheap": ("; without them: {plain}", ". 규칙 없이: {plain}"),
    "finding.cheaper": (
        "not inferior on every task, FLOPs × vanilla's: {best}; without rules: {plain}",
        "모든 과제에서 비열등, 기본 대비 FLOPs: {best}. 규칙 없이: {plain}",
    ),
    "finding.in_tasks": ("in the tasks", "과제에서"),
    "finding.not_measured": ("no model was measured", "측정한 모델이 없다"),
    "finding.groups": (
        "z and neighbourhoods by layer: {win} won, {tie} tied, {loss} lost; won: {where}; "
        "attention worse on: {worse}",
        "층별 z와 이웃: 우세 {win}, 무승부 {tie}, 열세 {loss}. 우세: {where}. 어텐션이 열세인 "
        "과제: {worse}",
    ),
    "finding.too_few": ("too few seeds or heads", "시드나 헤드가 너무 적다"),
    "finding.roles": (
        "agreement of seeds on heads, p (Holm) by task and layer: {layers}",
        "헤드에 대한 시드 사이의 일치, 과제와 층별 p (Holm): {layers}",
    ),
    "finding.nowhere": (
        "alone it wins nowhere: {pairs}",
        "단독으로 우세한 곳이 없다: {pairs}",
    ),
    "finding.without": (
        "{name}: worse on {lost}, better on {won}",
        "{name}: 열세 {lost}, 우세 {won}",
    ),
    "finding.not_run": ("no trial is done", "끝난 시행이 없다"),
    "method.claim": ("Claim", "주장"),
    "method.rule": ("Rule, and when it was fixed", "판정 규칙과 정해진 시점"),
    "method.seeds": ("Seeds", "시드"),
    "method.tests": ("Tests", "검정"),
    "method.effects": ("Effect sizes", "효과 크기"),
    "method.sizes": ("Parameters", "매개변수 수"),
    "method.data": ("Data and tokenisation", "데이터와 토큰화"),
    "method.training": ("Training", "학습"),
    "method.stopping": ("Stopping rule", "종료 규칙"),
    "method.machine": ("Hardware and wall time", "하드웨어와 소요 시간"),
    "method.versions": ("Versions", "버전"),
    "method.failures": (
        "Failures and what cannot be judged",
        "실패한 시행과 판정할 수 없는 것",
    ),
    "methods.no_suite": ("No suite was recorded with the rows.", "묶음 정보가 없다."),
    "methods.suite": ("Suite: {name}, {key}.", "묶음: {name} (키 {key})"),
    "methods.baseline": (
        "The baseline is {baseline}; {numbers}.",
        "기준 변형: {baseline}; {numbers}.",
    ),
    "methods.verdicts": (
        "Win: the 95% interval of the difference lies wholly on the better side of 0 and reaches "
        "the smallest difference of interest, and Holm's p is below α. Loss: the opposite. Tie: "
        "otherwise; a tie does not show equivalence.",
        "우세: 차이의 95% 구간이 전부 0보다 좋은 쪽에 있고, 관심을 둘 최소 차이에 이르며, 홀름 "
        "보정 p가 α보다 작다. 열세는 그 반대이고, 나머지는 무승부이다. 무승부는 같다는 증명이 "
        "아니다.",
    ),
    "methods.changed": ("This rule was changed after the runs.", "이 규칙은 실행 후에 바뀌었다."),
    "methods.fixed": (
        "The rule was recorded with the trials (suite.json) at {fixed}.",
        "규칙이 시행과 함께 기록된 시각: {fixed} (suite.json).",
    ),
    "methods.not_recorded": (
        "When the rule was fixed is not recorded.",
        "규칙이 정해진 때는 기록되지 않았다.",
    ),
    "methods.cells": ("{n} cells: n = {seeds} ({which})", "{n}개 칸: n = {seeds} ({which})"),
    "methods.seed": (
        "A seed draws initial weights, batches and dropout; the same seed gives every variant the "
        "same batches. No seed was chosen by its result.",
        "시드가 초깃값, 배치, 드롭아웃을 정한다. 같은 시드는 모든 변형에 같은 배치를 준다. 결과를 "
        "보고 시드를 고르지 않았다.",
    ),
    "methods.t_test": (
        "Paired t test over seeds, two-sided, Holm over the family of {m} comparisons.",
        "시드별 대응표본 t 검정(양측), 비교 {m}개 전체에 홀름 보정.",
    ),
    "methods.intervals": (
        "95% t intervals of means, cut at the metric's range ([0, 1]; differences [−1, 1]): a mean "
        "cannot lie outside it, so coverage stays. Wilcoxon's signed ranks (exact) are reported "
        "beside it.",
        "평균의 95% t 구간으로, 지표의 범위([0, 1], 차이는 [−1, 1])를 벗어난 부분은 잘랐다. 평균은 "
        "그 밖에 있을 수 없으므로 포함 확률은 그대로이다. 윌콕슨 부호 순위 검정은 함께 보고만 "
        "한다.",
    ),
    "methods.resampling": (
        "Paired bootstrap and approximate randomisation over test examples, {draws} draws each.",
        "테스트 예제에 대한 짝지은 부트스트랩과 근사 무작위화, 각 {draws}회.",
    ),
    "methods.effects": (
        "Cliff's δ and Cohen's d of pairs (d_z): {effects}",
        "클리프의 델타와 짝지은 코언의 d: {effects}",
    ),
    "methods.own_tokens": ("the task's own", "과제 기본값"),
    "methods.tokens": ("{task}: tokenisation {how}", "{task}: 토큰화는 {how}"),
    "methods.test": ("{n} test examples", "테스트 예제 {n}개"),
    "methods.read": ("up to {n} tokens in training", "학습 토큰 최대 {n}"),
    "methods.steps": ("Steps taken: {n}", "실제 스텝 수: {n}"),
    "methods.validation": (
        "Validation every {every} steps; the weights with the best validation score are tested. "
        "Nothing is chosen on test examples.",
        "{every} 스텝마다 검증하고, 검증 점수가 가장 좋은 가중치를 테스트에 쓴다. 테스트 예제로는 "
        "아무것도 고르지 않는다.",
    ),
    "methods.patience": (
        "Patience {patience} (0: never stops early); {early} trials stopped early.",
        "개선 없이 기다리는 검증 횟수 {patience} (0: 없음), 일찍 끝난 시행 {early}개.",
    ),
    "methods.hardware": ("{kind} ({n} trials)", "{kind} (시행 {n}개)"),
    "methods.time": (
        "Training and validation of all trials, summed: {time}",
        "학습과 검증에 든 시간의 합: {time}",
    ),
    "methods.finished": ("Trials finished: {n} / {all}", "끝난 시행: {n} / {all}"),
    "methods.missing": ("Not finished: {keys}", "끝나지 않은 시행: {keys}"),
}
