"""Titles and captions of the figures and the page, in English and Korean."""

from __future__ import annotations

LANGS = ("en", "ko", "both")

TITLES: dict[str, tuple[str, str]] = {
    "page": ("Limits of normalisation", "정규화의 한계"),
    "warnings": ("By the guideline N < 0.06 L, T ≥ 0.1", "지침 N < 0.06 L, T ≥ 0.1에 비추어"),
    "none": ("No head crosses it.", "지침을 벗어난 헤드가 없다."),
    "compare": ("Side by side", "나란히 비교"),
    "lengths": ("By length, the model's own weights", "길이별, 모델 자신의 가중치"),
    "normalizers": (
        "Every normaliser on the same scores",
        "같은 점수에 적용한 정규화 방법들",
    ),
    "selection": ("Selected and unselected", "선택된 키와 선택되지 않은 키"),
    "temperature": ("Sensitivity by temperature", "온도별 민감도"),
    "figures": ("Figures", "그림"),
    "definitions": ("What is measured", "측정한 것"),
}

CAPTIONS: dict[str, tuple[str, str]] = {
    "support": (
        "Effective support exp(H) against the context length L, mean over heads. Dotted: all keys "
        "(exp(H) = L) and the guideline 0.06 L.",
        "문맥 길이 L에 따른 유효 지지 크기 exp(H), 헤드 평균. 점선: 모든 키(exp(H) = L)와 "
        "지침 0.06 L.",
    ),
    "distance": (
        "Distance d̃ between the selected sum s and the unselected α_i x_i against N, a panel a "
        "layer: mean over heads, the band from the least head to the largest; dashed: the bound.",
        "선택된 합 s와 선택되지 않은 α_i x_i 사이의 거리 d̃를 N에 따라 층별로 그렸다: 헤드 평균, "
        "띠는 가장 작은 헤드부터 가장 큰 헤드까지, 파선은 상한.",
    ),
    "separable": (
        "Share N_s/N of selected keys that stay separable against N/L at the greatest length, a "
        "panel a layer, a line a head. A selected key is separable where its α_j x_j is nearer to "
        "s than every unselected one. Dotted: N = 0.06 L.",
        "가장 긴 문맥에서 N/L에 따른, 분리되는 선택 키의 비율 N_s/N. 칸은 층, 선은 헤드. 선택된 "
        "키의 α_j x_j가 선택되지 않은 모든 것보다 s에 가까우면 분리된다고 본다. 점선: N = 0.06 L.",
    ),
    "gradient": (
        "Spectral norm of the Jacobian of the weights by the logits, with the scores divided by T, "
        "a panel a layer, a line a head (the largest over rows). Dashed 1/(2T): the bound of the "
        "spectral norm under softmax. Dotted 1/(4T): that of single entries.",
        "점수를 T로 나눌 때 로짓에 대한 가중치 야코비안의 스펙트럼 노름. 칸은 층, 선은 헤드(행 중 "
        "최댓값). 파선 1/(2T): softmax에서 스펙트럼 노름의 상한. 점선 1/(4T): 성분 하나의 상한.",
    ),
    "normalizers": (
        "The same for every normaliser, the largest over all heads.",
        "정규화 방법별로 모든 헤드 중 최댓값.",
    ),
    "compare": (
        "exp(H)/L against L of the two models on the same inputs: mean over heads and every head.",
        "같은 입력에서 두 모델의 L에 따른 exp(H)/L: 헤드 평균과 각 헤드.",
    ),
}

DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "H = −Σ α log α; exp(H): as many equal weights would be as spread. L: the keys that a row "
        "sees. Measured rows: of each sequence those that see the most keys.",
        "H = −Σ α log α, exp(H)는 같은 정도로 퍼진 균등 가중치의 개수. L은 한 행이 보는 키의 수. "
        "각 시퀀스에서 가장 많은 키를 보는 행만 측정한다.",
    ),
    (
        "Envelope: (1/L)e^{−2Δ} … (1/L)e^{+2Δ}, Δ = ‖q‖·max‖k‖/√d + half the range of every other "
        "term; “½ range” is the smallest Δ that serves. At an edge: within a factor 2 of it.",
        "포락선: (1/L)e^{−2Δ} … (1/L)e^{+2Δ}, Δ = ‖q‖·max‖k‖/√d + 나머지 항 범위의 절반. "
        "“½ range”는 성립하는 가장 작은 Δ. 가장자리: 2배 이내.",
    ),
    (
        "I_N: the N largest weights; s = Σ α_j x_j over them, ᾱ their mass; "
        "d̃ = Σ_{i∉I_N} ‖s − α_i x_i‖ ≤ (1−ᾱ)d₁ + max‖x‖[ᾱ(L−N) − (1−ᾱ)], "
        "d₁ = max_{i∉I_N} ‖s/ᾱ − x_i‖. Critical N: where d̃ is largest.",
        "I_N: 가장 큰 가중치 N개, s는 그 α_j x_j의 합, ᾱ는 그 가중치의 합. "
        "d̃ = Σ_{i∉I_N} ‖s − α_i x_i‖ ≤ (1−ᾱ)d₁ + max‖x‖[ᾱ(L−N) − (1−ᾱ)], "
        "d₁ = max_{i∉I_N} ‖s/ᾱ − x_i‖. 임계 N: d̃가 가장 큰 곳.",
    ),
)

