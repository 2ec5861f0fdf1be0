"""The strings of tables: titles, notes, headings and verdicts."""

from __future__ import annotations

from ascender.report.strings import Pair

TABLE_STRINGS: dict[str, Pair] = {
    "title.tuning": ("Validation scores of the variants tried", "시도한 변형의 검증 점수"),
    "title.claims": ("Claims and verdicts", "주장과 판정"),
    "title.summary": ("With and without the rules", "규칙이 있을 때와 없을 때"),
    "title.accuracy": ("Quality by task and variant", "과제와 변형별 성능"),
    "title.examples": ("Differences resampled over test examples", "테스트 예제를 재표집한 차이"),
    "title.learning": ("Learning speed", "학습 속도"),
    "title.budget": ("At a fixed budget, and at the end", "고정된 예산에서, 그리고 끝에서"),
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
        "각 실행의 최고 검증 점수, 시드 평균 ± 표준편차. 테스트 점수는 쓰지 않는다.",
    ),
    "note.claims": (
        "Since: when the test of the claim was written down (experiments/paper.py); the suite's "
        "page says if some of its trials had run by then. Not testable: the data at this scale "
        "cannot test the claim. Trials: finished / planned, one number where all are finished. "
        "Incomplete suites get no verdict.",
        "부터: 주장의 검정을 적어 둔 날(experiments/paper.py). 그때 이미 끝난 시행이 있으면 묶음의 "
        "페이지에 적혀 있다. "
        "검정 불가: 이 규모의 자료로는 검정할 수 없다. 시행: 끝난 수 / 계획한 수이며, 모두 "
        "끝났으면 수 하나만 적는다. 끝나지 않은 묶음에는 판정이 없다.",
    ),
    "note.summary": (
        "Test scores over seeds, mean ± standard deviation. Differences are paired by seed, with "
        "95% t intervals; p: paired t test, Holm-adjusted over all comparisons of the suite. "
        "Chance: the score of the best guess that ignores the input. FLOPs: attention only, one "
        "forward pass. Times are of trials that shared a machine.",
        "시드별 테스트 점수, 평균 ± 표준편차. 차이는 같은 시드끼리 짝지었고 95% t 구간을 함께 "
        "적었다. p: 대응표본 t 검정, 묶음의 모든 비교에 대해 홀름 보정. 우연 수준: 입력을 보지 "
        "않는 최선의 추측이 얻는 점수. FLOPs: 순전파 한 번의 어텐션 연산만. 시간은 한 컴퓨터를 "
        "나눠 쓴 시행의 값이다.",
    ),
    "note.accuracy": (
        "Test scores over seeds: mean ± standard deviation and the 95% t interval of the mean, "
        "clipped to the metric's range. Differences are paired by seed; p: paired t test, "
        "Holm-adjusted over all comparisons of the suite. δ: Cliff's delta; d_z: Cohen's d of "
        "pairs. Chance: the score of the best guess that ignores the input.",
        "시드별 테스트 점수: 평균 ± 표준편차와 평균의 95% t 구간(지표의 범위를 벗어난 부분은 "
        "자름). 차이는 같은 시드끼리 짝지었다. p: 대응표본 t 검정, 묶음의 모든 비교에 대해 홀름 "
        "보정. δ: 클리프의 델타, d_z: 짝지은 코언의 d. 우연 수준: 입력을 보지 않는 최선의 추측이 "
        "얻는 점수.",
    ),
    "note.examples": (
        "Test examples resampled, scores averaged over seeds: paired bootstrap and approximate "
        "randomisation, p not adjusted. Wilcoxon: signed-rank test over seeds. Verdicts do not "
        "depend on this table.",
        "시드를 평균한 점수로 테스트 예제를 재표집했다: 짝지은 부트스트랩과 근사 무작위화이며 p는 "
        "보정하지 않았다. 윌콕슨: 시드 단위의 부호 순위 검정. 판정은 이 표에 의존하지 않는다.",
    ),
    "note.learning": (
        "Cost until the first validation that reaches the goal: Kaplan–Meier median over seeds "
        "(seeds that reached it / all seeds). “>”: fewer than half of the seeds reached it by "
        "then. FLOPs: attention only, in forward passes over the examples of training. Area: mean "
        "validation score during training.",
        "목표에 처음 도달한 검증까지의 비용: 시드에 대한 카플란–마이어 중앙값(도달한 시드 수 / "
        "전체 시드 수). “>”: 그때까지 절반 미만의 시드만 도달했다. FLOPs: 학습 예제의 순전파에서 "
        "어텐션 연산만. 면적: 학습 중 검증 점수의 평균.",
    ),
    "note.budget": (
        "Validation scores of the same runs after the budget, which the suite fixed before them, "
        "and after their last step; means over seeds, differences paired by seed and not adjusted. "
        "At the budget the learning rate has not decayed to 0: a run planned for that many steps "
        "may do better.",
        "같은 실행들의 검증 점수로, 스위트가 미리 정한 예산만큼의 스텝 뒤와 마지막 스텝 뒤의 "
        "값이다. 시드 평균이며, 차이는 시드로 짝지었고 보정하지 않았다. 예산에서는 학습률이 아직 "
        "0까지 줄지 않았으므로, 그만큼의 스텝으로 계획한 실행은 더 나을 수 있다.",
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
    "note.costs_on": ("Measured on {device}.", "{device}에서 측정했다."),
    "note.further": (
        "Test scores by level of difficulty, and metrics other than the main one. Chance is that "
        "of the whole task.",
        "난이도별 테스트 점수와 주 지표 외의 지표. 우연 수준은 과제 전체의 값이다.",
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
        "옮겨 가는 양(전변동 거리). 끔: 학습된 모델에서 규칙을 껐을 때 같은 테스트 예제의 점수에서 "
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
        "예제마다 토큰의 군집을 실제 무리와 비교한 값의 테스트 예제 평균이며(군집 수는 무리 수), "
        "시드에 대한 평균 ± 표준편차와 95% t 구간이다. z: 잠재 좌표의 k-평균. 이웃: 이웃 그래프의 "
        "스펙트럼 군집. 어텐션: 가중치의 스펙트럼 군집. 상태: 층의 입력에 대한 k-평균이며 가장 큰 "
        "번호는 모델의 출력이다. 우연: 레이블을 섞은 값. NMI의 차이는 같은 시드끼리 {baseline}의 "
        "같은 항목과, z와 이웃은 그 상태와 비교했다. p: 대응표본 t 검정, 이 표에 대해 홀름 보정.",
    ),
    "column.paper_claim": ("claim", "주장"),
    "column.suite": ("suite", "묶음"),
    "column.since": ("since", "부터"),
    "column.trials": ("trials", "시행"),
    "column.ground": ("result", "결과"),
    "column.validation": ("validation, mean ± sd", "검증, 평균 ± 표준편차"),
    "column.base_test": ("{baseline}, mean ± sd", "{baseline}, 평균 ± 표준편차"),
    "column.ruled_test": ("with the rules", "규칙 있음"),
    "column.task": ("task", "과제"),
    "column.variant": ("variant", "변형"),
    "column.metric": ("metric", "지표"),
    "column.test": ("test, mean ± sd", "테스트, 평균 ± 표준편차"),
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
    "column.flops_to_goal": ("attention FLOPs to goal", "목표까지 어텐션 FLOPs"),
    "column.budget": ("budget, steps", "예산(스텝)"),
    "column.at_budget": ("at the budget", "예산에서"),
    "column.at_budget_difference": ("− {baseline} [95%]", "− {baseline} [95%]"),
    "column.at_end": ("at the end", "끝에서"),
    "column.at_end_difference": ("− {baseline} at the end [95%]", "끝에서 − {baseline} [95%]"),
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
}
