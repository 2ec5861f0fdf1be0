"""The strings of the main body of the paper: sections, the draft's tables, figures, in English and
Korean."""

from __future__ import annotations

from ascender.report.strings import Strings

BODY = Strings({
    "title": (
        "ASCender: attention with alignment, separation and cohesion",
        "ASCender: 정렬, 분리, 응집이 있는 어텐션",
    ),
    # --- sections
    "introduction": ("Introduction", "서론"),
    "introduction.idea": (
        "Attention [@vaswani2017] weighs every key by its similarity to a query and nothing else. "
        "Boids [@reynolds1987] gives every bird of a flock three local rules: keep a distance from "
        "close flockmates (separation), turn to their mean heading (alignment), move towards their "
        "mean position (cohesion). ASCender writes the three rules as additive terms of the "
        "attention score, with learned weights and gates, so that a score splits into named parts.",
        "어텐션 [@vaswani2017]은 모든 키에 쿼리와의 유사도만으로 가중치를 준다. 보이드 "
        "[@reynolds1987]는 무리의 새마다 세 가지 지역 규칙을 둔다. 가까운 새와 거리를 두고(분리), "
        "이웃의 평균 방향으로 향하고(정렬), 이웃의 평균 위치로 간다(응집). ASCender는 이 세 규칙을 "
        "가중치와 게이트를 학습하는 어텐션 점수의 항으로 쓰므로, 점수가 이름 있는 부분으로 나뉜다.",
    ),
    "introduction.this": (
        "This document is written from {trials} stored training runs by `ascender paper`. Every "
        "number in it is one of theirs, of their settings or of the decision rules; `numbers.csv` "
        "lists each with the runs behind it. A sentence is printed as a finding only where a claim "
        "that was stated with its test holds (Section [#sec:claims]).",
        "이 문서는 저장된 학습 {trials}번에서 `ascender paper`가 만들었다. 모든 수는 그 실행, "
        "설정, 판정 기준의 값이며, 수마다 그 뒤의 실행을 `numbers.csv`에 적었다. 검정과 함께 "
        "적어 둔 주장이 성립할 때에만 결과로 쓴다([#sec:claims]절).",
    ),
    "method": ("Method", "방법"),
    "method.score": (
        "Per head, with query $q_i$, key $k_j$, latent coordinates $z$ and semantic projections "
        "$h$ of the tokens, the score of key $j$ for query $i$ and the weights over the visible "
        "keys $V(i)$ are",
        "헤드마다 토큰의 쿼리 $q_i$, 키 $k_j$, 잠재 좌표 $z$, 의미 사영 $h$가 있을 때, 쿼리 "
        "$i$에 대한 키 $j$의 점수와 보이는 키 $V(i)$에 대한 가중치는 다음과 같다.",
    ),
    "method.symbols": (
        "Here $\\tilde r$ is $r$ standardised over the row, $\\omega$ is learned by head, the "
        "gates $\\gamma_i$, $\\eta_i$ depend on the neighbourhood, $\\lambda$ follows the "
        "schedule, $\\beta$ is any other bias such as a position's, and $\\tau$ is a temperature. "
        "With every $\\omega$ at zero this is plain attention. $N_k(i)$ are the $k$ tokens most "
        "similar to $i$ by $a_{{ij}} = \\cos(h_i, h_j)$; $w_{{ij}} = \\exp(-\\|z_i - z_j\\|^2 / "
        "\\tau_w^2)$ is a kernel with a width of its own in each rule.",
        "여기서 $\\tilde r$는 행에서 표준화한 $r$이고, $\\omega$는 헤드마다 학습하며, 게이트 "
        "$\\gamma_i$, $\\eta_i$는 이웃에 따라 달라지고, $\\lambda$는 일정을 따르며, $\\beta$는 "
        "위치 편향과 같은 다른 항, $\\tau$는 온도이다. $\\omega$가 모두 영이면 보통의 "
        "어텐션이다. $N_k(i)$는 $a_{{ij}} = \\cos(h_i, h_j)$가 가장 큰 $k$개 토큰이고, "
        "$w_{{ij}} = \\exp(-\\|z_i - z_j\\|^2 / \\tau_w^2)$는 규칙마다 너비가 다른 커널이다.",
    ),
    "method.align": (
        "**Alignment**, $r_{{ij}} = \\hat k_j \\cdot u_i$: attend to keys that point where the "
        "neighbours point; $u_i$ is the direction of $\\sum_{{l \\in N_k(i)}} \\hat k_l$, "
        "$\\hat k = k / \\|k\\|$.",
        "**정렬**, $r_{{ij}} = \\hat k_j \\cdot u_i$: 이웃이 향하는 방향의 키를 본다. $u_i$는 "
        "$\\sum_{{l \\in N_k(i)}} \\hat k_l$의 방향이고 $\\hat k = k / \\|k\\|$이다.",
    ),
    "method.sep": (
        "**Separation**, $r_{{ij}} = -w_{{ij}} \\max(0, a_{{ij}} - \\delta)$ for $j \\in N_k(i)$: "
        "attend less to near duplicates; its gate $\\eta_i$ is the density around $i$.",
        "**분리**, $j \\in N_k(i)$에 대해 $r_{{ij}} = -w_{{ij}} \\max(0, a_{{ij}} - \\delta)$: "
        "거의 같은 것을 덜 본다. 게이트 $\\eta_i$는 $i$ 주위의 밀도이다.",
    ),
    "method.coh": (
        "**Cohesion**, $r_{{ij}} = -\\|z_j - c_i\\|^2 / \\tau_c$: attend to keys near the local "
        "centre $c_i$, the mean of $z$ with weights $w_{{i\\cdot}}$.",
        "**응집**, $r_{{ij}} = -\\|z_j - c_i\\|^2 / \\tau_c$: 지역 중심 $c_i$에 가까운 키를 본다. "
        "$c_i$는 가중치 $w_{{i\\cdot}}$로 구한 $z$의 평균이다.",
    ),
    "method.more": (
        "Fast backends compute the same scores without the matrix, on fused kernels [@dao2022] "
        "where they can; sliding windows are those of [@beltagy2020]. Appendix [#app:procedures] "
        "has every step with its place in the code, Appendix [#app:settings] every setting.",
        "빠른 백엔드는 같은 점수를 행렬 없이, 가능하면 융합 커널 [@dao2022]로 계산한다. 미끄럼 "
        "윈도우는 [@beltagy2020]의 것이다. 각 단계와 코드의 위치는 부록 [#app:procedures], 모든 "
        "설정은 부록 [#app:settings]에 있다.",
    ),
    "setup": ("Experiments", "실험"),
    "setup.runs": (
        "A suite states a claim, its training runs (a task, a variant of attention, a seed) and "
        "its decision rule. {suites} suites have {trials} finished runs on {tasks} tasks: "
        "{names}. Models of {layers} layers, width {hidden} and {parameters} parameters were "
        "trained for {steps} steps, with {seeds} seeds a condition.",
        "묶음은 주장 하나, 학습 실행(과제, 어텐션의 변형, 시드), 판정 기준을 적어 둔 것이다. "
        "묶음 {suites}개에 과제 {tasks}개({names})의 끝난 실행 {trials}개가 있다. {layers}층, 너비 "
        "{hidden}, 매개변수 {parameters}개의 모델을 {steps}스텝 학습했으며 시드는 조건마다 "
        "{seeds}개이다.",
    ),
    "setup.judged": (
        "The same seed draws the same batches for every variant, so differences are paired by "
        "seed. A difference is a win or a loss where Holm's adjusted $p$ is below the suite's "
        "level and the difference reaches the smallest one of interest; anything else is a tie, "
        "which does not show that two variants are equal. Section [#sec:checklist] has the "
        "statistics.",
        "같은 시드는 모든 변형에 같은 배치를 주므로 차이는 시드끼리 짝지었다. 홀름 보정한 $p$가 "
        "묶음의 수준보다 작고 차이가 관심을 둘 최소 차이에 이르면 우세나 열세이고, 나머지는 "
        "무승부이다. 무승부는 두 변형이 같다는 증명이 아니다. 통계는 [#sec:checklist]절에 있다.",
    ),
    "results": ("Results", "결과"),
    "claims": ("Claims", "주장"),
    "claims.said": (
        "Table [#tab:paper_claims] has every claim with its verdict. {supported} of {n} are "
        "supported, {not_supported} are not, {open} are open.",
        "주장과 판정은 표 [#tab:paper_claims]에 있다. 주장 {n}개 중 {supported}개는 지지되고, "
        "{not_supported}개는 지지되지 않으며, {open}개는 정해지지 않았다.",
    ),
    "claims.none": (
        "No claim was stated with these trials.",
        "이 시행들에는 적어 둔 주장이 없다.",
    ),
    "efficiency": ("Efficiency", "효율"),
    "efficiency.said": (
        "Rows are named as in the draft: Transformer (base) is the baseline of a suite, ASCender "
        "(ours) is attention with the three rules over everything visible, ASC + Sparse/Flash is "
        "the same in a window, in flock scope, with a sparse normaliser or on the flash kernel.",
        "행의 이름은 초안과 같다. Transformer (기준)은 묶음의 기준 변형, ASCender (제안)은 보이는 "
        "모든 것에 대해 세 규칙을 쓴 어텐션, ASC + Sparse/Flash는 같은 것을 윈도우나 무리 "
        "범위에서, 희소 정규화로, 또는 플래시 커널로 쓴 것이다.",
    ),
    "efficiency.no_layers": (
        "No suite measured a layer at length: there is no table of latency by length.",
        "길이별로 층을 잰 묶음이 없어 길이별 지연 시간의 표가 없다.",
    ),
    "quality": ("Quality by benchmark", "벤치마크별 성능"),
    "quality.said": (
        "Table [#tab:draft_quality] has the test score of base and ours on every benchmark, and "
        "whether the difference counts by the rule of its suite.",
        "표 [#tab:draft_quality]에 벤치마크마다 기준과 제안의 테스트 점수, 그리고 그 차이가 묶음의 "
        "기준에 따라 차이인지를 적었다.",
    ),
    "quality.none": (
        "No suite has both the baseline and the variant ascender on a task: there is no table of "
        "quality.",
        "한 과제에 기준 변형과 ascender가 모두 있는 묶음이 없어 성능의 표가 없다.",
    ),
    "interpretability": ("Interpretability", "해석 가능성"),
    "interpretability.said": (
        "Trained models were measured on test examples: whether their coordinates, neighbourhoods "
        "and attention show true groups of tokens, what each rule does, and whether seeds agree "
        "on the roles of heads.",
        "학습된 모델을 테스트 예제로 쟀다. 좌표, 이웃, 어텐션이 토큰의 실제 무리를 보이는지, "
        "규칙마다 무엇을 하는지, 헤드의 역할이 시드 사이에 일치하는지를 본다.",
    ),
    "interpretability.none": (
        "No trained model was measured (suites with `insight`): there is no table of "
        "interpretability.",
        "측정한 모델이 없어(`insight`가 있는 묶음) 해석 가능성의 표가 없다.",
    ),
    "length": ("Length", "길이"),
    "conclusion": ("Conclusion", "결론"),
    # --- tables
    "model.base": ("Transformer (base)", "Transformer (기준)"),
    "model.ours": ("ASCender (ours)", "ASCender (제안)"),
    "model.sparse": ("ASC + Sparse/Flash", "ASC + Sparse/Flash"),
    "column.model": ("model", "모델"),
    "column.draft_latency": ("Latency (ms)", "지연 시간 (ms)"),
    "column.draft_step": ("Latency (ms), a training step", "지연 시간 (ms), 학습 스텝"),
    "column.draft_flops": ("Attention FLOPs", "어텐션 FLOPs"),
    "column.draft_memory": ("Peak Memory (GB)", "최대 메모리 (GB)"),
    "column.draft_speed": ("Tokens/sec", "초당 토큰"),
    "column.base": ("Transformer (base)", "Transformer (기준)"),
    "column.ours": ("ASCender (ours)", "ASCender (제안)"),
    "column.ours_difference": ("ours − base [interval]", "제안 − 기준 [구간]"),
    "column.sparse": ("ASC + Sparse/Flash", "ASC + Sparse/Flash"),
    "column.sparse_variant": ("its variant", "그 변형"),
    "column.nmi_difference": ("NMI, ours − base [interval]", "NMI, 제안 − 기준 [구간]"),
    "column.number": ("", ""),
    "title.paper_claims": ("Claims and verdicts", "주장과 판정"),
    "note.paper_claims": (
        "Not testable: data at this scale cannot test the claim. A suite with missing trials has "
        "no verdict.",
        "검정 불가: 이 규모의 자료로는 검정할 수 없다. 시행이 빠진 묶음에는 판정이 없다.",
    ),
    "title.draft_layers": (
        "Efficiency of one attention layer by length",
        "어텐션 층 하나의 길이별 효율",
    ),
    "note.draft_layers": (
        "Projections included, random tokens, batch of one, one thread; in brackets over the "
        "base at the same length. Latency: the fastest forward pass. FLOPs: of a forward pass, "
        "counted. Memory: the peak of a training pass in a process of its own. Tokens/sec: "
        "forward and backward.",
        "사영 포함, 무작위 토큰, 배치 하나, 스레드 하나. 괄호 안은 같은 길이의 기준 대비. 지연 "
        "시간: 가장 빠른 순전파. FLOPs: 순전파의 연산을 센 값. 메모리: 별도 프로세스에서 잰 학습 "
        "1회의 최댓값. 초당 토큰: 순전파와 역전파.",
    ),
    "title.draft_training": ("Efficiency of whole models in training", "학습하는 모델의 효율"),
    "note.draft_training": (
        "Means over seeds; in brackets over the base on the same task. FLOPs: of attention, one "
        "example forward, counted. Memory: the peak of the training process. Trials shared a "
        "machine, so times are indicative.",
        "시드 평균이며 괄호 안은 같은 과제의 기준 대비. FLOPs: 예제 하나의 순전파에서 어텐션의 "
        "연산을 센 값. 메모리: 학습 프로세스의 최댓값. 시행들이 컴퓨터를 나눠 썼으므로 시간은 "
        "참고용이다.",
    ),
    "title.draft_quality": ("Quality by benchmark", "벤치마크별 성능"),
    "note.draft_quality": (
        "Test scores, mean ± standard deviation over seeds, of the first suite with both models; "
        "differences paired by seed with their 95% interval. The last two columns: the first such "
        "variant that a suite names on the task, not the best one. Arrows: "
        "which way is better.",
        "두 모델이 모두 있는 첫 묶음의 테스트 점수, 시드의 평균 ± 표준편차. 차이는 시드끼리 "
        "짝지었고 95% 구간을 함께 적었다. 마지막 두 열은 그 과제에서 묶음이 처음 이름을 든 "
        "변형이며 가장 좋은 것이 아니다. 화살표는 나은 쪽이다.",
    ),
    "note.metric": (
        "Metric: {metric} where the first column names no other.",
        "지표: 첫 열에 다른 것이 없으면 {metric}.",
    ),
    "title.draft_groups": (
        "Recovery of true groups of tokens",
        "토큰의 실제 무리 복원",
    ),
    "note.draft_groups": (
        "Clusters of latent coordinates z, of the neighbour graph, of the attention and of a "
        "layer's inputs (states), compared with the true groups: NMI and ARI, mean ± standard "
        "deviation over seeds; by chance with shuffled labels. Differences of NMI: from the same "
        "source of the base, of z and neighbours from its states.",
        "잠재 좌표 z, 이웃 그래프, 어텐션, 층의 입력(상태)의 군집을 실제 무리와 비교했다. NMI와 "
        "ARI, 시드의 평균 ± 표준편차, 우연은 레이블을 섞은 값. NMI의 차이는 기준의 같은 항목과, "
        "z와 이웃은 기준의 상태와 비교했다.",
    ),
    "title.draft_rules": (
        "What each rule does in ASCender (ours)",
        "ASCender (제안)의 규칙별 기여",
    ),
    "note.draft_rules": (
        "Mean over layers and heads, ± standard deviation over seeds. Share: of the variance of "
        "a row's scores. Moved: of a row's attention (total variation) when the rule is muted, in "
        "its layer or in the whole model. Last column: change of the test score with the rule "
        "muted after training.",
        "층과 헤드의 평균, 시드의 ± 표준편차. 몫: 한 행 점수의 분산 중. 이동량: 규칙을 그 층이나 "
        "모델 전체에서 껐을 때 옮겨 가는 행의 어텐션(전변동 거리). 마지막 열: 학습 뒤 규칙을 껐을 "
        "때 테스트 점수의 변화.",
    ),
    "title.draft_agreement": (
        "Agreement of seeds on the roles of heads",
        "헤드의 역할에 대한 시드의 일치",
    ),
    "note.draft_agreement": (
        "Correlation of the contributions of matched heads within a layer (row “all”: of layers), "
        "the same with heads assigned at random, and the share of such assignments that agree as "
        "much.",
        "한 층에서 짝지은 헤드의 기여의 상관(all 행: 층의 상관), 헤드를 무작위로 배정한 값, 그런 "
        "배정 가운데 그만큼 일치하는 것의 비율.",
    ),
    # --- figures
    "figure.of": (
        "Suite `{suite}` ({tasks}), trials: {trials}.",
        "묶음 `{suite}`({tasks}), 시행 {trials}개.",
    ),
    "missing.maps": (
        "Figure {n} (the terms of one attention) is not drawn: no suite here has attention maps or "
        "the saved model of a variant with rules. `ascender lab run` keeps them with the trials.",
        "그림 {n}(어텐션 하나의 항)은 없다. 규칙이 있는 변형의 어텐션 지도나 저장된 모델이 없다. "
        "`ascender lab run`이 시행과 함께 저장한다.",
    ),
    "missing.pareto": (
        "Figure {n} (quality against cost) is not drawn: no suite that judges has a trial.",
        "그림 {n}(비용 대비 성능)는 없다. 끝난 시행이 있는 판정용 묶음이 없다.",
    ),
    "missing.deltas": (
        "Figure {n} (ablation) is not drawn: no suite compares variants without some rule with a "
        "baseline.",
        "그림 {n}(절제 실험)은 없다. 규칙을 일부 뺀 변형을 기준과 비교한 묶음이 없다.",
    ),
    "missing.heads": (
        "Figure {n} (specialisation of heads) is not drawn: no variant here has weights of rules.",
        "그림 {n}(헤드의 분화)는 없다. 규칙의 가중치가 있는 변형이 없다.",
    ),
    "missing.length": (
        "Figure {n} (length) is not drawn: no task was run at more than one length and no layer "
        "was measured at length. The suite `length` does the former.",
        "그림 {n}(길이)는 없다. 둘 이상의 길이로 실행한 과제도, 길이별로 잰 층도 없다. 묶음 "
        "`length`가 전자를 실행한다.",
    ),
    "missing.lengths": (
        "No task was run at more than one length (the suite `length` does that), so Figure {n} has "
        "the costs of a layer only and no quality.",
        "둘 이상의 길이로 실행한 과제가 없어(묶음 `length`가 실행한다) 그림 {n}에는 층의 비용만 "
        "있고 성능은 없다.",
    ),
    "maps.why": (
        "Figure [#fig:maps] takes one attention of a trained model apart.",
        "그림 [#fig:maps]은 학습된 모델의 어텐션 하나를 항으로 나눈 것이다.",
    ),
    "pareto.why": (
        "Figure [#fig:pareto] has quality against each cost.",
        "그림 [#fig:pareto]는 비용별 성능이다.",
    ),
    "deltas.why": (
        "Figure [#fig:deltas] has the ablation: what one rule alone, or all but one, changes.",
        "그림 [#fig:deltas]은 절제 실험이다. 규칙 하나만 쓰거나 하나를 뺐을 때의 변화를 보인다.",
    ),
    "heads.why": (
        "Figure [#fig:heads] has the weights of the rules by layer and head.",
        "그림 [#fig:heads]는 층과 헤드별 규칙의 가중치이다.",
    ),
    "length.why": (
        "Figure [#fig:length] has what changes with length.",
        "그림 [#fig:length]는 길이에 따른 변화이다.",
    ),
})  # fmt: skip