ADVICE: dict[str, tuple[str, str]] = {
    "seen": (
        "Seen: at {length} tokens a head of {name} spreads over {share} of its keys on average "
        "(exp(H)/L), {wide} of {heads} heads over {guide} or more",
        "관찰: 토큰 {length}개에서 {name}의 헤드는 평균적으로 키의 {share}에 퍼져 있고(exp(H)/L), "
        "헤드 {heads}개 중 {wide}개가 {guide} 이상이다",
    ),
    "grows": (
        "; the number of keys in use grows with length as L^{beta}",
        ". 쓰이는 키의 수는 길이에 따라 L^{beta}로 늘어난다",
    ),
    "fine": (
        "To do: nothing; most heads use fewer than {guide} of their keys, as the guideline asks.",
        "할 일: 없음. 대부분의 헤드가 지침대로 키의 {guide}보다 적게 쓴다.",
    ),
    "level": (
        "To do: nothing for longer texts, where the share of keys in use shrinks; on short ones, "
        "do not read single keys out of such heads.",
        "할 일: 긴 글에서는 쓰이는 키의 비율이 줄어들므로 없음. 짧은 글에서는 이런 헤드에서 "
        "키 하나를 골라 읽지 말 것.",
    ),
    "another": (
        "To do: where single tokens must be found in long texts, train with a normaliser or a "
        "window that keeps the number of keys; on these scores {normalizer} comes nearest "
        "(L^{beta}). For anything else, nothing.",
        "할 일: 긴 글에서 토큰 하나를 찾아야 한다면 키의 수를 유지하는 정규화나 윈도우로 학습할 "
        "것. 이 점수에서는 {normalizer}가 가장 가깝다(L^{beta}). 그 밖에는 없음.",
    ),
    "wide": (
        "To do: where single tokens must be found in long texts, train with a normaliser or a "
        "window that keeps the number of keys, and run this without --normalizers to compare them.",
        "할 일: 긴 글에서 토큰 하나를 찾아야 한다면 키의 수를 유지하는 정규화나 윈도우로 학습하고, "
        "--normalizers 없이 다시 실행해 비교할 것.",
    ),
    "cool": (
        "To do: raise the temperature of {n} heads to {coolest} or more (the first is layer "
        "{layer} head {head}); below it a small change of a score moves much of the attention.",
        "할 일: 헤드 {n}개의 온도를 {coolest} 이상으로 올릴 것(첫째는 {layer}층 {head}번 헤드). "
        "그보다 낮으면 점수가 조금만 변해도 어텐션이 크게 움직인다.",
    ),
}

AXES: dict[str, tuple[str, str]] = {
    "L": ("keys L", "키의 수 L"),
    "support": ("exp(H)", "exp(H)"),
    "share": ("exp(H) / L", "exp(H) / L"),
    "N": ("N", "N"),
    "distance": ("distance d̃", "거리 d̃"),
    "bound": ("bound", "상한"),
    "N/L": ("N / L", "N / L"),
    "separable": ("N_s / N", "N_s / N"),
    "T": ("temperature T", "온도 T"),
    "spectral": ("‖J‖₂", "‖J‖₂"),
    "layer": ("layer {n}", "{n}층"),
    "head": ("head {n}", "헤드 {n}"),
    "mean": ("mean", "평균"),
}


def pick(pair: tuple[str, str], lang: str, **names: object) -> str:
    return pair[lang == "ko"].format(**names) if names else pair[lang == "ko"]


def langs(lang: str) -> tuple[str, ...]:
    """The languages that are meant."""
    if lang not in LANGS:
        raise ValueError(f"unknown language {lang!r}; expected one of {', '.join(LANGS)}")
    return ("en", "ko") if lang == "both" else (lang,)
