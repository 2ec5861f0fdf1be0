"""Headings, captions and remarks, in English and Korean."""

from __future__ import annotations

LANGS = ("en", "ko", "both")

TITLES: dict[str, dict[str, str]] = {
    "tuning": {
        "en": "What was tried, on validation data",
        "ko": "검증 자료로 시도한 것",
    },
    "claims": {
        "en": "Claims and verdicts",
        "ko": "주장과 판정",
    },
    "summary": {
        "en": "With the rules and without",
        "ko": "규칙이 있을 때와 없을 때",
    },
    "accuracy": {
        "en": "Quality by task and variant",
        "ko": "과제와 변형별 성능",
    },
    "examples": {
        "en": "The same differences over test examples",
        "ko": "시험 예제 단위로 본 차이",
    },
    "learning": {
        "en": "How fast it was learned",
        "ko": "학습 속도",
    },
    "efficiency": {
        "en": "What it costs",
        "ko": "비용",
    },
    "inferiority": {
        "en": "Who is not worse than the baseline",
        "ko": "기준 변형보다 나쁘지 않은 것",
    },
    "costs": {
        "en": "What a layer costs at length, measured",
        "ko": "긴 길이에서 층 하나의 비용(측정값)",
    },
    "further": {
        "en": "Slices of difficulty and further metrics",
        "ko": "난이도 구간과 그 밖의 지표",
    },
    "contribution": {
        "en": "What each rule does",
        "ko": "규칙별 기여",
    },
    "roles": {
        "en": "Roles of heads",
        "ko": "헤드의 역할",
    },
    "agreement": {
        "en": "Do seeds agree on the roles of heads?",
        "ko": "헤드의 역할은 시드 사이에 일치하는가",
    },
    "grouping": {
        "en": "Interpretability and grouping: true groups found (NMI, ARI)",
        "ko": "해석 가능성과 무리 짓기: 찾아낸 실제 무리 (NMI, ARI)",
    },
}

