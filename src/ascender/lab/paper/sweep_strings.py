"""The strings of appendices B (sweeps) and C (examples, seeds, colours, failures), in English and
Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

SWEEPS = Strings({
    "heading": ("Sweeps", "설정에 따른 변화"),
    "intro": (
        "Every condition with such a setting, after the baseline of its suite and the same "
        "variant without the setting. Differences are paired by seed, from the variant named "
        "beside them. A sweep that has no rows is named with the command that runs it (Table "
        "[#tab:not_run]).",
        "그런 설정이 있는 모든 조건을 묶음의 기준 변형, 그 설정이 없는 같은 변형 다음에 적었다. "
        "차이는 옆에 적은 변형과 같은 시드끼리 비교한 것이다. 행이 없는 것은 실행할 명령과 함께 "
        "적었다(표 [#tab:not_run]).",
    ),
    "all_run": (
        "Every trial that the suites of the package plan for these sweeps is there.",
        "패키지의 묶음이 이 변화에 대해 계획한 시행은 모두 있다.",
    ),
    "no_rows": ("No trial varies {axis}.", "{axis}을(를) 바꾼 시행이 없다."),
    "axis.k": ("the number of neighbours k", "이웃의 수 k"),
    "axis.window": ("the window w", "윈도우 w"),
    "axis.tau": ("the widths and temperature τ", "너비와 온도 τ"),
    "axis.gates": ("the gates and the initial weights ω", "게이트와 ω의 초깃값"),
    "axis.frozen": ("frozen or shared parts", "고정하거나 공유한 부분"),
    "axis.memory": ("memory", "메모리"),
    "title.sweep_k": ("Neighbours k", "이웃의 수 k"),
    "title.sweep_window": ("Window w", "윈도우 w"),
    "title.sweep_tau": ("Kernel widths and temperature τ", "커널 너비와 온도 τ"),
    "title.sweep_gates": ("Gates and initial ω", "게이트와 ω의 초깃값"),
    "title.sweep_frozen": (
        "Frozen or shared parts: roles, numbers, geometry, layers",
        "고정하거나 공유한 부분: 역할, 수, 기하, 층",
    ),
    "note.sweep": (
        "Mean and standard deviation over n seeds. A suite that tunes shows validation scores "
        "(marked v) and no verdict. FLOPs: of attention, over those of the suite's baseline.",
        "시드 n개의 평균과 표준편차. 조정용 묶음은 검증 점수(v 표시)이고 판정이 없다. FLOPs: "
        "어텐션, 묶음의 기준 변형 대비.",
    ),
    "title.sweep_memory": ("Peak memory of training", "학습의 최대 메모리"),
    "note.sweep_memory": (
        "Of the training process, MB, mean over seeds; in brackets over the baseline's. Suites "
        "that ask what quality costs.",
        "학습 프로세스의 값(MB), 시드 평균이며 괄호 안은 기준 변형 대비. 비용을 묻는 묶음.",
    ),
    "title.layer_memory": ("Peak memory of one layer by length", "길이별 층 하나의 최대 메모리"),
    "note.layer_memory": (
        "A training pass of one attention layer, MB, in a process of its own; in brackets over "
        "the first variant's at the same length.",
        "어텐션 층 하나의 학습 1회(MB), 별도 프로세스에서 쟀다. 괄호 안은 같은 길이의 첫 변형 "
        "대비.",
    ),
    "title.not_run": (
        "Sweeps that were not run, or not wholly",
        "돌리지 않았거나 다 돌리지 않은 것",
    ),
    "note.not_run": (
        "Trials that a suite of the package plans and that have no row here, and the command that "
        "runs what is missing; ascender lab pack adds it to these trials.",
        "패키지의 묶음이 계획했으나 여기에 행이 없는 시행과, 빠진 것을 돌리는 명령. ascender lab "
        "pack으로 이 시행들에 더한다.",
    ),
    "column.sweep": ("sweep", "변화"),
    "column.settings": ("settings", "설정"),
    "column.missing": ("missing", "없음"),
    "column.command": ("command", "명령"),
    "column.score": ("score, mean ± sd", "점수, 평균 ± 표준편차"),
    "column.vs": ("difference [interval]", "차이 [구간]"),
    "column.against_flops": ("FLOPs", "FLOPs"),
    "examples.heading": ("Examples, seeds, colours and failures", "예제, 시드, 색, 실패"),
    "examples.chosen": ("How examples were chosen", "예제를 고른 방법"),
    "examples.example": (
        "A figure of an example shows the first test example: of the first trial, in the suite's "
        "order, that has rules and whose model or matrices are there; the layer and head are "
        "those whose scores the rules move most (`lab/reports/attention_maps.py:maps`). Nobody "
        "chose among examples, and one example shows no rule's effect in general.",
        "예제 그림은 첫 테스트 예제이다. 묶음의 순서로, 규칙이 있고 모델이나 행렬이 남아 있는 첫 "
        "시행의 것이며, 층과 헤드는 규칙이 점수를 가장 많이 옮기는 "
        "것이다(`lab/reports/attention_maps.py:maps`). 사람이 예제를 고르지 않았으며, 예제 하나가 "
        "규칙의 일반적 효과를 보이지는 않는다.",
    ),
    "examples.drawn": (
        "Examples of generated tasks are drawn from a stream by split; of the others they are the "
        "rows of a split in their order (`tasks/base.py:Task.eval_batches`). Every model is "
        "scored on all test examples of its task.",
        "생성한 과제의 예제는 분할마다 다른 난수열에서 뽑고, 나머지 과제의 예제는 분할의 행을 "
        "순서대로 쓴다(`tasks/base.py:Task.eval_batches`). 모든 모델을 과제의 모든 테스트 예제로 "
        "채점한다.",
    ),
    "examples.seeds": ("Seeds", "시드"),
    "examples.seeds_said": (
        "A trial's seed draws its initial weights, batches and dropout, and is part of its "
        "settings; seeds count from 0. Validation and test examples do not depend on it. "
        "Resampling over examples has a seed of its own, always the same.",
        "시행의 시드는 초깃값, 배치, 드롭아웃을 정하며 설정의 일부이다. 시드는 0부터 센다. 검증과 "
        "테스트 예제는 시드와 무관하다. 예제 재표집의 시드는 따로 있고 늘 같다.",
    ),
    "examples.colours": ("Colours and scales", "색과 눈금"),
    "examples.colours_said": (
        "Each rule has one colour in all figures ({colours}); a variant with a single rule has "
        "that rule's. Signed scores are shown on a red–blue scale around 0, symmetric, with its "
        "largest value at the largest size shown; attention weights on a scale from yellow to "
        "blue. Figures carry the numbers of their scales (`report/palette.py:line_style`).",
        "규칙마다 모든 그림에서 색이 하나이고({colours}), 규칙이 하나뿐인 변형은 그 규칙의 "
        "색이다. 부호가 있는 점수는 0을 중심으로 대칭인 빨강–파랑 눈금에, 어텐션 가중치는 "
        "노랑에서 파랑으로 가는 눈금에 그린다. 눈금의 값은 그림에 "
        "있다(`report/palette.py:line_style`).",
    ),
    "examples.failures": ("Failures", "실패"),
    "examples.no_failures": (
        "No trial failed for good and none is missing: {done} of {planned} planned trials are "
        "finished.",
        "끝내 실패하거나 없는 시행이 없다: 계획한 시행 {planned}개 중 {done}개가 끝났다.",
    ),
    "examples.failed": (
        "{done} of {planned} planned trials are finished; {failed} failed and {missing} were not "
        "run or not finished. A trial that crashes is tried once more.",
        "계획한 시행 {planned}개 중 {done}개가 끝났고, {failed}개가 실패했고, {missing}개는 "
        "돌리지 않았거나 끝나지 않았다. 중단된 시행은 한 번 더 시도한다.",
    ),
    "examples.unrecorded": (
        "Errors of trials that succeeded at the second attempt, and trials that were deleted, are "
        "not in the records.",
        "두 번째에 성공한 시행의 오류와 지운 시행은 기록에 없다.",
    ),
    "title.seeds": ("Seeds by suite", "묶음별 시드"),
    "note.seeds": ("Conditions: a task with a variant.", "조건: 과제와 변형의 짝."),
    "title.completeness": ("Trials by suite", "묶음별 시행"),
    "note.completeness": (
        "Early: stopped before the planned steps. Unjudged: comparisons for which no test could "
        "be made (a single seed, no baseline, no spread).",
        "일찍: 계획한 스텝 전에 멈춘 시행. 판정 불가: 검정할 수 없는 비교(시드 하나, 기준 없음, "
        "분산 없음).",
    ),
    "title.failures": ("Trials that failed or are missing", "실패했거나 없는 시행"),
    "note.failures": (
        "Keys of trials, with the last error where there is one.",
        "시행의 키와, 있으면 마지막 오류.",
    ),
    "column.conditions": ("conditions", "조건"),
    "column.seeds": ("seeds", "시드"),
    "column.failed": ("failed", "실패"),
    "column.early": ("early", "일찍"),
    "column.unjudged": ("unjudged", "판정 불가"),
    "column.error": ("error", "오류"),
    "column.key": ("trial", "시행"),
    "missing": ("not finished", "끝나지 않음"),
})  # fmt: skip
