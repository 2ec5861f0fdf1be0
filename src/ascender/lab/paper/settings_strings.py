"""The strings of appendix A, hyper-parameters, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

SETTINGS = Strings({
    "heading": ("Hyper-parameters", "하이퍼파라미터"),
    "intro": (
        "From the records of {n} trials. Settings that all of them share are in Table "
        "[#tab:shared_settings], those that differ in Table [#tab:task_settings], variants of "
        "attention in Table [#tab:variants], the options of the rules in Table "
        "[#tab:rule_options]. What is set in code and not recorded is that of the installed "
        "version ({version}); the trials were made with {versions}.",
        "시행 {n}개의 기록에서. 모두 같은 설정은 표 [#tab:shared_settings], 다른 설정은 표 "
        "[#tab:task_settings], 어텐션 변형은 표 [#tab:variants], 규칙의 선택 사항은 표 "
        "[#tab:rule_options]에 있다. 기록되지 않고 코드에 정해진 것은 설치된 판({version})의 "
        "것이며, 시행은 {versions}로 만들었다.",
    ),
    "optimiser": ("Model and optimiser", "모델과 최적화"),
    "model": (
        "Pre-norm blocks with RMSNorm (ε {norm_eps}) and a gated feed-forward of width {inner}; "
        "initial weights have the standard deviation of torch's linear layers and are drawn from "
        "the trial's seed (`train/run.py:Run.config`). Every head has its own keys.",
        "RMSNorm(ε {norm_eps})을 앞에 둔 블록과 너비 {inner}인 게이트 순방향 층을 쓴다. 초깃값의 "
        "표준편차는 torch의 선형 층과 같고 시행의 시드로 뽑는다(`train/run.py:Run.config`). "
        "헤드마다 키가 따로 있다.",
    ),
    "adam": (
        "AdamW with β = {beta_one}, {beta_two} and ε = {eps}; weight decay on matrices only. The "
        "learning rate rises linearly over the warm-up and falls to 0 by a cosine "
        "(`train/loop.py:rate`). The gradient's norm is clipped.",
        "AdamW, β = {beta_one}, {beta_two}, ε = {eps}. 가중치 감쇠는 행렬에만 쓴다. 학습률은 준비 "
        "구간에 선형으로 오르고 코사인을 따라 0으로 내려간다(`train/loop.py:rate`). 기울기의 "
        "노름을 자른다.",
    ),
    "schedules": ("Schedule of the rules", "규칙의 일정"),
    "schedule": (
        "Trials with `schedule={name}` ({n}): {ramps}.",
        "`schedule={name}`인 시행({n}개): {ramps}.",
    ),
    "ramp": (
        "{rule} from {start} of the steps, {shape} over {length}, up to {to}",
        "{rule}은(는) 스텝의 {start}부터 {length} 동안 {shape}(으)로 {to}까지",
    ),
    "at_once": ("{rule} {to} from the first step on", "{rule}은(는) 첫 스텝부터 {to}"),
    "visible_share": (
        "Layers of flock scope attend to all visible keys for the first {share} of the steps ({n} "
        "trials with such layers).",
        "무리 범위의 층은 처음 {share}의 스텝 동안 보이는 키 전체에 주목한다(그런 층이 있는 시행 "
        "{n}개).",
    ),
    "losses": ("Auxiliary losses: {losses} ({n} trials).", "보조 손실: {losses} (시행 {n}개)."),
    "no_losses": ("No trial has an auxiliary loss.", "보조 손실을 쓴 시행은 없다."),
    "masks": ("Masks and caching", "마스크와 캐시"),
    "mask": (
        "Causal: {causal}. Every query sees every key: {full}. Padding is masked wherever "
        "examples have different lengths. A window or a flock is part of the variant (Table "
        "[#tab:variants]).",
        "인과 마스크: {causal}. 모든 쿼리가 모든 키를 보는 과제: {full}. 길이가 다른 예제의 "
        "채움은 가린다. 윈도우와 무리는 변형에 속한다(표 [#tab:variants]).",
    ),
    "cache": (
        "No prediction was read from a key-value cache: training and scoring are one pass over "
        "each batch. Variants that hand the neighbours of one layer to the next: {shared} "
        "({names}).",
        "예측에 키-값 캐시를 읽지 않았다. 학습과 채점은 배치마다 한 번 계산한다. 한 층의 이웃을 "
        "다음 층에 넘기는 변형은 {shared}개이다({names}).",
    ),
    "cache_written": (
        "Tasks that write answers ({tasks}) decode with a key-value cache; all other scoring and "
        "training is one pass a batch. Variants that hand the neighbours of one layer to the "
        "next: {shared} ({names}).",
        "답을 쓰는 과제({tasks})는 키-값 캐시로 풀고, 나머지 채점과 학습은 배치마다 한 번 "
        "계산한다. 한 층의 이웃을 다음 층에 넘기는 변형은 {shared}개이다({names}).",
    ),
    "title.shared_settings": ("Settings that all trials share", "모든 시행에 공통인 설정"),
    "note.shared_settings": (
        "Fields of a run, by the names of the options of ascender train.",
        "실행의 항목이며 이름은 ascender train의 선택 사항과 같다.",
    ),
    "title.task_settings": ("Settings that differ, by task", "과제별로 다른 설정"),
    "note.task_settings": (
        "Trials of suites that test, without those that tune. Attention: the kinds of attention "
        "that have this row's settings.",
        "조정용을 뺀 묶음의 시행. 어텐션: 이 행의 설정을 쓰는 어텐션의 종류.",
    ),
    "title.task_data": ("Tasks", "과제"),
    "note.task_data": (
        "Head: which model is on top. Position: of variants that name none. Options: those that "
        "differ from the task's defaults. Read: tokens of one trial in training.",
        "머리: 위에 놓인 모델. 위치: 따로 정하지 않은 변형의 것. 선택 사항: 과제의 기본값과 다른 "
        "것. 학습 토큰: 시행 하나의 것.",
    ),
    "title.variants": ("Variants of attention", "어텐션 변형"),
    "note.variants": (
        "Options: those that differ from the attention's defaults. Off: rules that stay off. "
        "Parameters: of whole models, over tasks. A dash: the task's position, the softmax, none.",
        "선택 사항: 어텐션의 기본값과 다른 것. 끔: 켜지 않는 규칙. 매개변수: 모델 전체의 값을 "
        "과제에 걸쳐. 줄표: 과제의 위치, 소프트맥스, 없음.",
    ),
    "title.rule_options": (
        "Options of the rules and where their learned numbers start",
        "규칙의 선택 사항과 학습되는 수의 초깃값",
    ),
    "note.rule_options": (
        "Defaults of the installed version; a variant that differs names it; null: as the other "
        "options say. Learned: as the value itself or as its logarithm. Their meaning: "
        "docs/definition.md and docs/notation.md.",
        "설치된 판의 기본값이며 다른 값을 쓰는 변형은 이름에 적힌다. null: 다른 선택 사항을 "
        "따른다. 학습: 값 그대로 또는 로그로. 뜻은 docs/definition.md와 docs/notation.md에 있다.",
    ),
    "column.setting": ("setting", "설정"),
    "column.value": ("value", "값"),
    "column.meaning": ("meaning", "뜻"),
    "column.options": ("options", "선택 사항"),
    "column.attention": ("attention", "어텐션"),
    "column.head": ("head", "머리"),
    "column.position": ("position", "위치"),
    "column.normalizer": ("normaliser", "정규화"),
    "column.off": ("off", "끔"),
    "column.learned": ("learned", "학습"),
    "column.test_n": ("test examples", "테스트 예제"),
    "column.read": ("tokens read", "학습 토큰"),
    "learned.value": ("value", "값"),
    "learned.log": ("logarithm", "로그"),
    "everywhere": ("all", "전부"),
    "none": ("none", "없음"),
    "ko.hidden": ("", "모델의 너비"),
    "ko.layers": ("", "층 수"),
    "ko.heads": ("", "어텐션 헤드 수"),
    "ko.dropout": ("", "드롭아웃, [0, 1) 안의 값"),
    "ko.smoothing": ("", "레이블 스무딩, [0, 1) 안의 값"),
    "ko.steps": ("", "최적화 스텝"),
    "ko.batch": ("", "스텝당 예제 수(모든 프로세스)"),
    "ko.rate": ("", "AdamW의 최대 학습률, 코사인을 따라 0까지"),
    "ko.warmup": ("", "준비 구간(스텝에 대한 비율)"),
    "ko.decay": ("", "가중치 감쇠"),
    "ko.clip": ("", "기울기 노름의 최댓값(0: 자르지 않음)"),
    "ko.accumulate": ("", "스텝당 미니배치 수(기울기 누적)"),
    "ko.checkpointing": ("", "활성값 재계산: 메모리를 덜 쓰고 시간을 더 쓴다"),
    "ko.precision": ("", "혼합 정밀도: no, bf16, fp16"),
    "ko.schedule": (
        "",
        "λ의 일정: default(분리는 스텝의 15% 뒤), constant, adaptive(검증 손실이 줄 때만 λ가 오름)",
    ),
    "ko.ramps": (
        "",
        "규칙(align, sep, coh)과 보조 손실(losses)이 들어오는 때, 예: {\"sep\": {\"start\": 0.3, "
        "\"length\": 0.1, \"shape\": \"cosine\", \"to\": 0.5}}. start와 length는 스텝에 대한 비율, "
        "정수이면 스텝 수이다. shape는 constant, linear, cosine이다. 적지 않은 것은 일정을 따른다",
    ),
    "ko.rise": ("", "적응형 일정: 검증 손실이 가장 낮아질 때마다 λ가 오르는 양"),
    "ko.visible_share": ("", "무리 범위가 시작되기 전, 보이는 키 전체를 쓰는 스텝의 비율"),
    "ko.losses": ("", "보조 손실의 가중치, 예: {\"coh\": 0.1}"),
    "ko.every": ("", "검증 사이의 스텝"),
    "ko.patience": ("", "개선 없이 기다리는 검증 횟수(0: 끝까지)"),
})  # fmt: skip