NOTES: dict[str, dict[str, str]] = {
    "tuning": {
        "en": "Best validation score of a run, mean ± standard deviation over seeds. No test score "
        "is looked at.",
        "ko": "실행 중 가장 좋은 검증 점수, 시드 평균 ± 표준편차. 시험 점수는 보지 않는다.",
    },
    "claims": {
        "en": "Each claim names its test (experiments/paper.py); claims.json says since when it "
        "stands. Not testable: there is nothing to test it on at this scale. Trials: done, of all "
        "where some are missing; until they are there, what was found so far is no verdict.",
        "ko": "각 주장에는 검정이 정해져 있고(experiments/paper.py), 언제 정했는지는 claims.json에 "
        "있다. 검정 불가는 이 규모에서 검정할 대상이 없다는 뜻이다. 시행은 끝난 수이며, 빠진 것이 "
        "있으면 전체 수를 함께 적었다. 다 끝나기 전까지의 근거는 판정이 아니다.",
    },
    "summary": {
        "en": "Test scores over seeds, mean ± standard deviation; the difference is paired by "
        "seed, with its 95% t interval; p is adjusted by Holm over all comparisons of the suite. "
        "The floor is what the best guess gets that does not look at the input. FLOPs are those "
        "of the attentions in a forward pass; times are of trials that ran side by side.",
        "ko": "시드별 시험 점수, 평균 ± 표준편차. 차이는 같은 시드끼리 짝지어 95% t 구간과 함께 "
        "적었고, p는 묶음 전체 비교에 대해 홀름 방법으로 보정했다. 바닥은 입력을 보지 않는 "
        "최선의 추측이 얻는 점수이다. FLOPs는 순전파 한 번의 어텐션 연산이고, 시간은 나란히 돌린 "
        "시행의 것이다.",
    },
    "accuracy": {
        "en": "Test scores over seeds: mean ± standard deviation, 95% t interval, cut at the "
        "metric's range, where the mean must lie. Differences are paired by seed; p is of the "
        "paired t test, adjusted by Holm over all comparisons of the suite. δ is Cliff's, d_z "
        "Cohen's of pairs. The floor is what the best guess gets that does not look at the input.",
        "ko": "시드별 시험 점수: 평균 ± 표준편차, 95% t 구간(평균이 있을 수 있는 지표의 범위에서 "
        "자름). 차이는 같은 시드끼리 짝지어 구했고, p는 대응표본 t 검정 값을 묶음 전체 비교에 대해 "
        "홀름 방법으로 보정한 것이다. δ는 클리프의 델타, d_z는 짝지은 코언의 d이다. 바닥은 입력을 "
        "보지 않는 최선의 추측이 얻는 점수이다.",
    },
    "examples": {
        "en": "Test examples drawn again, seeds averaged: paired bootstrap and approximate "
        "randomisation, not adjusted; Wilcoxon's signed ranks are over seeds. The verdict does "
        "not depend on this table.",
        "ko": "시드를 평균한 뒤 시험 예제를 다시 뽑았다: 짝지은 부트스트랩과 근사 무작위화이며 "
        "보정하지 않았다. 윌콕슨 부호 순위 검정은 시드 단위이다. 판정은 이 표에 의존하지 않는다.",
    },
    "learning": {
        "en": "Cost at the first validation that meets the goal: Kaplan–Meier median over seeds "
        "(how many got there). “>” says that fewer than half did by then. The area is the mean "
        "validation score on the way.",
        "ko": "목표에 처음 도달한 검증 시점의 비용: 시드에 대한 카플란–마이어 중앙값(도달한 시드 "
        "수). “>”는 그때까지 절반에 못 미치는 시드만 도달했다는 뜻이다. 면적은 학습 도중의 평균 "
        "검증 점수이다.",
    },
    "efficiency": {
        "en": "Means over seeds, with the ratio to the baseline in brackets. FLOPs are counted in "
        "the attentions of one forward pass over one example. Memory is the peak of the training "
        "process. Tokens a second and seconds are of trials that ran side by side: they "
        "indicate, they do not prove.",
        "ko": "시드 평균이며 괄호 안은 기준 변형에 대한 비율이다. FLOPs는 예제 하나의 순전파에서 "
        "어텐션이 쓰는 연산 수이다. 메모리는 학습 프로세스의 최댓값이다. 초당 토큰 수와 시간은 "
        "나란히 돌아간 시행에서 잰 값이므로 참고용이다.",
    },
    "inferiority": {
        "en": "Not inferior: the whole 95% interval of the difference, paired by seed, lies above "
        "the margin below the baseline (for an error: below the margin above it). Inferior: the "
        "whole interval lies beyond it. Unproven: neither. FLOPs of the attentions, × the "
        "baseline's.",
        "ko": "비열등: 같은 시드끼리 구한 차이의 95% 구간 전체가 기준 변형에서 허용 한계를 뺀 "
        "값보다 위에 있다(오차 지표이면 반대 방향). 열등: 구간 전체가 한계 밖에 있다. 미입증: 둘 "
        "다 아니다. FLOPs는 어텐션의 연산 수로, 기준 변형에 대한 배수이다.",
    },
    "costs": {
        "en": "One attention layer with its projections on random tokens, one thread, the ratio to "
        "the first variant in brackets. FLOPs are counted on the operators of a forward pass; "
        "latency is its best time; tokens a second are of forward and backward; memory is the "
        "peak of a training pass in a process of its own. Variants took turns within a length.",
        "ko": "무작위 토큰에 대한 어텐션 층 하나(사영 포함), 스레드 하나, 괄호 안은 첫 변형에 대한 "
        "배수이다. FLOPs는 순전파의 실제 연산에서 센 값, 지연 시간은 그 최단 시간이다. 초당 토큰 "
        "수는 순전파와 역전파를 합한 값이고, 메모리는 별도 프로세스에서 잰 학습 1회의 최댓값이다. "
        "변형들은 같은 길이 안에서 번갈아 측정했다.",
    },
    "further": {
        "en": "Test scores by slice of difficulty, and metrics beside the main one. The floor is "
        "that of the whole task.",
        "ko": "난이도 구간별 시험 점수와 주 지표 외의 지표. 바닥은 과제 전체의 값이다.",
    },
    "contribution": {
        "en": "Means over heads, mean ± standard deviation over seeds. Share: of the variance of a "
        "head's scores within a row, Cov(term, sum) / Var(sum); the shares of base, rules and "
        "position sum to 1, and one below 0 works against the rest. Moved: how much of a row's "
        "attention lies elsewhere with the rule muted (total variation), in this layer alone or "
        "in the whole model. Muted: the score on the same test examples with the rule muted in "
        "the trained model, less the score as it is.",
        "ko": "헤드 평균의 시드별 평균 ± 표준편차. 몫은 한 행 안에서 헤드 점수의 분산 중 차지하는 "
        "비율 Cov(항, 합)/Var(합)으로, 기본 점수와 규칙과 위치의 몫을 더하면 1이고 0보다 작으면 "
        "나머지와 반대로 작용한다. 이동량은 규칙을 끄면 한 행의 어텐션이 얼마나 다른 곳으로 "
        "가는지(전변동 거리)이며, 그 층에서만 끈 값과 모델 전체에서 끈 값이다. 끔은 학습된 "
        "모델에서 규칙을 껐을 때 같은 시험 예제의 점수에서 원래 점수를 뺀 값이다.",
    },
    "roles": {
        "en": "Heads of all layers and seeds, clustered by k-means on their contributions (the "
        "shares and the attention moved); the number of roles has the largest silhouette, and is "
        "one where none reaches 0.25. A role is named by the rules that move 5% of its attention "
        "or more.",
        "ko": "모든 층과 시드의 헤드를 기여(몫과 이동량)에 대해 k-평균으로 묶었다. 역할의 수는 "
        "실루엣이 가장 큰 것이며, 0.25에 이르는 것이 없으면 하나이다. 역할의 이름은 어텐션의 5% "
        "이상을 옮기는 규칙이다.",
    },
    "agreement": {
        "en": "Heads of a layer are matched between every two seeds (Hungarian assignment on "
        "their contributions); r is the correlation of matched heads about the layer's mean. "
        "By chance: the same with the heads of all seeds dealt anew to the seeds; p is how often "
        "that is as large, of 1,000 times. All: the same of the layers' means, heads dealt anew to "
        "the layers of their seed.",
        "ko": "두 시드마다 한 층의 헤드를 기여에 대해 헝가리안 방법으로 짝지었다. r은 층 평균을 뺀 "
        "뒤 짝지은 헤드끼리의 상관이다. 우연은 모든 시드의 헤드를 시드에 무작위로 다시 "
        "나누어 준 값이고, p는 1,000번 중 그만큼 커지는 비율이다. all은 층 평균에 대한 값으로, "
        "우연은 시드 안에서 헤드를 층에 다시 나누어 준 값이다.",
    },
    "grouping": {
        "en": "Clusters against the true groups of an example's tokens, mean over test examples "
        "(as many clusters as groups); mean ± standard deviation and 95% t interval over seeds. "
        "z: k-means on latent coordinates; neighbours: spectral clustering of the neighbour graph; "
        "attention: spectral clustering of the weights; states: k-means on the states that the "
        "layer reads, the highest number being what leaves the model. Chance: labels "
        "shuffled. Differences of NMI are paired by seed, from the same source of {baseline}, for "
        "z and neighbours from its states; p of the paired t test, adjusted by Holm over this "
        "table.",
        "ko": "예제마다 토큰의 군집을 실제 무리와 견준 값의 시험 예제 평균이며(군집 수는 무리 수), "
        "시드에 대한 평균 ± 표준편차와 95% t 구간이다. z는 잠재 좌표의 k-평균, 이웃은 이웃 "
        "그래프의 스펙트럼 군집, 어텐션은 가중치의 스펙트럼 군집, 상태는 층이 읽는 상태의 "
        "k-평균이고 마지막 번호는 모델을 떠나는 상태이다. 우연은 레이블을 섞은 값이다. NMI의 "
        "차이는 같은 시드끼리 {baseline}의 같은 항목과, z와 이웃은 그 상태와 견주었고, p는 "
        "대응표본 t 검정을 이 표에 대해 홀름 방법으로 보정한 값이다.",
    },
}

