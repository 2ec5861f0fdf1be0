"""The strings of the limits page, its figures and its advice, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Pair, Strings

TEXTS: dict[str, Pair] = {
    "title.page": ("Limits of normalisation", "정규화의 한계"),
    "title.warnings": (
        "Heads outside the guideline N < 0.06 L, N_s/N ≥ 0.70, T ≥ 0.1",
        "지침 N < 0.06 L, N_s/N ≥ 0.70, T ≥ 0.1을 벗어난 헤드",
    ),
    "title.none": ("None.", "없음."),
    "title.compare": ("Side by side", "나란히 비교"),
    "title.lengths": ("By length, with the model's own normaliser", "길이별, 모델 자신의 정규화"),
    "title.flock": ("Flock size and the advice N < 0.06 L", "무리의 크기와 지침 N < 0.06 L"),
    "title.normalizers": ("All normalisers on the same scores", "같은 점수에 적용한 정규화 방법들"),
    "title.selection": ("Selected and unselected keys", "선택된 키와 선택되지 않은 키"),
    "title.temperature": ("Sensitivity by temperature", "온도별 민감도"),
    "title.figures": ("Figures", "그림"),
    "title.tables": ("Tables", "표"),
    "title.definitions": ("Definitions", "정의"),
    "caption.support": (
        "Effective support exp(H) against the context length L, mean over heads. Dotted: all keys "
        "(exp(H) = L) and the guideline 0.06 L.",
        "문맥 길이 L에 따른 유효 지지 크기 exp(H), 헤드 평균. 점선: 모든 키(exp(H) = L)와 지침 "
        "0.06 L.",
    ),
    "caption.distance": (
        "Distance d̃ between the selected sum s and the unselected α_i x_i against N, one panel "
        "per layer. Line: mean over heads; band: from the smallest to the largest head; dashed: "
        "the bound.",
        "선택된 합 s와 선택되지 않은 α_i x_i 사이의 거리 d̃를 N에 따라 층별로 그렸다. 선: 헤드 "
        "평균, 띠: 가장 작은 헤드부터 가장 큰 헤드까지, 파선: 상한.",
    ),
    "caption.separable": (
        "Share N_s/N of selected keys that stay separable, against N/L at the greatest length; one "
        "panel per layer, one line per head. A selected key is separable if its α_j x_j is nearer "
        "to s than every unselected one. Dotted: N = 0.06 L.",
        "가장 긴 문맥에서 N/L에 따른, 분리되는 선택 키의 비율 N_s/N. 칸은 층, 선은 헤드. 선택된 "
        "키의 α_j x_j가 선택되지 않은 모든 것보다 s에 가까우면 분리된다고 본다. 점선: N = 0.06 L.",
    ),
    "caption.gradient": (
        "Spectral norm of the Jacobian of the weights with respect to the logits, with the scores "
        "divided by T; one panel per layer, one line per head (maximum over rows). Dashed: 1/(2T), "
        "the bound of the spectral norm under softmax. Dotted: 1/(4T), the bound of single "
        "entries.",
        "점수를 T로 나눌 때 로짓에 대한 가중치 야코비안의 스펙트럼 노름. 칸은 층, 선은 헤드(행 중 "
        "최댓값). 파선: 1/(2T), softmax에서 스펙트럼 노름의 상한. 점선: 1/(4T), 성분 하나의 상한.",
    ),
    "caption.normalizers": (
        "The same for each normaliser: the maximum over all heads.",
        "정규화 방법별로 모든 헤드 중 최댓값.",
    ),
    "caption.compare": (
        "exp(H)/L against L for two models on the same inputs: mean over heads (thick) and each "
        "head (thin).",
        "같은 입력에서 두 모델의 L에 따른 exp(H)/L: 헤드 평균(굵은 선)과 각 헤드(가는 선).",
    ),
    "definition.entropy": (
        "H = −Σ α log α. exp(H), the effective support: the number of equal weights with the same "
        "entropy. L: the number of keys a row sees. Measured rows: in each sequence those that see "
        "the most keys.",
        "H = −Σ α log α. 유효 지지 크기 exp(H): 엔트로피가 같은 균등 가중치의 개수. L: 한 행이 "
        "보는 키의 수. 각 시퀀스에서 가장 많은 키를 보는 행만 측정한다.",
    ),
    "definition.flock": (
        "In flock scope a row attends to |F| of its |V| visible keys. The advice N < 0.06 L is "
        "applied to N = |F| and L = |V|; in all other quantities L = |F|.",
        "무리 범위(flock scope)에서 한 행은 보이는 키 |V|개 중 |F|개에만 주목한다. 지침 "
        "N < 0.06 L은 N = |F|, L = |V|로 적용하고, 나머지 값에서는 모두 L = |F|이다.",
    ),
    "definition.envelope": (
        "Envelope: (1/L)e^{−2Δ} … (1/L)e^{+2Δ}, Δ = ‖q‖·max‖k‖/√d + half the range of every other "
        "term. “½ range”: the smallest Δ for which it holds. At an edge: within a factor of 2 of "
        "it.",
        "포락선: (1/L)e^{−2Δ} … (1/L)e^{+2Δ}, Δ = ‖q‖·max‖k‖/√d + 나머지 항 범위의 절반. “½ "
        "range”: 성립하는 가장 작은 Δ. 가장자리: 2배 이내.",
    ),
    "definition.selection": (
        "I_N: the N largest weights; s = Σ α_j x_j over them, ᾱ their mass; d̃ = Σ_{i∉I_N} ‖s − "
        "α_i x_i‖ ≤ (1−ᾱ)d₁ + max‖x‖[ᾱ(L−N) − (1−ᾱ)], d₁ = max_{i∉I_N} ‖s/ᾱ − x_i‖. Critical N: "
        "where d̃ is largest.",
        "I_N: 가장 큰 가중치 N개, s는 그 α_j x_j의 합, ᾱ는 그 가중치의 합. d̃ = Σ_{i∉I_N} ‖s − α_i "
        "x_i‖ ≤ (1−ᾱ)d₁ + max‖x‖[ᾱ(L−N) − (1−ᾱ)], d₁ = max_{i∉I_N} ‖s/ᾱ − x_i‖. 임계 N: d̃가 가장 "
        "큰 곳.",
    ),
    "advice.seen": (
        "Result: at {length} tokens, a head of {name} spreads over {share} of its keys on average "
        "(exp(H)/L), {wide} of {heads} heads over {guide} or more",
        "결과: 토큰 {length}개에서 {name}의 헤드는 평균적으로 키의 {share}에 퍼져 있고(exp(H)/L), "
        "헤드 {heads}개 중 {wide}개가 {guide} 이상이다",
    ),
    "advice.grows": (
        "; the effective support grows with length as {over}^{beta}",
        ". 유효 지지 크기는 길이에 따라 {over}^{beta}로 늘어난다",
    ),
    "advice.flock": (
        "Result: at {length} tokens, a row of {name} attends to a flock of {keys} of {visible} "
        "visible keys (|F|/|V| = {held}, under {guide} in {within} of {layers} layers); a head "
        "spreads over {share} of its keys on average (exp(H)/L, L = |F|)",
        "결과: 토큰 {length}개에서 {name}의 행은 보이는 키 {visible}개 중 무리에 든 {keys}개에만 "
        "주목한다(|F|/|V| = {held}, {layers}개 층 중 {within}개에서 {guide} 미만). 헤드는 "
        "평균적으로 키의 {share}에 퍼져 있다(exp(H)/L, L = |F|)",
    ),
    "advice.flock_within": (
        "Next: nothing to do. Every flock holds fewer than {guide} of the visible keys, as the "
        "guideline asks.",
        "다음: 할 일 없음. 모든 무리의 크기가 지침대로 보이는 키의 {guide} 미만이다.",
    ),
    "advice.flock_wide": (
        "Next: nothing to do for texts of {enough} visible keys or more, where the same flocks are "
        "under {guide} of them. For shorter texts, make the flocks smaller (far, window).",
        "다음: 보이는 키가 {enough}개 이상인 글에서는 같은 크기의 무리가 그 {guide} 미만이므로 "
        "할 일이 없다. 더 짧은 글에서는 무리(far, window)를 줄일 것.",
    ),
    "advice.fine": (
        "Next: nothing to do. Most heads use fewer than {guide} of their keys, as the guideline "
        "asks.",
        "다음: 할 일 없음. 대부분의 헤드가 지침대로 키의 {guide}보다 적게 쓴다.",
    ),
    "advice.level": (
        "Next: nothing to do for longer texts, where the share of keys in use shrinks. On short "
        "texts, do not interpret single keys of such heads.",
        "다음: 긴 글에서는 쓰이는 키의 비율이 줄어들므로 할 일이 없다. 짧은 글에서는 이런 헤드의 "
        "키 하나하나를 해석하지 말 것.",
    ),
    "advice.another": (
        "Next: if single tokens must be found in long texts, train with a normaliser or a window "
        "that keeps the number of keys constant; on these scores {normalizer} comes nearest "
        "(L^{beta}). Otherwise nothing to do.",
        "다음: 긴 글에서 토큰 하나를 찾아야 한다면 키의 수를 유지하는 정규화나 윈도우로 학습할 것. "
        "이 점수에서는 {normalizer}가 가장 가깝다(L^{beta}). 그 밖에는 할 일이 없다.",
    ),
    "advice.wide": (
        "Next: if single tokens must be found in long texts, train with a normaliser or a window "
        "that keeps the number of keys constant. Run this without --normalizers to compare them.",
        "다음: 긴 글에서 토큰 하나를 찾아야 한다면 키의 수를 유지하는 정규화나 윈도우로 학습할 것. "
        "--normalizers 없이 다시 실행하면 비교할 수 있다.",
    ),
    "advice.flock_whole": (
        "Next: lower far or window, or measure longer texts: some flocks still hold every visible "
        "key, and the guideline is {guide} of them.",
        "다음: far나 window를 줄이거나 더 긴 글로 측정할 것. 보이는 키를 모두 담은 무리가 아직 "
        "있다(지침은 보이는 키의 {guide}).",
    ),
    "advice.cool": (
        "Next: raise the temperature of {n} heads to {coolest} or more (first: layer {layer} head "
        "{head}). Below that, a small change of a score moves much of the attention.",
        "다음: 헤드 {n}개의 온도를 {coolest} 이상으로 올릴 것(첫째: {layer}층 {head}번 헤드). "
        "그보다 낮으면 점수가 조금만 변해도 어텐션이 크게 움직인다.",
    ),
    "axis.L": ("keys L", "키의 수 L"),
    "axis.visible": ("visible keys |V|", "보이는 키의 수 |V|"),
    "axis.support": ("exp(H)", "exp(H)"),
    "axis.share": ("exp(H) / L", "exp(H) / L"),
    "axis.N": ("N", "N"),
    "axis.distance": ("distance d̃", "거리 d̃"),
    "axis.bound": ("bound", "상한"),
    "axis.N/L": ("N / L", "N / L"),
    "axis.separable": ("N_s / N", "N_s / N"),
    "axis.T": ("temperature T", "온도 T"),
    "axis.spectral": ("‖J‖₂", "‖J‖₂"),
    "axis.layer": ("layer {n}", "{n}층"),
    "axis.head": ("head {n}", "헤드 {n}"),
    "axis.mean": ("mean", "평균"),
}

STRINGS = Strings(TEXTS)
