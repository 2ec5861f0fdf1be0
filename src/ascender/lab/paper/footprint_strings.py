"""The strings of appendix E: limitations, compute footprint, risks. English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

FOOTPRINT = Strings({
    "heading": ("Limitations, compute footprint and risks", "한계, 연산량, 위험"),
    "limitations": ("Limitations", "한계"),
    "footprint": ("Compute footprint", "연산량"),
    "risks": ("Risks", "위험"),
    "limit.size": (
        "Models have {layers} layers, width {hidden} and {parameters} parameters and were trained "
        "for {steps} steps. Nothing here says what happens in larger ones.",
        "모델은 {layers}층, 너비 {hidden}, 매개변수 {parameters}개이며 {steps}스텝 학습했다. 더 "
        "큰 모델에서 어떻게 되는지는 알 수 없다.",
    ),
    "limit.chance": (
        "{n} of {conditions} conditions have a mean whose interval reaches the chance level or "
        "lies below it: there, little was learned, and a tie says little.",
        "조건 {conditions}개 중 {n}개는 평균의 구간이 우연 수준에 닿거나 그보다 낮다. 거기서는 "
        "배운 것이 적어 무승부의 뜻도 작다.",
    ),
    "limit.seeds": (
        "{few} of {conditions} conditions have fewer than {limit} seeds; their intervals are "
        "wide. A tie does not show that two variants are equal.",
        "조건 {conditions}개 중 {few}개는 시드가 {limit}개 미만이어서 구간이 넓다. 무승부는 두 "
        "변형이 같다는 증명이 아니다.",
    ),
    "limit.edges": (
        "Of {n} tasks and variants whose settings were tuned over several values, {edge} have the "
        "best validation score at the smallest or largest value tried: better settings may lie "
        "outside.",
        "여러 값으로 조정한 과제와 변형 {n}개 중 {edge}개는 시험한 값의 끝에서 검증 점수가 가장 "
        "좋았다. 더 나은 설정이 그 밖에 있을 수 있다.",
    ),
    "limit.tasks": (
        "{drawn} of {n} tasks are generated; they test what they were made to test.",
        "과제 {n}개 중 {drawn}개는 생성한 것이며, 만든 뜻에 맞는 것만 시험한다.",
    ),
    "limit.machine": (
        "All trials ran on {device}. Trials may have shared it with others, so seconds are only "
        "indicative; FLOPs and scores do not depend on that.",
        "모든 시행은 {device}에서 돌았다. 다른 시행과 컴퓨터를 나눠 썼을 수 있으므로 시간은 "
        "참고용이며, FLOPs와 점수는 그와 무관하다.",
    ),
    "limit.claims": (
        "{open} claims could not be decided, and {not_supported} of those tested do not hold.",
        "주장 {open}개는 판정하지 못했고, 검정한 것 중 {not_supported}개는 성립하지 않는다.",
    ),
    "footprint.total": (
        "{n} trials took {hours} hours of training and validation, which is {core} core hours "
        "(seconds times threads times processes). Energy was not measured. Time for trials that "
        "failed, were replaced or served development is not in the records.",
        "시행 {n}개의 학습과 검증에 {hours}시간이 들었고, 코어 시간으로는 {core}시간이다(초 × "
        "스레드 수 × 프로세스 수). 전력은 재지 않았다. 실패하거나 대체된 시행과 개발에 든 시간은 "
        "기록에 없다.",
    ),
    "risk.explanations": (
        "The terms of a score are exact, but they are not an explanation of a model's decision: "
        "what a head attends to need not be what its output depends on.",
        "점수의 항은 정확하지만 모델의 결정에 대한 설명은 아니다. 헤드가 주목하는 것과 출력이 "
        "좌우되는 것은 다를 수 있다.",
    ),
    "risk.cost": (
        "Without a window the rules cost more than they may save: attention FLOPs of {ruled} are "
        "{flops} those of {baseline} in the trials where both ran.",
        "윈도우가 없으면 규칙의 비용이 절약보다 클 수 있다. 둘 다 돌린 시행에서 {ruled}의 어텐션 "
        "FLOPs는 {baseline}의 {flops}이다.",
    ),
    "risk.use": (
        "No model here was evaluated for bias, toxicity or private data, and none is meant for "
        "use.",
        "여기의 모델은 편향, 유해성, 개인 정보에 대해 평가하지 않았고 사용을 위한 것이 아니다.",
    ),
    "risk.selection": (
        "Reading single wins as a finding would overstate them: the claims are the unit that was "
        "fixed before.",
        "우세 하나하나를 결론으로 읽으면 과장이 된다. 미리 정한 단위는 주장이다.",
    ),
    "title.footprint": ("Compute footprint by suite", "묶음별 연산량"),
    "note.footprint": (
        "Seconds of training and validation, summed over trials; core hours: seconds times "
        "threads times processes. A trial that several suites name is counted in each, and once "
        "in the last row.",
        "학습과 검증의 초를 시행에 대해 더했다. 코어 시간: 초 × 스레드 수 × 프로세스 수. 여러 "
        "묶음에 속한 시행은 각각에 세고 마지막 행에서는 한 번만 센다.",
    ),
    "title.machines": ("Machines and versions", "컴퓨터와 버전"),
    "note.machines": ("As the trials recorded them.", "시행에 기록된 대로이다."),
    "column.hours": ("hours", "시간"),
    "column.core_hours": ("core hours", "코어 시간"),
    "column.tokens": ("tokens trained", "학습 토큰"),
    "column.machine": ("machine", "컴퓨터"),
    "column.versions": ("versions", "버전"),
    "row.once": ("all, each once", "전체, 한 번씩"),
})  # fmt: skip