COLUMNS: dict[str, tuple[str, str]] = {
    "paper_claim": ("claim", "주장"),
    "suite": ("suite", "묶음"),
    "trials": ("trials", "시행"),
    "ground": ("what was found", "근거"),
    "validation": ("validation, mean ± sd", "검증, 평균 ± 표준편차"),
    "base_test": ("{baseline}, mean ± sd", "{baseline}, 평균 ± 표준편차"),
    "ruled_test": ("with the rules", "규칙 있음"),
    "task": ("task", "과제"),
    "variant": ("variant", "변형"),
    "metric": ("metric", "지표"),
    "test": ("test, mean ± sd", "시험, 평균 ± 표준편차"),
    "n": ("n", "n"),
    "interval": ("95% interval", "95% 구간"),
    "floor": ("floor", "바닥"),
    "difference": ("− {baseline} [95%]", "− {baseline} [95%]"),
    "against": ("against", "비교 대상"),
    "own_difference": ("difference [95%]", "차이 [95%]"),
    "p": ("p (Holm)", "p (홀름)"),
    "delta": ("Cliff's δ", "클리프 δ"),
    "d": ("d_z", "d_z"),
    "verdict": ("verdict", "판정"),
    "bootstrap": ("over examples [95%]", "예제 단위 차이 [95%]"),
    "bootstrap_p": ("p (bootstrap)", "p (부트스트랩)"),
    "randomised_p": ("p (randomisation)", "p (무작위화)"),
    "wilcoxon_p": ("p (Wilcoxon)", "p (윌콕슨)"),
    "examples": ("examples", "예제 수"),
    "goal": ("goal", "목표"),
    "steps": ("steps to goal", "목표까지 스텝"),
    "tokens": ("tokens to goal", "목표까지 토큰"),
    "seconds": ("seconds to goal", "목표까지 초"),
    "area": ("area under curve", "곡선 아래 면적"),
    "area_difference": ("area − {baseline} [95%]", "면적 − {baseline} [95%]"),
    "flops": ("attention FLOPs an example", "예제당 어텐션 FLOPs"),
    "memory": ("peak memory, MB", "최대 메모리, MB"),
    "throughput": ("tokens a second", "초당 토큰 수"),
    "time": ("training, s", "학습 시간, 초"),
    "parameters": ("parameters", "매개변수"),
    "margin": ("margin", "허용 한계"),
    "flops_ratio": ("FLOPs, × {baseline}", "FLOPs, {baseline} 대비"),
    "time_ratio": ("training time, × {baseline}", "학습 시간, {baseline} 대비"),
    "length": ("tokens", "토큰 수"),
    "layer_flops": ("FLOPs, forward", "FLOPs(순전파)"),
    "latency": ("latency, ms", "지연 시간, ms"),
    "training_speed": ("tokens a second, training", "초당 토큰 수(학습)"),
    "training_memory": ("peak memory, MB", "최대 메모리, MB"),
    "of": ("of", "항목"),
    "layer": ("layer", "층"),
    "omega": ("ω", "ω"),
    "share": ("share of variance", "분산의 몫"),
    "moved": ("attention moved", "어텐션 이동량"),
    "whole": ("moved, whole model", "이동량, 모델 전체"),
    "muted": ("score, muted", "끈 점수 차이"),
    "role": ("role", "역할"),
    "heads": ("heads", "헤드 수"),
    "by_layer": ("by layer", "층별"),
    "share_base": ("share: base", "몫: 기본"),
    "share_align": ("alignment", "정렬"),
    "share_sep": ("separation", "분리"),
    "share_coh": ("cohesion", "응집"),
    "share_other": ("position", "위치"),
    "moved_align": ("moved: alignment", "이동량: 정렬"),
    "moved_sep": ("separation", "분리"),
    "moved_coh": ("cohesion", "응집"),
    "pairs": ("pairs", "시드 쌍"),
    "agreement": ("r", "r"),
    "null": ("by chance", "우연"),
    "p_null": ("p", "p"),
    "nmi": ("NMI", "NMI"),
    "ari": ("ARI", "ARI"),
    "chance_nmi": ("NMI by chance", "우연 NMI"),
    "chance_ari": ("ARI by chance", "우연 ARI"),
}

