"""The strings of the statistical checklist, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

CHECKLIST = Strings({
    "heading": ("Statistical checklist", "통계 점검표"),
    "intro": (
        "Filled in from the criteria and records of the suites; what they do not hold is said to "
        "be unknown. Criteria by suite: Table [#tab:criteria].",
        "묶음의 기준과 기록에서 채웠다. 거기에 없는 것은 알 수 없다고 적었다. 묶음별 기준은 표 "
        "[#tab:criteria]에 있다.",
    ),
    "tests": (
        "**Tests.** A paired t test over seeds, two-sided: the same seed draws the same batches "
        "for both variants. Wilcoxon's exact signed ranks are reported beside it and decide "
        "nothing. Over test examples: paired bootstrap and approximate randomisation, {draws} "
        "draws each.",
        "**검정.** 시드별 대응표본 t 검정(양측)이며, 같은 시드는 두 변형에 같은 배치를 준다. "
        "윌콕슨 부호 순위 검정(정확)은 함께 보고만 한다. 테스트 예제에 대해서는 짝지은 "
        "부트스트랩과 근사 무작위화를 각 {draws}회 했다.",
    ),
    "correction": (
        "**Correction.** Holm over all comparisons of a suite ({m} comparisons in {suites} "
        "suites, {low} to {high} in one); none over suites.",
        "**보정.** 묶음의 모든 비교에 홀름 보정을 했다(묶음 {suites}개의 비교 {m}개, 한 묶음에 "
        "{low}–{high}개). 묶음 사이의 보정은 하지 않았다.",
    ),
    "no_correction": (
        "**Correction.** Holm over all comparisons of a suite; no comparison could be tested "
        "here.",
        "**보정.** 묶음의 모든 비교에 홀름 보정을 한다. 여기서는 검정할 수 있는 비교가 없었다.",
    ),
    "seeds": (
        "**Seeds.** {seeds} a condition ({conditions} conditions, {few} of them with fewer than "
        "{limit}). A seed draws initial weights, batches and dropout. No seed of a suite is left "
        "out.",
        "**시드.** 조건마다 {seeds}개(조건 {conditions}개, 그중 {limit}개 미만인 것 {few}개). "
        "시드가 초깃값, 배치, 드롭아웃을 정한다. 묶음의 시드는 하나도 빼지 않았다.",
    ),
    "examples": (
        "**Test examples.** {n} a task, the same ones for every variant and seed ({tasks}).",
        "**테스트 예제.** 과제마다 {n}개이며 모든 변형과 시드에서 같다({tasks}).",
    ),
    "intervals": (
        "**Intervals.** 95% t intervals over seeds, cut at the metric's range, of means and of "
        "differences by seed; 95% bootstrap intervals over examples.",
        "**구간.** 시드에 대한 평균과 차이의 95% t 구간(지표의 범위에서 자름), 예제에 대한 95% "
        "부트스트랩 구간.",
    ),
    "margins": (
        "**Margins.** A difference counts from the smallest difference of interest on "
        "({smallest}, in the metric's units); not inferior is judged with a margin of {margin} "
        "where a suite has one ({suites} suites). Why these values is not in the records.",
        "**한계.** 관심을 둘 최소 차이({smallest}, 지표 단위)에 이르러야 차이로 센다. 한계가 있는 "
        "묶음({suites}개)의 비열등 허용 한계는 {margin}이다. 값을 그렇게 정한 까닭은 기록에 없다.",
    ),
    "effects": (
        "**Effect sizes.** Differences in the metric's units, Cliff's δ and Cohen's d of pairs, "
        "in the tables.",
        "**효과 크기.** 지표 단위의 차이, 클리프의 δ, 짝지은 코언의 d를 표에 적었다.",
    ),
    "power": (
        "**Power.** No power analysis is recorded; numbers of seeds were not derived from one.",
        "**검정력.** 검정력 분석의 기록이 없으며, 시드 수는 그런 분석에서 나온 것이 아니다.",
    ),
    "stopping": (
        "**Stopping.** Validation every {every} steps; the weights with the best validation score "
        "are tested. {early} of {n} trials stopped early. Whether seeds or suites were added "
        "after results had been seen is not in the records.",
        "**종료.** {every}스텝마다 검증하고 검증 점수가 가장 좋은 가중치를 테스트에 쓴다. 시행 "
        "{n}개 중 {early}개가 일찍 끝났다. 결과를 본 뒤에 시드나 묶음을 더했는지는 기록에 없다.",
    ),
    "exclusions": (
        "**Exclusions.** {done} of {planned} planned trials are finished, {failed} failed, "
        "{missing} are missing. Every finished trial that a suite names is in its tables; none is "
        "left out by its result.",
        "**제외.** 계획한 시행 {planned}개 중 {done}개가 끝났고, {failed}개가 실패했고, "
        "{missing}개가 없다. 묶음에 속한 끝난 시행은 모두 표에 있으며 결과를 보고 뺀 것은 없다.",
    ),
    "tuning": (
        "**Tuning.** {trials} trials in {suites} suites tried settings ({settings}) (seeds for "
        "each: {seeds}), judged by validation scores; test scores were not used for it.",
        "**조정.** 묶음 {suites}개의 시행 {trials}개가 설정({settings})을 시험했고(각 시드 "
        "{seeds}개) 검증 점수로 판단했다. 테스트 점수는 쓰지 않았다.",
    ),
    "no_tuning": (
        "**Tuning.** No suite of tuning is among these trials; how settings were chosen is not in "
        "the records.",
        "**조정.** 조정용 묶음이 없다. 설정을 어떻게 골랐는지는 기록에 없다.",
    ),
    "leakage": (
        "**Leakage.** Nothing is chosen on test examples. {drawn} of {n} tasks draw training, "
        "validation and test examples from streams of their own; in the other tasks they are rows "
        "of different splits. Whether rows of public data occur in two splits was not checked.",
        "**누출.** 테스트 예제로는 아무것도 고르지 않는다. 과제 {n}개 중 {drawn}개는 학습, 검증, "
        "테스트 예제를 서로 다른 난수열에서 뽑고, 나머지는 서로 다른 분할의 행을 쓴다. 공개 "
        "자료의 행이 두 분할에 함께 있는지는 확인하지 않았다.",
    ),
    "fixed": (
        "**Registration.** When each claim and criterion was last changed is recorded beside the "
        "trials ({fixed}); when each trial ran is not. There was no registration elsewhere that "
        "the records know of.",
        "**등록.** 각 주장과 기준이 마지막으로 바뀐 때는 시행과 함께 기록되어 있다({fixed}). 각 "
        "시행이 언제 돌았는지는 기록되지 않았다. 다른 곳에 등록했는지는 기록에 없다.",
    ),
    "not_fixed": (
        "**Registration.** When the criteria were fixed is not recorded.",
        "**등록.** 기준이 정해진 때는 기록되지 않았다.",
    ),
    "compute": (
        "**Compute.** {hours} hours of training and validation in all, on {device}; by suite in "
        "Table [#tab:footprint].",
        "**연산.** 학습과 검증에 모두 {hours}시간, {device}에서. 묶음별로는 표 [#tab:footprint]에 "
        "있다.",
    ),
    "title.criteria": ("Criteria by suite", "묶음별 기준"),
    "note.criteria": (
        "Trials: finished / planned. m: comparisons in the family of Holm's correction. α: what "
        "the adjusted p must be below. Smallest: the smallest difference of interest. Margin: how "
        "much worse still counts as not inferior; 0 where that is not asked. Fixed: when the rule "
        "was last changed. A suite that tunes is judged on validation data and gets no verdict.",
        "시행: 끝난 수 / 계획한 수. m: 홀름 보정을 함께 한 비교의 수. α: 보정한 p가 이보다 작아야 "
        "한다. 최소 차이: 관심을 둘 최소 차이. 한계: 이만큼 나빠도 열등하지 않다고 본다(묻지 "
        "않으면 0). 정한 때: 규칙이 마지막으로 바뀐 때. 조정용 묶음은 검증 자료로 보며 판정이 "
        "없다.",
    ),
    "column.m": ("m", "m"),
    "column.alpha": ("α", "α"),
    "column.smallest": ("smallest", "최소 차이"),
    "column.fixed": ("fixed", "정한 때"),
    "column.purpose": ("purpose", "목적"),
    "purpose.tuning": ("tuning", "조정"),
    "purpose.test": ("test", "검정"),
})  # fmt: skip
