"""The strings of the page of `ascender view`, in English and Korean."""

from __future__ import annotations

from ascender.report.strings import Pair, Strings

TEXTS: dict[str, Pair] = {
    "matrix": ("Matrix", "행렬"),
    "row": ("Row", "행"),
    "flock": ("Flock", "무리"),
    "whatif": ("What if", "만약에"),
    "views": ("Views", "보기"),
    "base": ("base", "기본"),
    "align": ("alignment", "정렬"),
    "sep": ("separation", "분리"),
    "coh": ("cohesion", "응집"),
    "aff": ("affinity", "친화도"),
    "other": ("other", "기타"),
    "attends_to": ("Attends to", "어텐션 범위"),
    "to_flock": ("its flock", "무리만"),
    "to_visible": ("everything visible", "보이는 키 전부"),
    "missed": ("dense weight outside the flock", "무리 밖의 전체 어텐션 가중치"),
    "outside_flock": ("outside the flock", "무리 밖"),
    "sum": ("sum", "합"),
    "tau": ("÷ τ", "÷ τ"),
    "temperature": ("temperature τ", "온도 τ"),
    "total": ("total", "총점"),
    "total_over": ("total = sum ÷ {tau}", "총점 = 합 ÷ {tau}"),
    "weights": ("weights", "가중치"),
    "weight": ("weight", "가중치"),
    "scores": ("scores", "점수"),
    "layer": ("Layer", "층"),
    "head": ("Head", "헤드"),
    "token": ("Token", "토큰"),
    "tokens": ("Tokens: choose one", "토큰: 하나를 고르세요"),
    "previous_layer": ("previous layer", "이전 층"),
    "next_layer": ("next layer", "다음 층"),
    "previous_head": ("previous head", "이전 헤드"),
    "next_head": ("next head", "다음 헤드"),
    "theme": ("light or dark", "밝게 또는 어둡게"),
    "help": ("Keys", "단축키"),
    "close": ("Close", "닫기"),
    "save": ("Save", "저장"),
    "cell": ("Numbers", "수치"),
    "terms": ("terms", "항"),
    "scale_of": ("Scale of", "척도"),
    "this_head": ("this head", "이 헤드"),
    "all_heads": ("All heads", "모든 헤드"),
    "colours": ("Colours", "색"),
    "root": ("root", "제곱근"),
    "linear": ("linear", "선형"),
    "rows_are": ("Rows", "행"),
    "bars_show": ("Scores", "점수"),
    "as_they_are": ("raw", "그대로"),
    "centred": ("minus the mean", "평균을 뺀 값"),
    "thumbs_show": ("Thumbnails", "작은 그림"),
    "keys_shown": ("Strongest keys", "가장 강한 키"),
    "every": ("all", "전부"),
    "visible": ("visible keys", "보이는 키"),
    "entropy": ("entropy", "엔트로피"),
    "neighbours": ("neighbours", "이웃"),
    "gate_align": ("γ alignment", "γ 정렬"),
    "gate_sep": ("η separation", "η 분리"),
    "gate_coh": ("γ cohesion", "γ 응집"),
    "rho": ("density ρ", "밀도 ρ"),
    "away": ("‖z − c‖", "‖z − c‖"),
    "is_near": ("neighbour", "이웃"),
    "yes": ("yes", "예"),
    "no": ("no", "아니요"),
    "pinned": ("pinned", "고정"),
    "hover": (
        "Hover over a cell for its numbers; click to pin it.",
        "칸을 가리키면 수치가 보이고, 누르면 고정됩니다.",
    ),
    "head_at": ("Layer {l}, head {h}: click to choose it.", "층 {l}, 헤드 {h}: 누르면 선택됩니다."),
    "play": ("Play", "재생"),
    "pause": ("Pause", "멈춤"),
    "links": ("Links", "연결"),
    "of_token": ("of the token", "이 토큰"),
    "of_all": ("of all", "모두"),
    "off": ("none", "없음"),
    "also": ("also shown", "함께 표시"),
    "headings": ("headings", "방향"),
    "centres": ("centres", "중심"),
    "crowd": ("density ρ", "밀도 ρ"),
    "names": ("names", "이름"),
    "plane": (
        "the plane shows {share}% of the variance of z over all layers",
        "이 평면은 모든 층의 z 분산 중 {share}%를 나타냅니다",
    ),
    "turned": (
        "arrows show {share}% of the headings u",
        "화살표는 방향 u의 {share}%를 나타냅니다",
    ),
    "group": ("group", "그룹"),
    "order": ("Order", "순서"),
    "as_they_come": ("original order", "원래 순서"),
    "by_group": ("by group", "그룹별"),
    "picture": ("picture", "그림"),
    "weights_of": ("weights of token {i}", "토큰 {i}의 가중치"),
    "whole_example": ("Whole example", "예제 전체"),
    "true": ("true", "정답"),
    "predicted": ("predicted", "예측"),
    "mute": ("Mute", "끄기"),
    "all_three": ("all three", "셋 모두"),
    "where": ("Where", "범위"),
    "everywhere": ("in every layer", "모든 층"),
    "here_alone": ("in this head alone", "이 헤드만"),
    "as_is": ("unchanged", "그대로"),
    "no_align": ("without alignment", "정렬 없이"),
    "no_sep": ("without separation", "분리 없이"),
    "no_coh": ("without cohesion", "응집 없이"),
    "no_aff": ("without affinity", "친화도 없이"),
    "no_all": ("without the rules", "규칙 없이"),
    "change": ("change", "변화"),
    "says": ("Model output", "모델의 출력"),
    "whole": ("(whole input)", "(전체)"),
    "after_token": ("after {i} “{token}”", "({i}번 “{token}” 다음)"),
    "at_token": ("at {i} “{token}”", "({i}번 “{token}”)"),
    "meant": ("True", "정답"),
    "kl": ("KL", "KL"),
    "states": ("Last states", "마지막 상태"),
    "moved_states": ("moved by ‖h′ − h‖ / ‖h‖ =", "이동 ‖h′ − h‖ / ‖h‖ ="),
    "kl_tokens": (
        "KL divergence between the outputs with and without the rule, by token",
        "규칙이 있을 때와 없을 때 출력의 KL 발산, 토큰별",
    ),
    "moved_tokens": ("Change of each token's last state", "토큰별 마지막 상태의 변화"),
    "most": ("most", "최대"),
    "moved_heads": (
        "Share of attention moved, by layer and head (rule muted everywhere)",
        "이동한 어텐션의 비율, 층과 헤드별 (고른 규칙을 모든 층에서 끔)",
    ),
    "everywhere_note": (
        "The model was run again with the rule muted in every layer.",
        "모든 층에서 규칙을 끄고 모델을 다시 실행한 결과입니다.",
    ),
    "alone_note": (
        "The rule's term is left out of this head's scores only; the head's input is unchanged.",
        "이 헤드의 점수에서만 규칙의 항을 뺐고, 헤드의 입력은 그대로입니다.",
    ),
    "too_many_note": (
        "Too many tokens to store the weights of the muted runs: here the rule is left out of this "
        "head only. The output and the shares below are of complete runs.",
        "토큰이 많아 규칙을 끈 실행의 가중치를 모두 담지 못했습니다. 여기서는 이 헤드에서만 "
        "규칙을 뺐습니다. 출력과 아래 비율은 전체 실행의 값입니다.",
    ),
    "no_rules_flock": (
        "This model has no rules, so its tokens have no latent coordinates, headings or centres.",
        "이 모델에는 규칙이 없어 잠재 좌표, 방향, 중심이 없습니다.",
    ),
    "no_rules_mute": (
        "This model has no rules to mute.",
        "이 모델에는 끌 규칙이 없습니다.",
    ),
    "first": ("The first {kept} of {of} tokens.", "{of}개 토큰 중 앞의 {kept}개입니다."),
    "cut": (
        "The first {kept} of {of} tokens: the model has no positions for more.",
        "{of}개 토큰 중 앞의 {kept}개: 모델이 더 읽을 수 없습니다.",
    ),
    "pooled": (
        "{of} tokens are pooled into {blocks} blocks of {size}: scores are means over the pairs of "
        "blocks that see each other, weights are the attention from block to block.",
        "토큰 {of}개를 {size}개씩 {blocks}개 묶음으로 합쳤습니다. 점수는 서로 보이는 쌍의 "
        "평균이고, 가중치는 묶음이 묶음에 주는 양입니다.",
    ),
    "skipped": (
        "{n} cross-attentions are left out: their keys are not these tokens.",
        "교차 어텐션 {n}개는 뺐습니다. 키가 이 토큰들이 아니기 때문입니다.",
    ),
    "plain": (
        "{kind} has no rules: base, other and weights are shown.",
        "{kind}에는 규칙이 없어 기본, 기타, 가중치만 보입니다.",
    ),
    "canvas": (
        "{view} of {model}, layer {layer}, head {head}, token {row} {token}",
        "{model}의 {view}, 층 {layer}, 헤드 {head}, 토큰 {row} {token}",
    ),
    "about_matrix": (
        "Rows are queries i, columns are keys j. The terms add up to the sum. The sum divided by "
        "the head's temperature τ is the total, and the softmax of the total is the weights. All "
        "terms share one diverging scale, so they can be compared; grey cells are masked. "
        "Thumbnails show means over larger cells.",
        "행은 쿼리 i, 열은 키 j입니다. 항을 더하면 합이고, 합을 헤드의 온도 τ로 나누면 총점이며, "
        "총점의 소프트맥스가 가중치입니다. "
        "모든 항이 같은 발산 척도를 쓰므로 서로 비교할 수 있습니다. 회색은 볼 수 없는 칸입니다. "
        "작은 그림은 여러 칸의 평균입니다.",
    ),
    "about_row": (
        "The strongest keys of the chosen token. Each bar stacks the named terms of the score as "
        "they enter the sum; the upright line is their sum, which divided by the temperature τ of "
        "the head is the total. γ and η are the gates of the rules, ρ the density around the "
        "token, ‖z − c‖ how far it is from the centre of its surroundings.",
        "고른 토큰의 가장 강한 키입니다. 막대는 점수를 이루는 항을 쌓은 것이고 세로선은 그 "
        "합이며, 합을 헤드의 온도 τ로 나누면 총점입니다. γ와 η는 규칙의 게이트, ρ는 토큰 주위의 "
        "밀도, ‖z − c‖는 주변 중심까지의 거리입니다.",
    ),
    "about_flock": (
        "Tokens stand at their latent coordinates z, in the plane of the two main directions of "
        "all layers together. Lines go to the neighbours N_k(i), crosses are centres c_i, the "
        "halo grows with the density ρ_i. An arrow is the heading u_i in the plane of the two main "
        "directions of all headings, a space of its own: arrows that agree are a flock that does.",
        "토큰은 잠재 좌표 z에 서 있으며, 평면은 모든 층을 합친 두 주성분입니다. 선은 이웃 "
        "N_k(i), 십자는 중심 c_i, 원의 크기는 밀도 ρ_i입니다. 화살표는 방향 u_i를 모든 방향의 두 "
        "주성분 평면(별도의 공간)에 나타낸 것으로, 나란하면 무리가 정렬된 것입니다.",
    ),
    "about_whatif": (
        "A rule is muted (λ = 0) and the model run again. Attention moved is half the sum of "
        "|A′ − A| over a row, from 0 to 1, averaged over rows.",
        "규칙을 끄고(λ = 0) 모델을 다시 실행합니다. 이동한 어텐션은 행에서 |A′ − A| 합의 절반을 "
        "행에 대해 평균한 값(0–1)입니다.",
    ),
    "footer": (
        "This file needs no network. Numbers are recomputed here from the queries, keys and "
        "coordinates of one pass.",
        "이 파일은 네트워크가 필요 없습니다. 수치는 한 번의 실행에서 얻은 쿼리, 키, 좌표로 여기서 "
        "다시 계산합니다.",
    ),
    "too_old": (
        "This browser cannot open the page ({error}); expected one from 2023 or later.",
        "이 브라우저에서는 열 수 없습니다({error}). 2023년 이후 버전이 필요합니다.",
    ),
    "no_script": ("The page needs JavaScript.", "이 페이지에는 자바스크립트가 필요합니다."),
    "facts": (
        "{tokens} tokens, {layers} layers, {heads} heads",
        "토큰 {tokens}, 층 {layers}, 헤드 {heads}",
    ),
    "key_head": ("head", "헤드"),
    "key_layer": ("layer", "층"),
    "key_view": ("view", "보기"),
    "key_row": ("token i", "토큰 i"),
    "key_col": ("key j, pinned", "키 j, 고정"),
    "key_free": ("unpin", "고정 해제"),
    "key_play": ("play the layers (Flock)", "층 재생 (무리)"),
    "key_theme": ("light or dark", "밝게 또는 어둡게"),
    "key_help": ("show these keys", "단축키 보기"),
}  # fmt: skip

STRINGS = Strings(TEXTS)

SHORTCUTS = (
    (("←", "→"), "key_head"), (("↑", "↓"), "key_layer"), (("1", "2", "3", "4"), "key_view"),
    (("[", "]"), "key_row"), ((",", "."), "key_col"), (("Esc",), "key_free"),
    (("␣",), "key_play"), (("t",), "key_theme"), (("?",), "key_help"),
)  # fmt: skip