VERDICTS: dict[str, tuple[str, str]] = {
    "win": ("win", "우세"),
    "tie": ("tie", "무승부"),
    "loss": ("loss", "열세"),
    "unjudged": ("not judged", "판정 불가"),
    "baseline": ("baseline", "기준"),
    "not_inferior": ("not inferior", "비열등"),
    "unproven": ("unproven", "미입증"),
    "inferior": ("inferior", "열등"),
    "supported": ("supported", "지지됨"),
    "not_supported": ("not supported", "지지되지 않음"),
    "unfinished": ("runs not finished", "실행 미완료"),
    "not_run": ("not run yet", "아직 실행하지 않음"),
    "not_testable": ("not testable at this scale", "이 규모에서 검정 불가"),
}

FIGURES: dict[str, dict[str, str]] = {
    "maps": {
        "en": "Figure 1. Attention taken apart: {variant} on {task}, first test example, seed "
        "{seed}, layer {layer}, head {head} (where the rules move the scores most). The total is "
        "the sum of the terms, with the position's bias where there is one, divided by the head's "
        "temperature; terms and total share one scale. The weights are the softmax of the total.",
        "ko": "그림 1. 어텐션의 분해: {task} 과제의 첫 시험 예제, {variant}, 시드 {seed}, "
        "{layer}층 {head}번 헤드(규칙이 점수를 가장 많이 바꾸는 곳). 합계는 각 항(위치 편향이 "
        "있으면 그것도 포함)을 더해 헤드의 온도로 나눈 값이며, 각 항과 같은 눈금을 쓴다. 가중치는 "
        "합계의 소프트맥스이다.",
    },
    "pareto": {
        "en": "Figure 2. Quality against cost: mean test score with its 95% interval over the "
        "attention FLOPs of one example. The line is the frontier: nothing is both better and "
        "cheaper. Dotted: the floor (far from all scores: its number). ↓: lower is better.",
        "ko": "그림 2. 비용 대비 성능: 예제 하나의 어텐션 FLOPs에 대한 평균 시험 점수와 95% 구간. "
        "선은 파레토 경계로, 더 좋으면서 더 싼 것은 없다. 점선은 바닥(점수들과 멀면 숫자로 표시), "
        "↓는 낮을수록 좋다는 표시이다.",
    },
    "deltas": {
        "en": "Figure 3. Differences from {baseline}, paired by seed, with 95% intervals. Triangle "
        "up: win; circle: tie; triangle down: loss; cross: not judged. The band holds differences "
        "smaller than the smallest of interest.",
        "ko": "그림 3. 기준 변형({baseline})과의 차이(같은 시드끼리)와 95% 구간. 위 세모는 우세, "
        "원은 무승부, 아래 세모는 열세, 가위표는 판정 불가이다. 띠는 관심을 둘 최소 차이보다 작은 "
        "범위이다.",
    },
    "heads": {
        "en": "Figure 4. Which head goes by which rule: ω of {variant} by layer and head at the "
        "end of training, mean over seeds. Training starts at ω = 0.1 unless the variant says "
        "otherwise.",
        "ko": "그림 4. 헤드의 역할 분담: 학습이 끝났을 때 {variant}의 층과 헤드별 ω, 시드 평균. "
        "변형이 달리 정하지 않으면 ω = 0.1에서 시작한다.",
    },
    "heads_measured": {
        "en": "Figure 4. Which head goes by which rule: ω of {variant} by layer and head, and "
        "below it how much of the head's attention lies elsewhere with the rule muted in its layer "
        "(total variation). Means over seeds, heads matched between them by their contributions.",
        "ko": "그림 4. 헤드의 역할 분담: {variant}의 층과 헤드별 ω, 그 아래는 그 층에서 규칙을 "
        "껐을 때 헤드의 어텐션이 다른 곳으로 가는 양(전변동 거리). 기여에 따라 헤드를 짝지은 "
        "뒤의 시드 평균이다.",
    },
    "roles": {
        "en": "Roles of heads: those of all layers and seeds of {variant}, clustered by their "
        "contributions. Bars: how much attention each rule moves, mean over the heads of the role; "
        "in brackets how many they are.",
        "ko": "헤드의 역할: {variant}의 모든 층과 시드의 헤드를 기여에 따라 묶었다. 막대는 그 "
        "역할의 헤드에서 각 규칙이 옮기는 어텐션의 평균, 괄호 안은 헤드 수이다.",
    },
    "grouping": {
        "en": "Groups found: NMI between the true groups of tokens and clusters of latent "
        "coordinates (z), of the neighbour graph, of the attention, and of the states that each "
        "layer reads. Mean over seeds with its 95% interval; dotted: labels shuffled.",
        "ko": "찾아낸 무리: 토큰의 실제 무리와, 잠재 좌표(z)·이웃 그래프·어텐션·층이 읽는 상태의 "
        "군집 사이의 NMI. 시드 평균과 95% 구간, 점선은 레이블을 섞은 값이다.",
    },
    "length": {
        "en": "Figure 5. Quality against length: mean test score over seeds with its 95% interval. "
        "Dotted: the floor.",
        "ko": "그림 5. 길이에 따른 성능: 시드 평균 시험 점수와 95% 구간. 점선은 바닥이다.",
    },
    "curves": {
        "en": "Learning curves: validation score, not smoothed. Thin: every seed; thick: their "
        "mean. Dotted: the floor; dashed: the goal.",
        "ko": "학습 곡선: 평활하지 않은 검증 점수. 가는 선은 시드 하나, 굵은 선은 평균이다. 점선은 "
        "바닥, 파선은 목표이다.",
    },
    "omega": {
        "en": "ω over training, {variant}. Thin: every head of every seed; thick: their mean.",
        "ko": "학습 중 ω의 변화, {variant}. 가는 선은 각 시드의 각 헤드, 굵은 선은 평균이다.",
    },
}

