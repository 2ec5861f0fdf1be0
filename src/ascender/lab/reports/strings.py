"""The strings of lab and insight reports, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Pair, Strings

TEXTS: dict[str, Pair] = {
    "title.tuning": ("Validation scores of the variants tried", "시도한 변형의 검증 점수"),
    "title.claims": ("Claims and verdicts", "주장과 판정"),
    "title.summary": ("With and without the rules", "규칙이 있을 때와 없을 때"),
    "title.accuracy": ("Quality by task and variant", "과제와 변형별 성능"),
    "title.examples": ("Differences resampled over test examples", "시험 예제를 재표집한 차이"),
    "title.learning": ("Learning speed", "학습 속도"),
    "title.efficiency": ("Costs", "비용"),
    "title.inferiority": ("Non-inferiority to the baseline", "기준 변형에 대한 비열등성"),
    "title.costs": ("Cost of one layer by length, measured", "길이별 층 하나의 비용(측정값)"),
    "title.further": ("Scores by difficulty, and further metrics", "난이도별 점수와 그 밖의 지표"),
    "title.contribution": ("Contribution of each rule", "규칙별 기여"),
    "title.roles": ("Roles of heads", "헤드의 역할"),
    "title.agreement": (
        "Agreement between seeds on the roles of heads",
        "헤드 역할의 시드 간 일치도",
    ),
    "title.grouping": (
        "Recovery of true token groups (NMI, ARI)",
        "토큰의 실제 무리 복원 (NMI, ARI)",
    ),
    "note.tuning": (
        "Best validation score of each run, mean ± standard deviation over seeds. Test scores are "
        "not used.",
        "각 실행의 최고 검증 점수, 시드 평균 ± 표준편차. 시험 점수는 쓰지 않는다.",
    ),
    "note.claims": (
        "The test of each claim was fixed before the runs (experiments/paper.py); claims.json "
        "records when. Not testable: the data at this scale cannot test the claim. Trials: "
        "finished / planned, one number where all are finished. Incomplete suites get no verdict.",
        "각 주장의 검정은 실행 전에 정했고(experiments/paper.py), 그 시각은 claims.json에 있다. "
        "검정 불가: 이 규모의 자료로는 검정할 수 없다. 시행: 끝난 수 / 계획한 수이며, 모두 "
        "끝났으면 수 하나만 적는다. 끝나지 않은 묶음에는 판정이 없다.",
    ),
    "note.summary": (
        "Test scores over seeds, mean ± standard deviation. Differences are paired by seed, with "
        "95% t intervals; p: paired t test, Holm-adjusted over all comparisons of the suite. "
        "Chance: the score of the best guess that ignores the input. FLOPs: attention only, one "
        "forward pass. Times are of trials that shared a machine.",
        "시드별 시험 점수, 평균 ± 표준편차. 차이는 같은 시드끼리 짝지었고 95% t 구간을 함께 "
        "적었다. p: 대응표본 t 검정, 묶음의 모든 비교에 대해 홀름 보정. 우연 수준: 입력을 보지 "
        "않는 최선의 추측이 얻는 점수. FLOPs: 순전파 한 번의 어텐션 연산만. 시간은 한 컴퓨터를 "
        "나눠 쓴 시행의 값이다.",
    ),
    "note.accuracy": (
        "Test scores over seeds: mean ± standard deviation and the 95% t interval of the mean, "
        "clipped to the metric's range. Differences are paired by seed; p: paired t test, "
        "Holm-adjusted over all comparisons of the suite. δ: Cliff's delta; d_z: Cohen's d of "
        "pairs. Chance: the score of the best guess that ignores the input.",
        "시드별 시험 점수: 평균 ± 표준편차와 평균의 95% t 구간(지표의 범위를 벗어난 부분은 자름). "
        "차이는 같은 시드끼리 짝지었다. p: 대응표본 t 검정, 묶음의 모든 비교에 대해 홀름 보정. δ: "
        "클리프의 델타, d_z: 짝지은 코언의 d. 우연 수준: 입력을 보지 않는 최선의 추측이 얻는 점수.",
    ),
    "note.examples": (
        "Test examples resampled, scores averaged over seeds: paired bootstrap and approximate "
        "randomisation, p not adjusted. Wilcoxon: signed-rank test over seeds. Verdicts do not "
        "depend on this table.",
        "시드를 평균한 점수로 시험 예제를 재표집했다: 짝지은 부트스트랩과 근사 무작위화이며 p는 "
        "보정하지 않았다. 윌콕슨: 시드 단위의 부호 순위 검정. 판정은 이 표에 의존하지 않는다.",
    ),
    "note.learning": (
        "Cost until the first validation that reaches the goal: Kaplan–Meier median over seeds "
        "(seeds that reached it / all seeds). “>”: fewer than half of the seeds reached it by "
        "then. Area: mean validation score during training.",
        "목표에 처음 도달한 검증까지의 비용: 시드에 대한 카플란–마이어 중앙값(도달한 시드 수 / "
        "전체 시드 수). “>”: 그때까지 절반 미만의 시드만 도달했다. 면적: 학습 중 검증 점수의 평균.",
    ),
    "note.efficiency": (
        "Means over seeds; in brackets the ratio to the baseline. FLOPs: attention only, one "
        "forward pass over one example. Memory: peak of the training process. Tokens per second "
        "and seconds are of trials that shared a machine, so they are only indicative.",
        "시드 평균이며 괄호 안은 기준 변형에 대한 비율이다. FLOPs: 예제 하나의 순전파에서 어텐션 "
        "연산만. 메모리: 학습 프로세스의 최댓값. 초당 토큰 수와 시간은 한 컴퓨터를 나눠 쓴 시행의 "
        "값이므로 참고용이다.",
    ),
    "note.inferiority": (
        "Not inferior: the whole 95% interval of the paired difference lies above −margin (for an "
        "error: below +margin). Inferior: the whole interval lies beyond the margin. Unproven: "
        "neither. FLOPs: attention only, as a multiple of the baseline's.",
        "비열등: 짝지은 차이의 95% 구간 전체가 −허용 한계보다 위에 있다(오차 지표이면 +허용 "
        "한계보다 아래). 열등: 구간 전체가 한계 밖에 있다. 미입증: 둘 다 아니다. FLOPs: 어텐션 "
        "연산만, 기준 변형에 대한 배수.",
    ),
    "note.costs": (
        "One attention layer with its projections on random tokens, one thread; in brackets the "
        "ratio to the first variant. FLOPs: counted on the operators of a forward pass. Latency: "
        "the fastest forward pass. Tokens per second: forward and backward. Memory: peak of a "
        "training pass in a separate process. Variants were timed in turns at each length.",
        "무작위 토큰에 대한 어텐션 층 하나(사영 포함), 스레드 하나이며 괄호 안은 첫 변형에 대한 "
        "비율이다. FLOPs: 순전파의 실제 연산에서 센 값. 지연 시간: 가장 빠른 순전파. 초당 토큰 수: "
        "순전파와 역전파. 메모리: 별도 프로세스에서 잰 학습 1회의 최댓값. 변형들은 같은 길이에서 "
        "번갈아 측정했다.",
    ),
    "note.further": (
        "Test scores by level of difficulty, and metrics other than the main one. Chance is that "
        "of the whole task.",
        "난이도별 시험 점수와 주 지표 외의 지표. 우연 수준은 과제 전체의 값이다.",
    ),
    "note.contribution": (
        "Means over heads; mean ± standard deviation over seeds. Share: the fraction of the "
        "variance of a head's scores within a row that a term accounts for, Cov(term, sum) / "
        "Var(sum); the shares of base, rules and position sum to 1, and a negative share opposes "
        "the others. Moved: how much of a row's attention moves (total variation) when the rule is "
        "muted, in this layer only or in the whole model. Muted: the score on the same test "
        "examples with the rule muted in the trained model, minus the unchanged model's score.",
        "헤드 평균의 시드별 평균 ± 표준편차. 몫: 한 행 안에서 헤드 점수의 분산 중 그 항이 차지하는 "
        "비율 Cov(항, 합) / Var(합). 기본 점수, 규칙, 위치의 몫을 더하면 1이고, 음수이면 나머지와 "
        "반대로 작용한다. 이동량: 규칙을 그 층에서만, 또는 모델 전체에서 껐을 때 한 행의 어텐션이 "
        "옮겨 가는 양(전변동 거리). 끔: 학습된 모델에서 규칙을 껐을 때 같은 시험 예제의 점수에서 "
        "원래 모델의 점수를 뺀 값.",
    ),
    "note.roles": (
        "Heads of all layers and seeds, clustered by k-means on their contributions (shares and "
        "attention moved). The number of roles is the one with the largest silhouette; if none "
        "reaches 0.25, there is one role. A role is named after the rules that move at least 5% of "
        "its attention.",
        "모든 층과 시드의 헤드를 기여(몫과 이동량)에 대해 k-평균으로 묶었다. 역할의 수는 실루엣이 "
        "가장 큰 것이며, 0.25에 이르는 것이 없으면 하나이다. 역할의 이름은 어텐션의 5% 이상을 "
        "옮기는 규칙이다.",
    ),
    "note.agreement": (
        "For every two seeds the heads of a layer are matched by the Hungarian algorithm on their "
        "contributions; r: correlation of the matched heads after subtracting the layer's mean. By "
        "chance: the same after assigning the heads of all seeds to seeds at random; p: the "
        "fraction of 1,000 such assignments with an r at least as large. Row “all”: the same for "
        "layer means, with heads assigned at random to the layers of their seed.",
        "두 시드마다 한 층의 헤드를 기여에 대해 헝가리안 알고리즘으로 짝지었다. r: 층 평균을 뺀 뒤 "
        "짝지은 헤드의 상관. 우연: 모든 시드의 헤드를 시드에 무작위로 다시 배정한 값. p: 그런 배정 "
        "1,000번 중 r이 그 이상인 비율. all 행: 층 평균에 대한 값으로, 헤드를 자기 시드의 층에 "
        "무작위로 배정했다.",
    ),
    "note.grouping": (
        "Clusters compared with the true groups of an example's tokens, mean over test examples "
        "(as many clusters as groups); mean ± standard deviation and 95% t interval over seeds. z: "
        "k-means on latent coordinates; neighbours: spectral clustering of the neighbour graph; "
        "attention: spectral clustering of the weights; states: k-means on the inputs of the "
        "layer, where the highest number is the model's output. By chance: labels shuffled. "
        "Differences of NMI are paired by seed, to the same source of {baseline}, for z and "
        "neighbours to its states; p: paired t test, Holm-adjusted over this table.",
        "예제마다 토큰의 군집을 실제 무리와 비교한 값의 시험 예제 평균이며(군집 수는 무리 수), "
        "시드에 대한 평균 ± 표준편차와 95% t 구간이다. z: 잠재 좌표의 k-평균. 이웃: 이웃 그래프의 "
        "스펙트럼 군집. 어텐션: 가중치의 스펙트럼 군집. 상태: 층의 입력에 대한 k-평균이며 가장 큰 "
        "번호는 모델의 출력이다. 우연: 레이블을 섞은 값. NMI의 차이는 같은 시드끼리 {baseline}의 "
        "같은 항목과, z와 이웃은 그 상태와 비교했다. p: 대응표본 t 검정, 이 표에 대해 홀름 보정.",
    ),
    "column.paper_claim": ("claim", "주장"),
    "column.suite": ("suite", "묶음"),
    "column.trials": ("trials", "시행"),
    "column.ground": ("result", "결과"),
    "column.validation": ("validation, mean ± sd", "검증, 평균 ± 표준편차"),
    "column.base_test": ("{baseline}, mean ± sd", "{baseline}, 평균 ± 표준편차"),
    "column.ruled_test": ("with the rules", "규칙 있음"),
    "column.task": ("task", "과제"),
    "column.variant": ("variant", "변형"),
    "column.metric": ("metric", "지표"),
    "column.test": ("test, mean ± sd", "시험, 평균 ± 표준편차"),
    "column.n": ("n", "n"),
    "column.interval": ("95% interval", "95% 구간"),
    "column.chance": ("chance", "우연 수준"),
    "column.difference": ("− {baseline} [95%]", "− {baseline} [95%]"),
    "column.against": ("against", "비교 대상"),
    "column.own_difference": ("difference [95%]", "차이 [95%]"),
    "column.p": ("p (Holm)", "p (홀름)"),
    "column.delta": ("Cliff's δ", "클리프 δ"),
    "column.d": ("d_z", "d_z"),
    "column.verdict": ("verdict", "판정"),
    "column.bootstrap": ("over examples [95%]", "예제 단위 차이 [95%]"),
    "column.bootstrap_p": ("p (bootstrap)", "p (부트스트랩)"),
    "column.randomised_p": ("p (randomisation)", "p (무작위화)"),
    "column.wilcoxon_p": ("p (Wilcoxon)", "p (윌콕슨)"),
    "column.examples": ("examples", "예제 수"),
    "column.goal": ("goal", "목표"),
    "column.steps": ("steps to goal", "목표까지 스텝"),
    "column.tokens": ("tokens to goal", "목표까지 토큰"),
    "column.seconds": ("seconds to goal", "목표까지 초"),
    "column.area": ("area under curve", "곡선 아래 면적"),
    "column.area_difference": ("area − {baseline} [95%]", "면적 − {baseline} [95%]"),
    "column.flops": ("attention FLOPs per example", "예제당 어텐션 FLOPs"),
    "column.memory": ("peak memory, MB", "최대 메모리, MB"),
    "column.throughput": ("tokens per second", "초당 토큰 수"),
    "column.time": ("training, s", "학습 시간, 초"),
    "column.parameters": ("parameters", "매개변수"),
    "column.margin": ("margin", "허용 한계"),
    "column.flops_ratio": ("FLOPs, × {baseline}", "FLOPs, {baseline} 대비"),
    "column.time_ratio": ("training time, × {baseline}", "학습 시간, {baseline} 대비"),
    "column.length": ("tokens", "토큰 수"),
    "column.layer_flops": ("FLOPs, forward", "FLOPs(순전파)"),
    "column.latency": ("latency, ms", "지연 시간, ms"),
    "column.training_speed": ("tokens per second, training", "초당 토큰 수(학습)"),
    "column.training_memory": ("peak memory, MB", "최대 메모리, MB"),
    "column.of": ("of", "항목"),
    "column.layer": ("layer", "층"),
    "column.omega": ("ω", "ω"),
    "column.share": ("share of variance", "분산의 몫"),
    "column.moved": ("attention moved", "어텐션 이동량"),
    "column.whole": ("moved, whole model", "이동량, 모델 전체"),
    "column.muted": ("score change, muted", "껐을 때 점수 변화"),
    "column.role": ("role", "역할"),
    "column.heads": ("heads", "헤드 수"),
    "column.by_layer": ("by layer", "층별"),
    "column.share_base": ("share: base", "몫: 기본"),
    "column.share_align": ("alignment", "정렬"),
    "column.share_sep": ("separation", "분리"),
    "column.share_coh": ("cohesion", "응집"),
    "column.share_aff": ("affinity", "친화도"),
    "column.share_other": ("position", "위치"),
    "column.moved_align": ("moved: alignment", "이동량: 정렬"),
    "column.moved_sep": ("separation", "분리"),
    "column.moved_coh": ("cohesion", "응집"),
    "column.moved_aff": ("affinity", "친화도"),
    "column.pairs": ("pairs", "시드 쌍"),
    "column.agreement": ("r", "r"),
    "column.null": ("by chance", "우연"),
    "column.p_null": ("p", "p"),
    "column.nmi": ("NMI", "NMI"),
    "column.ari": ("ARI", "ARI"),
    "column.chance_nmi": ("NMI by chance", "우연 NMI"),
    "column.chance_ari": ("ARI by chance", "우연 ARI"),
    "verdict.win": ("win", "우세"),
    "verdict.tie": ("tie", "무승부"),
    "verdict.loss": ("loss", "열세"),
    "verdict.unjudged": ("not judged", "판정 불가"),
    "verdict.baseline": ("baseline", "기준"),
    "verdict.not_inferior": ("not inferior", "비열등"),
    "verdict.unproven": ("unproven", "미입증"),
    "verdict.inferior": ("inferior", "열등"),
    "verdict.supported": ("supported", "지지됨"),
    "verdict.not_supported": ("not supported", "지지되지 않음"),
    "verdict.unfinished": ("runs not finished", "실행 미완료"),
    "verdict.not_run": ("not run yet", "아직 실행하지 않음"),
    "verdict.not_testable": ("not testable at this scale", "이 규모에서 검정 불가"),
    "caption.maps": (
        "Figure 1. The terms of one attention: {variant} on {task}, first test example, seed "
        "{seed}, layer {layer}, head {head} (where the rules change the scores most). The total is "
        "the sum of the terms, plus the position's bias if there is one, divided by the head's "
        "temperature; terms and total share one scale. The weights are the softmax of the total.",
        "그림 1. 어텐션 하나의 항: {task} 과제의 첫 시험 예제, {variant}, 시드 {seed}, {layer}층 "
        "{head}번 헤드(규칙이 점수를 가장 많이 바꾸는 곳). 합계는 각 항(위치 편향이 있으면 그것도 "
        "포함)을 더해 헤드의 온도로 나눈 값이며, 각 항과 같은 눈금을 쓴다. 가중치는 합계의 "
        "소프트맥스이다.",
    ),
    "caption.pareto": (
        "Figure 2. Quality against cost: mean test score with its 95% interval against the "
        "attention FLOPs of one example. Line: the Pareto frontier. Dotted: chance (a number where "
        "it is far from all scores). ↓: lower is better.",
        "그림 2. 비용 대비 성능: 예제 하나의 어텐션 FLOPs에 대한 평균 시험 점수와 95% 구간. 선: "
        "파레토 경계. 점선: 우연 수준(점수들과 멀면 숫자로 표시). ↓: 낮을수록 좋다.",
    ),
    "caption.deltas": (
        "Figure 3. Differences from {baseline}, paired by seed, with 95% intervals. Triangle up: "
        "win; circle: tie; triangle down: loss; cross: not judged. Band: differences below the "
        "smallest difference of interest.",
        "그림 3. {baseline}과의 차이(같은 시드끼리)와 95% 구간. 위 세모: 우세, 원: 무승부, 아래 "
        "세모: 열세, 가위표: 판정 불가. 띠: 관심을 둘 최소 차이보다 작은 차이.",
    ),
    "caption.heads": (
        "Figure 4. Rule weights by head: ω of {variant} by layer and head at the end of training, "
        "mean over seeds. Training starts at ω = 0.1 unless the variant sets another value.",
        "그림 4. 헤드별 규칙 가중치: 학습이 끝났을 때 {variant}의 층과 헤드별 ω, 시드 평균. 변형이 "
        "달리 정하지 않으면 ω = 0.1에서 시작한다.",
    ),
    "caption.heads_measured": (
        "Figure 4. Rules by head: ω of {variant} by layer and head, and below it how much of the "
        "head's attention moves when the rule is muted in its layer (total variation). Means over "
        "seeds, with heads matched between seeds by their contributions.",
        "그림 4. 헤드별 규칙: {variant}의 층과 헤드별 ω, 그 아래는 그 층에서 규칙을 껐을 때 헤드의 "
        "어텐션이 옮겨 가는 양(전변동 거리). 기여에 따라 헤드를 짝지은 시드 평균이다.",
    ),
    "caption.roles": (
        "Roles of heads: heads of all layers and seeds of {variant}, clustered by their "
        "contributions. Bars: attention moved by each rule, mean over the heads of the role. In "
        "brackets: number of heads.",
        "헤드의 역할: {variant}의 모든 층과 시드의 헤드를 기여에 따라 묶었다. 막대: 각 규칙이 "
        "옮기는 어텐션, 그 역할의 헤드 평균. 괄호 안: 헤드 수.",
    ),
    "caption.grouping": (
        "Recovery of groups: NMI between the true groups of tokens and clusters of latent "
        "coordinates (z), of the neighbour graph, of the attention, and of the inputs of each "
        "layer. Mean over seeds with its 95% interval. Dotted: labels shuffled.",
        "무리의 복원: 토큰의 실제 무리와, 잠재 좌표(z)·이웃 그래프·어텐션·층 입력의 군집 사이의 "
        "NMI. 시드 평균과 95% 구간. 점선: 레이블을 섞은 값.",
    ),
    "caption.length": (
        "Figure 5. Quality against length: mean test score over seeds with its 95% interval. "
        "Dotted: chance.",
        "그림 5. 길이에 따른 성능: 시드 평균 시험 점수와 95% 구간. 점선: 우연 수준.",
    ),
    "caption.curves": (
        "Learning curves: validation score, not smoothed. Thin: each seed; thick: their mean. "
        "Dotted: chance; dashed: the goal.",
        "학습 곡선: 평활하지 않은 검증 점수. 가는 선: 시드 하나, 굵은 선: 평균. 점선: 우연 수준, "
        "파선: 목표.",
    ),
    "caption.omega": (
        "ω during training, {variant}. Thin: each head of each seed; thick: their mean.",
        "학습 중 ω의 변화, {variant}. 가는 선: 각 시드의 각 헤드, 굵은 선: 평균.",
    ),
    "axis.base": ("base", "기본 점수"),
    "axis.align": ("alignment", "정렬"),
    "axis.sep": ("separation", "분리"),
    "axis.coh": ("cohesion", "응집"),
    "axis.aff": ("affinity", "친화도"),
    "axis.total": ("total", "합계"),
    "axis.weights": ("weights", "가중치"),
    "axis.query": ("query", "쿼리"),
    "axis.key": ("key", "키"),
    "axis.score": ("score", "점수"),
    "axis.flops": ("attention FLOPs per example", "예제당 어텐션 FLOPs"),
    "axis.test": ("test {metric}", "시험 {metric}"),
    "axis.validation": ("validation {metric}", "검증 {metric}"),
    "axis.difference": ("{metric}, difference from {baseline}", "{metric}, {baseline} 대비 차이"),
    "axis.own_difference": ("{metric}, difference within the pair", "{metric}, 짝 안에서의 차이"),
    "axis.step": ("step", "스텝"),
    "axis.layer": ("layer", "층"),
    "axis.head": ("head", "헤드"),
    "axis.frontier": ("frontier", "파레토 경계"),
    "axis.level": ("chance", "우연 수준"),
    "axis.goal": ("goal", "목표"),
    "axis.moved": ("attention moved", "어텐션 이동량"),
    "axis.chance": ("by chance", "우연"),
    "axis.source": ("what is clustered, layer", "군집 대상, 층"),
    "axis.of_z": ("z", "z"),
    "axis.of_neighbours": ("neighbours", "이웃"),
    "axis.of_attention": ("attention", "어텐션"),
    "axis.of_states": ("states", "상태"),
    "left_out.no_lengths": (
        "Figure 5: no task was run at more than one length (options {names}).",
        "그림 5: 둘 이상의 길이(옵션 {names})로 실행한 과제가 없다.",
    ),
    "left_out.no_heads": ("Figure 4: no variant has ω.", "그림 4: ω가 있는 변형이 없다."),
    "left_out.no_omega": (
        "ω during training: no variant has ω.",
        "학습 중 ω: ω가 있는 변형이 없다.",
    ),
    "left_out.no_judged": (
        "Figure 3: nothing was compared with the baseline.",
        "그림 3: 기준 변형과 비교한 것이 없다.",
    ),
    "left_out.no_model": (
        "Figure 1: no saved model of a variant with rules was found ({error}).",
        "그림 1: 규칙이 있는 변형의 저장된 모델을 찾지 못했다({error}).",
    ),
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
    "page.value": ("test", "시험"),
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
        "시험 예제에 대한 짝지은 부트스트랩과 근사 무작위화, 각 {draws}회.",
    ),
    "methods.effects": (
        "Cliff's δ and Cohen's d of pairs (d_z): {effects}",
        "클리프의 델타와 짝지은 코언의 d: {effects}",
    ),
    "methods.own_tokens": ("the task's own", "과제 기본값"),
    "methods.tokens": ("{task}: tokenisation {how}", "{task}: 토큰화는 {how}"),
    "methods.test": ("{n} test examples", "시험 예제 {n}개"),
    "methods.read": ("up to {n} tokens in training", "학습 토큰 최대 {n}"),
    "methods.steps": ("Steps taken: {n}", "실제 스텝 수: {n}"),
    "methods.validation": (
        "Validation every {every} steps; the weights with the best validation score are tested. "
        "Nothing is chosen on test examples.",
        "{every} 스텝마다 검증하고, 검증 점수가 가장 좋은 가중치를 시험에 쓴다. 시험 예제로는 "
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

STRINGS = Strings(TEXTS)
