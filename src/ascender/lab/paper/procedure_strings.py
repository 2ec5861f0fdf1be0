"""The strings of appendix D, procedures with their places in the code, in English and Korean. A
place is a file under src/ascender and a name in it; tests check that each exists."""

from __future__ import annotations

from ascender.report.strings import Strings

PROCEDURES = Strings({
    "heading": ("Procedures", "절차"),
    "intro": (
        "Each step with its place in the code: a file under `src/ascender` and a name in it. The "
        "formulas are in `docs/definition.md`, and `tests/support/oracles.py` computes them with "
        "plain loops.",
        "각 단계와 코드의 위치이다. 위치는 `src/ascender` 아래의 파일과 그 안의 이름이다. 식은 "
        "`docs/definition.md`에 있고 `tests/support/oracles.py`가 단순한 반복문으로 계산한다.",
    ),
    "layer": ("One layer of attention with the rules", "규칙이 있는 어텐션 층 하나"),
    "layer.project": (
        "Project the tokens to queries, keys, values, coordinates $z$ and semantic directions "
        "$h$; positions rotate or bias the base score only. `nn/module.py:AscenderAttention`",
        "토큰을 쿼리, 키, 값, 좌표 $z$, 의미 방향 $h$로 사영한다. 위치는 기본 점수만 돌리거나 "
        "더한다. `nn/module.py:AscenderAttention`",
    ),
    "layer.visible": (
        "Find the visible keys $V(i)$ of each query (causal, padding, window) and the others "
        "among them, $P(i)$. Nothing below reads a key outside. `core/visibility.py:Visibility`",
        "쿼리마다 보이는 키 $V(i)$(인과, 채움, 윈도우)와 그중 자신을 뺀 $P(i)$를 구한다. 이후의 "
        "어떤 것도 그 밖의 키를 읽지 않는다. `core/visibility.py:Visibility`",
    ),
    "layer.flock": (
        "In flock scope, choose the keys of highest affinity and put the flock $F(i)$ in the "
        "place of $V(i)$. `core/scope.py:FlockScope`",
        "무리 범위이면 친화도가 가장 높은 키를 골라 무리 $F(i)$를 $V(i)$ 대신 쓴다. "
        "`core/scope.py:FlockScope`",
    ),
    "layer.neighbours": (
        "Take the $k$ members of $P(i)$ that are most similar as neighbours $N_k(i)$; of equal "
        "ones the most recent. `core/neighbours.py:top_k`",
        "$P(i)$에서 가장 비슷한 $k$개를 이웃 $N_k(i)$로 고른다. 같으면 최근 것을 고른다. "
        "`core/neighbours.py:top_k`",
    ),
    "layer.align": (
        "Alignment: the mean direction of the neighbours' keys, gated by their scatter. "
        "`core/rules/alignment.py:heading`",
        "정렬: 이웃 키의 평균 방향이며 흩어진 정도가 게이트가 된다. "
        "`core/rules/alignment.py:heading`",
    ),
    "layer.sep": (
        "Separation: a penalty on near duplicates, gated by the crowd. "
        "`core/rules/separation.py:penalty`, `core/rules/separation.py:crowding`",
        "분리: 거의 같은 것에 대한 벌점이며 밀집도가 게이트가 된다. "
        "`core/rules/separation.py:penalty`, `core/rules/separation.py:crowding`",
    ),
    "layer.coh": (
        "Cohesion: the distance to the local centre, gated by the scatter around it. "
        "`core/rules/cohesion.py:gate`",
        "응집: 지역 중심까지의 거리이며 중심 주위의 흩어짐이 게이트가 된다. "
        "`core/rules/cohesion.py:gate`",
    ),
    "layer.combine": (
        "Standardise each score over $V(i)$, gate it, multiply by $\\lambda\\omega$, add all to "
        "the base score and divide by $\\tau_{{score}}$. `core/combine.py:standardise`, "
        "`core/backends/dense.py:dense`",
        "각 점수를 $V(i)$에서 표준화하고 게이트와 $\\lambda\\omega$를 곱해 기본 점수에 더한 뒤 "
        "$\\tau_{{score}}$로 나눈다. `core/combine.py:standardise`, "
        "`core/backends/dense.py:dense`",
    ),
    "layer.softmax": (
        "Softmax over $V(i)$, and the weighted sum of the values. "
        "`core/softmax.py:masked_softmax`",
        "$V(i)$에 대한 소프트맥스와 값의 가중합. `core/softmax.py:masked_softmax`",
    ),
    "layer.backend": (
        "Fast backends compute the same; which one is chosen by the call, and each is tested "
        "against the definition. `core/choose_backend.py:choose_backend`, "
        "`core/backends/fold.py:fold`",
        "빠른 백엔드는 같은 것을 계산한다. 호출에 따라 고르며 모두 정의와 비교하여 시험한다. "
        "`core/choose_backend.py:choose_backend`, `core/backends/fold.py:fold`",
    ),
    "training": ("One training run", "학습 한 번"),
    "training.run": (
        "A run is a value; its hash is the key of the trial. `train/run.py:Run`, "
        "`train/run.py:key_of`",
        "실행은 값이며 그 해시가 시행의 키이다. `train/run.py:Run`, `train/run.py:key_of`",
    ),
    "training.batch": (
        "Draw the batch of a step from seed and step alone. `tasks/base.py:Task.train`",
        "스텝의 배치는 시드와 스텝만으로 정해진다. `tasks/base.py:Task.train`",
    ),
    "training.schedule": (
        "Set $\\lambda$ of each rule and the phase of flock scope. "
        "`core/schedule.py:Schedule.apply`",
        "규칙마다 $\\lambda$를, 그리고 무리 범위의 단계를 정한다. "
        "`core/schedule.py:Schedule.apply`",
    ),
    "training.step": (
        "Loss, auxiliary losses where there are any, clipped gradient, one step of AdamW. "
        "`train/loop.py:Trainer.one`, `core/losses.py:losses`, `train/loop.py:rate`",
        "손실과 (있으면) 보조 손실, 자른 기울기, AdamW 한 스텝. `train/loop.py:Trainer.one`, "
        "`core/losses.py:losses`, `train/loop.py:rate`",
    ),
    "training.health": (
        "Stop where the loss is not finite or diverges, and name the layer. "
        "`train/health.py:LossMonitor`",
        "손실이 유한하지 않거나 발산하면 멈추고 층을 알린다. `train/health.py:LossMonitor`",
    ),
    "training.validate": (
        "Validate at intervals, keep the best weights, and score them on the test examples once. "
        "`train/loop.py:Trainer.evaluate`, `train/evaluation.py:evaluate`",
        "일정 간격으로 검증하여 가장 좋은 가중치를 두고, 테스트 예제로 한 번 채점한다. "
        "`train/loop.py:Trainer.evaluate`, `train/evaluation.py:evaluate`",
    ),
    "training.record": (
        "Write the record: settings, scores of every test example, curves, times, versions, "
        "machine. `train/record.py:checked_record`",
        "기록을 쓴다: 설정, 테스트 예제마다의 점수, 곡선, 시간, 버전, 컴퓨터. "
        "`train/record.py:checked_record`",
    ),
    "judging": ("From trials to verdicts", "시행에서 판정까지"),
    "judging.suite": (
        "Write a suite with its claim and decision rule; the store records when. "
        "`lab/suite.py:Suite`, `lab/store.py:Store.open`",
        "주장과 판정 규칙을 가진 묶음을 쓴다. 저장소가 그때를 기록한다. `lab/suite.py:Suite`, "
        "`lab/store.py:Store.open`",
    ),
    "judging.trial": (
        "Run its trials, seed by seed; a trial that crashes is tried once more. "
        "`lab/trial.py:trial`",
        "시드 차례로 시행을 돌린다. 중단된 시행은 한 번 더 시도한다. `lab/trial.py:trial`",
    ),
    "judging.pairs": (
        "Pair each variant with its baseline by seed and test the differences. "
        "`lab/judge.py:compare`, `lab/stats.py:paired`",
        "변형을 기준과 시드별로 짝지어 차이를 검정한다. `lab/judge.py:compare`, "
        "`lab/stats.py:paired`",
    ),
    "judging.holm": (
        "Adjust the $p$ values of the suite by Holm. `lab/stats.py:holm`",
        "묶음의 $p$ 값을 홀름 방법으로 보정한다. `lab/stats.py:holm`",
    ),
    "judging.verdict": (
        "Win, tie or loss by the suite's rule; not inferior where the whole interval lies within "
        "the margin. `lab/verdict.py:verdict`, `lab/verdict.py:not_inferior`",
        "묶음의 규칙으로 우세, 무승부, 열세를 정한다. 구간 전체가 허용 한계 안이면 비열등이다. "
        "`lab/verdict.py:verdict`, `lab/verdict.py:not_inferior`",
    ),
    "judging.examples": (
        "Beside it, what other test examples would say: bootstrap and randomisation. "
        "`lab/resampling.py:paired_bootstrap`, `lab/resampling.py:approximate_randomisation`",
        "다른 테스트 예제라면 어떨지를 부트스트랩과 무작위화로 함께 적는다. "
        "`lab/resampling.py:paired_bootstrap`, `lab/resampling.py:approximate_randomisation`",
    ),
    "judging.claims": (
        "Judge each claim by the test that it names. `lab/reports/claims.py:TESTS`",
        "주장마다 그것이 지정한 검정으로 판정한다. `lab/reports/claims.py:TESTS`",
    ),
    "measuring": ("Measurements", "측정"),
    "measuring.flops": (
        "FLOPs: counted on the operators of a forward pass, the same on every machine. "
        "`measure/flops.py:count`, `train/record.py:attention_flops`",
        "FLOPs: 순전파의 연산에서 세며 컴퓨터와 무관하다. `measure/flops.py:count`, "
        "`train/record.py:attention_flops`",
    ),
    "measuring.time": (
        "Times: candidates take turns, and the best turn of each counts. "
        "`measure/timing.py:interleave`, `lab/costs.py:measure`",
        "시간: 후보가 번갈아 돌고 각자의 가장 빠른 차례를 쓴다. `measure/timing.py:interleave`, "
        "`lab/costs.py:measure`",
    ),
    "measuring.memory": (
        "Memory: the peak of one call in a process of its own. `measure/memory.py:fresh`",
        "메모리: 별도 프로세스에서 호출 한 번의 최댓값. `measure/memory.py:fresh`",
    ),
    "measuring.contribution": (
        "Contribution of a rule: its share of the variance of the scores, and how much attention "
        "moves without it. `insight/contribution.py:contributions`",
        "규칙의 기여: 점수 분산에서 차지하는 몫, 그리고 규칙이 없을 때 어텐션이 옮겨 가는 양. "
        "`insight/contribution.py:contributions`",
    ),
    "measuring.roles": (
        "Roles of heads and whether seeds agree on them. `insight/roles.py:agreement`",
        "헤드의 역할과 시드 사이의 일치. `insight/roles.py:agreement`",
    ),
    "measuring.groups": (
        "Recovery of true groups from coordinates, neighbours, attention and states. "
        "`insight/grouping.py:groups_found`",
        "좌표, 이웃, 어텐션, 상태에서 실제 무리를 복원하는 정도. "
        "`insight/grouping.py:groups_found`",
    ),
    "again": ("The same again", "다시 해 보기"),
    "again.run": (
        "`ascender lab run NAME --out lab/NAME` runs what is missing of a suite.",
        "`ascender lab run NAME --out lab/NAME`은 묶음에서 빠진 것을 돌린다.",
    ),
    "again.pack": (
        "`ascender lab pack lab/NAME --out results` adds the finished trials to a store.",
        "`ascender lab pack lab/NAME --out results`는 끝난 시행을 저장소에 더한다.",
    ),
    "again.paper": (
        "`ascender paper results --out paper` writes this document from the stored trials.",
        "`ascender paper results --out paper`는 저장된 시행으로 이 문서를 쓴다.",
    ),
})  # fmt: skip