AXES: dict[str, tuple[str, str]] = {
    "base": ("base", "기본 점수"),
    "align": ("alignment", "정렬"),
    "sep": ("separation", "분리"),
    "coh": ("cohesion", "응집"),
    "total": ("total", "합계"),
    "weights": ("weights", "가중치"),
    "query": ("query", "쿼리"),
    "key": ("key", "키"),
    "score": ("score", "점수"),
    "flops": ("attention FLOPs an example", "예제당 어텐션 FLOPs"),
    "test": ("test {metric}", "시험 {metric}"),
    "validation": ("validation {metric}", "검증 {metric}"),
    "difference": ("{metric}, difference from {baseline}", "{metric}, {baseline} 대비 차이"),
    "own_difference": ("{metric}, difference within the pair", "{metric}, 짝 안에서의 차이"),
    "step": ("step", "스텝"),
    "layer": ("layer", "층"),
    "head": ("head", "헤드"),
    "frontier": ("frontier", "파레토 경계"),
    "floor": ("floor", "바닥"),
    "goal": ("goal", "목표"),
    "moved": ("attention moved", "어텐션 이동량"),
    "chance": ("by chance", "우연"),
    "source": ("what is clustered, layer", "군집 대상, 층"),
    "of_z": ("z", "z"),
    "of_neighbours": ("neighbours", "이웃"),
    "of_attention": ("attention", "어텐션"),
    "of_states": ("states", "상태"),
}

