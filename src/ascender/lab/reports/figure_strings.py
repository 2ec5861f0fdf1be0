"""The strings of figures: captions, axes, and why a figure is not drawn."""

from __future__ import annotations

from ascender.report.strings import Pair

FIGURE_STRINGS: dict[str, Pair] = {
    "caption.maps": (
        "Figure 1. The terms of one attention: {variant} on {task}, first test example, seed "
        "{seed}, layer {layer}, head {head} (where the rules change the scores most). The total is "
        "the sum of the terms, plus the position's bias if there is one, divided by the head's "
        "temperature. Each map has a colour scale of its own, so colours of different maps cannot "
        "be compared. The weights are the softmax of the total.",
        "그림 1. 어텐션 하나의 항: {task} 과제의 첫 테스트 예제, {variant}, 시드 {seed}, {layer}층 "
        "{head}번 헤드(규칙이 점수를 가장 많이 바꾸는 곳). 합계는 각 항(위치 편향이 있으면 그것도 "
        "포함)을 더해 헤드의 온도로 나눈 값이다. 지도마다 색 눈금이 달라 서로 다른 지도의 색은 "
        "비교할 수 없다. 가중치는 합계의 소프트맥스이다.",
    ),
    "caption.maps_shared": (
        "Figure 1. The terms of one attention: {variant} on {task}, first test example, seed "
        "{seed}, layer {layer}, head {head} (where the rules change the scores most). The total is "
        "the sum of the terms, plus the position's bias if there is one, divided by the head's "
        "temperature; terms and total share one scale. The weights are the softmax of the total.",
        "그림 1. 어텐션 하나의 항: {task} 과제의 첫 테스트 예제, {variant}, 시드 {seed}, {layer}층 "
        "{head}번 헤드(규칙이 점수를 가장 많이 바꾸는 곳). 합계는 각 항(위치 편향이 있으면 그것도 "
        "포함)을 더해 헤드의 온도로 나눈 값이며, 각 항과 같은 눈금을 쓴다. 가중치는 합계의 "
        "소프트맥스이다.",
    ),
    "caption.pareto": (
        "Figure 2. Quality against cost: mean test score over seeds against the attention FLOPs of "
        "one example (counted), the time of a training step and the peak memory of the process "
        "(both measured while training), with 95% intervals. Line: the Pareto frontier. Dotted: "
        "chance (a number where it is far from all scores). ↓: lower is better.",
        "그림 2. 비용 대비 성능: 예제 하나의 어텐션 FLOPs(계산값), 학습 스텝의 시간과 프로세스의 "
        "최대 메모리(학습 중 측정값)에 대한 시드 평균 테스트 점수와 95% 구간. 선: 파레토 경계. "
        "점선: 우연 수준(점수들과 멀면 숫자로 표시). ↓: 낮을수록 좋다.",
    ),
    "caption.layer_pareto": (
        "Figure 2, at length. Quality in the trials against the cost of an attention layer on more "
        "tokens than the trials have (their number is above the panels): FLOPs of a forward pass "
        "(counted), its latency, and peak memory of a training pass (both measured). Only variants "
        "whose layer was measured. Line: the Pareto frontier.",
        "그림 2, 긴 입력. 시행의 성능과, 시행보다 긴 입력(토큰 수는 패널 위)에서 잰 어텐션 층의 "
        "비용: 순전파의 FLOPs(계산값), 지연 시간, 학습 패스의 최대 메모리(측정값). 층을 측정한 "
        "변형만 그렸다. 선: 파레토 경계.",
    ),
    "caption.deltas": (
        "Figure 3. Differences from {baseline}, paired by seed, with 95% intervals. Left: test "
        "score. Triangle up: win; circle: tie; triangle down: loss; cross: not judged; band: "
        "differences below the smallest difference of interest. Right: how much more attention "
        "FLOPs (counted), time of a training step and peak memory of the process (both measured "
        "while training) it takes.",
        "그림 3. {baseline} 대비 차이(같은 시드끼리)와 95% 구간. 왼쪽: 테스트 점수. 위 세모: 우세, "
        "원: 무승부, 아래 세모: 열세, 가위표: 판정 불가, 띠: 관심을 둘 최소 차이보다 작은 차이. "
        "오른쪽: 어텐션 FLOPs(계산값), 학습 스텝의 시간, 프로세스의 최대 메모리(학습 중 측정값)가 "
        "얼마나 더 드는지.",
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
        "Figure 5. Quality and costs against length (mean tokens of an example, padding left out): "
        "test score, attention FLOPs of one example (counted), time of a training step and peak "
        "memory of the process (both measured while training). Means over seeds with 95% "
        "intervals. Dotted: chance.",
        "그림 5. 길이(예제의 평균 토큰 수, 패딩 제외)에 따른 성능과 비용: 테스트 점수, 예제 하나의 "
        "어텐션 FLOPs(계산값), 학습 스텝의 시간과 프로세스의 최대 메모리(학습 중 측정값). 시드 "
        "평균과 95% 구간. 점선: 우연 수준.",
    ),
    "caption.layer_costs": (
        "Figure 5, costs. One attention layer on random tokens, batch 1, by length: FLOPs of a "
        "forward pass (counted), its latency, the time of a training pass (best of several turns) "
        "and the peak memory of a training pass in a process of its own.",
        "그림 5, 비용. 임의의 토큰(배치 1)에 대한 어텐션 층 하나의 길이별 비용: 순전파의 "
        "FLOPs(계산값), 지연 시간, 학습 패스의 시간(여러 번 중 가장 빠른 값), 별도 프로세스에서 잰 "
        "학습 패스의 최대 메모리.",
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
    "axis.step_ms": ("training step [ms]", "학습 스텝 [ms]"),
    "axis.memory": ("peak memory [MB]", "최대 메모리 [MB]"),
    "axis.more_flops": ("attention FLOPs", "어텐션 FLOPs"),
    "axis.more_step_ms": ("time of a training step", "학습 스텝의 시간"),
    "axis.more_memory": ("peak memory", "최대 메모리"),
    "axis.cost_difference": (
        "cost, difference from {baseline} [%]",
        "비용, {baseline} 대비 차이 [%]",
    ),
    "axis.own_cost_difference": (
        "cost, difference within the pair [%]",
        "비용, 짝 안에서의 차이 [%]",
    ),
    "axis.layer_flops": ("FLOPs of a forward pass", "순전파의 FLOPs"),
    "axis.layer_ms": ("forward pass [ms]", "순전파 [ms]"),
    "axis.layer_training_ms": ("training pass [ms]", "학습 패스 [ms]"),
    "axis.layer_memory": ("training memory [MB]", "학습 메모리 [MB]"),
    "axis.tokens": ("tokens per example", "예제당 토큰 수"),
    "axis.layer_tokens": ("tokens", "토큰 수"),
    "axis.at_length": ("{task} (layer of {n} tokens)", "{task} (토큰 {n}개의 층)"),
    "axis.test": ("test {metric}", "테스트 {metric}"),
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
    "axis.of_flock": ("flock", "무리 F(i)"),
    "axis.of_attention": ("attention", "어텐션"),
    "axis.of_states": ("states", "상태"),
    "left_out.no_lengths": (
        "Figure 5: no task was run at more than one length.",
        "그림 5: 둘 이상의 길이로 실행한 과제가 없다.",
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
        "Figure 1: neither maps nor a saved model of a variant with rules were found ({error}).",
        "그림 1: 규칙이 있는 변형의 저장된 지도나 모델을 찾지 못했다({error}).",
    ),
}