PAGE: dict[str, tuple[str, str]] = {
    "claim": ("The claim", "주장"),
    "no_claim": ("No suite was given, so no claim.", "묶음이 주어지지 않아 주장이 없다."),
    "verdicts": ("Against {baseline}", "{baseline} 대비"),
    "own_verdicts": ("Each against its own baseline", "각각의 기준 대비"),
    "caveats": ("What cannot be judged", "판정할 수 없는 것"),
    "tables": ("Tables", "표"),
    "figures": ("Figures", "그림"),
    "methods": ("Methods", "방법"),
    "files": ("Files", "파일"),
    "runs": ("trials done", "시행 완료"),
    "trials": ("Trials behind this number", "이 수치의 근거가 된 시행"),
    "close": ("close", "닫기"),
    "settings": ("settings", "설정"),
    "value": ("test", "시험"),
    "task": ("task", "과제"),
    "variant": ("variant", "변형"),
    "seed": ("seed", "시드"),
    "key": ("key", "키"),
    "click": ("Every number leads to its trials.", "모든 수치를 누르면 근거가 된 시행이 나온다."),
    "left_out": ("Not drawn", "그리지 않은 그림"),
    "insight": ("What the heads do", "헤드가 하는 일"),
    "beside": ("beside", "비교:"),
}

OPENINGS: dict[str, tuple[str, str]] = {
    "alone": (
        "{ruled} against {baseline} on {n} tasks: {win} won{won}, {tie} tied, {loss} lost{lost}",
        "과제 {n}개에서 {baseline} 대비 {ruled}: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "paired": (
        "With the rules against the same without them, {n} pairs: {win} won{won}, {tie} tied, "
        "{loss} lost{lost}",
        "규칙이 있는 것과 없는 것의 {n}쌍: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "all": (
        "Against {baseline}, {n} comparisons: {win} won{won}, {tie} tied, {loss} lost{lost}",
        "{baseline} 대비 비교 {n}개: 우세 {win}{won}, 무승부 {tie}, 열세 {loss}{lost}",
    ),
    "rest": (", {n} not judged", ", 판정 불가 {n}"),
    "cheap": (
        "Not inferior to {baseline} by {margin} on every task (attention FLOPs × {baseline}'s in "
        "the worst task): {good}.",
        "모든 과제에서 {baseline}보다 {margin} 넘게 나쁘지 않은 것(가장 불리한 과제의 어텐션 "
        "FLOPs, {baseline} 대비): {good}.",
    ),
    "dear": (
        "No variant is proven not to be inferior to {baseline} by {margin} on every task.",
        "모든 과제에서 {baseline}보다 {margin} 넘게 나쁘지 않음이 입증된 변형이 없다.",
    ),
    "groups": (
        "z and neighbours find true groups better than {baseline}'s states in {win} of {n} "
        "comparisons (task, source, layer), worse in {loss}, level in {tie}; seeds agree on the "
        "heads of {same} of {layers} layers.",
        "z와 이웃은 비교 {n}개(과제, 항목, 층) 중 {win}개에서 {baseline}의 상태보다 실제 무리를 더 "
        "잘 찾고, {loss}개에서 더 못 찾고, {tie}개에서 차이가 없다. 시드는 {layers}개 층 중 "
        "{same}개의 헤드에서 일치한다.",
    ),
    "tuned": (
        "Tuned on validation data, so no verdict; the best by task{best}.",
        "검증 자료로 고르는 묶음이므로 판정은 없다. 과제별로 가장 좋은 것{best}.",
    ),
    "nothing": (
        "Nothing was compared with the baseline, so there is no verdict.",
        "기준 변형과 비교한 것이 없어 판정이 없다.",
    ),
    "unfinished": (
        "{n} of {all} trials are finished, so this is no verdict yet.",
        "시행 {all}개 중 {n}개가 끝났으므로 아직 판정이 아니다.",
    ),
    "claims": (
        "Of {n} claims {supported} are supported, {not_supported} are not, {open} are open.",
        "주장 {n}개 중 지지됨 {supported}, 지지되지 않음 {not_supported}, 미정 {open}.",
    ),
}

ADVICE: dict[str, tuple[str, str]] = {
    "seen": (
        "Seen: {rule} moves more attention than the other rules, {share} on average and {most} in "
        "layer {layer}",
        "관찰: {rule} 규칙이 다른 규칙보다 어텐션을 많이 옮긴다. 평균 {share}, {layer}층에서 "
        "{most}",
    ),
    "muted": (
        "; muting a rule in the trained model changes the score by: {scores}",
        "이며, 학습된 모델에서 규칙을 끄면 점수가 변한다: {scores}",
    ),
    "look": (
        "To do: look at layer {layer} head {head} of {model}, where {rule} moves most "
        "(ascender view)",
        "할 일: {rule} 규칙이 가장 많이 옮기는 {model}의 {layer}층 {head}번 헤드를 볼 것(ascender "
        "view)",
    ),
    "quiet": (
        "; less than {share} is moved in every layer by {rules}, so see whether a model without "
        "does as well ({variants})",
        ". 모든 층에서 {share}도 옮기지 않는 규칙({rules}) 없이 학습해도 같은지 확인할 것"
        "({variants})",
    ),
    "groups": (
        "Seen: true groups of tokens are found best by {source} of layer {layer} (NMI {nmi}, by "
        "chance {chance}).",
        "관찰: 토큰의 실제 무리는 {layer}층의 {source}에서 가장 잘 찾아진다(NMI {nmi}, 우연 "
        "{chance}).",
    ),
    "nothing": (
        "Seen: {variant} has no rules, and the task knows of no groups of tokens.",
        "관찰: {variant}에는 규칙이 없고, 과제에는 토큰의 무리가 없다.",
    ),
    "no_rules": (
        "To do: compare it with a model that has rules (ascender insight MODEL --against this).",
        "할 일: 규칙이 있는 모델과 비교할 것(ascender insight MODEL --against 이 모델).",
    ),
}

REMARKS: dict[str, tuple[str, str]] = {
    "no_baseline": (
        "{task}: no finished trial of the baseline {baseline}, so nothing is compared there.",
        "{task}: 기준 변형({baseline})의 끝난 시행이 없어 비교하지 않았다.",
    ),
    "no_common": (
        "{task}, {variant}: no seed in common with {baseline}, so no difference.",
        "{task}, {variant}: 기준 변형({baseline})과 겹치는 시드가 없어 차이를 구하지 않았다.",
    ),
    "one_seed": (
        "{task}, {variant}: one seed in common with {baseline}; no interval and no test, so no "
        "verdict.",
        "{task}, {variant}: 기준 변형({baseline})과 겹치는 시드가 하나뿐이라 구간과 검정, 판정이 "
        "없다.",
    ),
    "no_spread": (
        "{task}, {variant}: the same difference at every seed; without spread there is no t test, "
        "so no verdict.",
        "{task}, {variant}: 모든 시드에서 차이가 같아 t 검정을 할 수 없으므로 판정이 없다.",
    ),
    "missing": (
        "{n} of {all} trials of the suite are not finished.",
        "묶음의 시행 {all}개 중 {n}개가 끝나지 않았다.",
    ),
    "no_suite": (
        "No suite: the usual rule (α = 0.05) and the baseline {baseline} stand in; nothing shows "
        "that they were fixed before the runs.",
        "묶음 정보가 없어 기본 규칙(α = 0.05)과 기준 변형({baseline})을 썼다. 실행 전에 "
        "정해졌다는 근거는 없다.",
    ),
    "changed": (
        "The suite given judges otherwise than the one written beside the trials when they ran: "
        "its rule was fixed after them.",
        "주어진 묶음의 판정 방식이 실행 당시 기록된 것과 다르다. 이 규칙은 실행 후에 정해졌다.",
    ),
    "few_seeds": (
        "At most {n} seeds a cell: a t interval is wide and its p coarse; read verdicts with care.",
        "칸마다 시드가 많아야 {n}개이다. t 구간이 넓고 p가 거칠므로 판정을 조심해서 읽어야 한다.",
    ),
}

WHY: dict[str, tuple[str, str]] = {
    "no_lengths": (
        "Figure 5: no task was run at more than one length (options {names}).",
        "그림 5: 둘 이상의 길이(옵션 {names})로 실행한 과제가 없다.",
    ),
    "no_rules": ("{figure}: no variant has ω.", "{figure}: ω가 있는 변형이 없다."),
    "no_judged": (
        "Figure 3: nothing was compared with the baseline.",
        "그림 3: 기준 변형과 비교한 것이 없다.",
    ),
    "no_model": (
        "Figure 1: no saved model of a variant with rules here ({error}).",
        "그림 1: 규칙이 있는 변형의 저장된 모델이 여기에 없다({error}).",
    ),
}


def langs(lang: str) -> tuple[str, ...]:
    """The languages of --lang."""
    if lang not in LANGS:
        raise ValueError(f"unknown lang {lang!r}; expected one of {', '.join(LANGS)}")
    return LANGS[:2] if lang == "both" else (lang,)


def pick(pair: tuple[str, str], lang: str, **names: object) -> str:
    """One of (English, Korean), filled in."""
    return pair[lang == "ko"].format(**names) if names else pair[lang == "ko"]
