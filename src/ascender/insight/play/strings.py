"""The strings of the page of `ascender play`, in English and Korean."""

from __future__ import annotations

from ascender.insight.page.strings import TEXTS as OF_VIEW
from ascender.report.strings import Pair, Strings

SHARED = (  # with the page of `ascender view`
    "align", "sep", "coh", "aff", "other", "base", "total", "weight", "layer", "head", "theme",
    "help", "close", "save", "play", "pause", "too_old", "no_script", "gate_align", "gate_sep",
    "gate_coh", "key_theme", "key_help", "first", "cut",
)  # fmt: skip

PAGE: dict[str, Pair] = {
    "heading": ("ASCender: attention as a flock", "ASCender: 무리로 보는 어텐션"),
    "intro": (
        "Tokens are birds. Three rules of flocking change how much attention each one receives. "
        "Move them and see.",
        "토큰을 새로 봅니다. 무리 짓기의 세 규칙이 각 토큰이 받는 어텐션을 바꿉니다. 직접 움직여 "
        "보세요.",
    ),
    "other_language": ("한국어", "English"),
    "language": ("Language: English or Korean", "언어: 한국어 또는 영어"),
    "tour": ("Tour", "둘러보기"),
    "panels": ("Panels", "화면"),
    "flock": ("Flock", "무리"),
    "task": ("Task", "과제"),
    "why": ("Why", "이유"),
    "scene": ("Scene", "장면"),
    "scene_birds": ("birds", "새 떼"),
    "scene_kinds": ("four kinds", "네 종류"),
    "scene_words": ("five words", "다섯 낱말"),
    "scene_digits": ("digits (trained model)", "숫자 (학습된 모델)"),
    "scene_csv": ("your CSV", "내 CSV"),
    "scene_model": ("your model", "내 모델"),
    "tokens": ("Tokens", "토큰"),
    "token": ("token", "토큰"),
    "token_i": ("Query i", "쿼리 i"),
    "token_j": ("Key j", "키 j"),
    "new_flock": ("New", "새로"),
    "step": ("Step", "한 걸음"),
    "reset": ("Reset", "처음으로"),
    "links": ("Links", "연결"),
    "links_one": ("one token", "이 토큰"),
    "links_every": ("all", "모두"),
    "links_none": ("none", "없음"),
    "own_csv": ("Your CSV …", "내 CSV …"),
    "rules": ("Rules", "규칙"),
    "rules_off": ("All ω = 0", "모든 ω = 0"),
    "rules_back": ("Defaults", "기본값"),
    "slider_k": ("neighbours", "이웃 수"),
    "slider_far": ("far keys", "먼 키"),
    "slider_window": ("window", "창"),
    "flock_scope": ("Flock scope: few keys", "무리 범위: 소수의 키만 봄"),
    "causal": ("Causal: only earlier tokens", "인과적: 앞선 토큰만 봄"),
    "numbers": ("The chosen token", "고른 토큰"),
    "near_n": ("neighbours |N_k|", "이웃 |N_k|"),
    "density": ("density ρ", "밀도 ρ"),
    "away": ("to the centre, ‖z − c‖", "중심까지 ‖z − c‖"),
    "effective": ("effective keys, e^entropy", "유효 키 수, e^엔트로피"),
    "moved": ("moved by the rules", "규칙이 옮긴 어텐션"),
    "output": ("output", "출력"),
    "key_heading": ("heading k̃ of a token", "토큰의 방향 k̃"),
    "key_mean": ("mean heading u of its neighbours", "이웃의 평균 방향 u"),
    "key_centre": ("local centre c", "주변의 중심 c"),
    "key_halo": ("halo: crowding η = min(1, ρ/κ)", "둘레: 혼잡도 η = min(1, ρ/κ)"),
    "key_near": ("lines: neighbours N_k", "선: 이웃 N_k"),
    "key_weight": ("discs: attention of the chosen token", "원판: 고른 토큰의 어텐션"),
    "key_out": ("◇ output: mean place attended to", "◇ 출력: 어텐션이 향하는 평균 위치"),
    "in_plane": (
        "The plane shows {share}% of the variance of z and {turned}% of the headings.",
        "이 평면은 z 분산의 {share}%, 방향의 {turned}%를 나타냅니다.",
    ),
    "after_steps": (
        "After {n} steps. The steps show where each rule pulls; attention itself moves no token.",
        "{n}걸음 뒤. 걸음은 각 규칙이 끄는 쪽을 보여 줍니다. 어텐션 자체는 토큰을 옮기지 않습니다.",
    ),
    "csv_points": (
        "{name}: {rows} of {of} rows, 2 columns as points.",
        "{name}: {of}행 중 {rows}행, 두 열을 점으로 나타냈습니다.",
    ),
    "csv_projected": (
        "{name}: {rows} of {of} rows, {n} columns projected by PCA ({share}% of the variance).",
        "{name}: {of}행 중 {rows}행, {n}개 열을 PCA로 투영했습니다(분산의 {share}%).",
    ),
    "csv_headings": (
        "Headings are random; columns vx and vy would set them.",
        "방향은 무작위입니다. vx, vy 열이 있으면 그 값을 씁니다.",
    ),
    "csv_empty": (
        "{name} is empty; expected rows of numbers",
        "{name}: 비어 있음; 숫자로 된 행이 필요합니다",
    ),
    "csv_columns": (
        "{name} has {n} columns of numbers; expected at least 2",
        "{name}: 숫자 열 {n}개; 2개 이상이 필요합니다",
    ),
    "about_flock": (
        "A dot is a token at its latent coordinates z, an arrow its key direction k̃. Alignment "
        "raises keys that point along u, separation lowers near duplicates where it is crowded, "
        "cohesion raises keys near the centre c. Every number is recomputed as you move a slider "
        "or drag a token, by the same definition as in Python. Step lets the flock move by the "
        "rules: to the centre, apart from duplicates, along the headings.",
        "점은 잠재 좌표 z에 있는 토큰, 화살표는 키의 방향 k̃입니다. 정렬은 u 쪽을 향한 키를 높이고, "
        "분리는 붐비는 곳에서 거의 같은 키를 낮추며, 응집은 중심 c에 가까운 키를 높입니다. "
        "슬라이더를 움직이거나 토큰을 끌 때마다 모든 수치를 파이썬과 같은 정의로 다시 계산합니다. "
        "한 걸음을 누르면 무리가 규칙에 따라 중심으로, 중복에서 떨어져, 방향을 따라 움직입니다.",
    ),
    "says_flock": (
        "Flock of {n} tokens, scene {scene}. Token {i}, {token}, has {near} neighbours and gives "
        "most attention to token {j}, {weight}.",
        "토큰 {n}개의 무리, 장면 {scene}. 토큰 {i}({token})의 이웃은 {near}개이고, 토큰 {j}에 "
        "{weight}로 가장 많이 주목합니다.",
    ),
    "footer": (
        "This file needs no network and sends nothing anywhere. The address holds the settings: "
        "copy it to share what you see.",
        "이 파일은 네트워크를 쓰지 않으며 아무것도 보내지 않습니다. 주소에 설정이 담겨 있으니 "
        "복사해 공유할 수 있습니다.",
    ),
}  # fmt: skip

WHY: dict[str, Pair] = {
    "why_pair": ("Why {i} attends to {j}", "{i} → {j}: 주목하는 이유"),
    "why_row": ("What {i} attends to most", "{i}: 가장 주목하는 키"),
    "why_scope": ("Flock scope: what would be left out", "무리 범위: 빠지는 것"),
    "hidden": (
        "This key is later than the query: it is not visible.",
        "쿼리보다 뒤에 있는 키라서 보이지 않습니다.",
    ),
    "dropped_pair": (
        "Flock scope drops this key: it gets no attention. With everything visible it had:",
        "무리 범위에서 빠진 키라 어텐션을 받지 않습니다. 보이는 키 전부를 볼 때의 값:",
    ),
    "weight_plain": ("without the rules", "규칙이 없을 때"),
    "scope_keys": (
        "Query {i} keeps {inside} of {all} visible keys: itself, a window of {w} on each side and "
        "the {m} far keys of highest affinity.",
        "쿼리 {i}: 보이는 키 {all}개 중 {inside}개만 봅니다: 자신, 양쪽 {w}개의 창, 친화도가 "
        "가장 높은 먼 키 {m}개.",
    ),
    "scope_mass": (
        "The dropped keys would have {missed} of this row's attention ({mean} on average over "
        "rows).",
        "빠진 키의 몫은 이 행 어텐션의 {missed}입니다(행 평균 {mean}).",
    ),
    "scope_dropped": ("Dropped, with their weight:", "빠진 키와 그 가중치:"),
    "scope_none": ("No key is dropped.", "빠지는 키가 없습니다."),
    "scope_flops": (
        "One head: {flock} FLOPs in flock scope, {visible} with everything visible ({saved} "
        "saved).",
        "헤드 하나: 무리 범위 {flock} FLOP, 전부 볼 때 {visible} FLOP({saved} 절약).",
    ),
    "flops_visible": ("everything visible", "보이는 키 전부"),
    "flops_flock": ("flock scope", "무리 범위"),
    "flops_plain": ("plain attention", "일반 어텐션"),
    "flops_pairs": ("pairs attended to", "주목하는 쌍"),
    "flops_search": ("ranking the keys", "키의 순위 매기기"),
    "about_why": (
        "Bars stack the named terms of the score of one pair; the upright line is their sum, and "
        "the softmax over the row makes it the weight. FLOPs are counted by formula for products "
        "only, 2 · pairs · (2d + e + 3d_z) and the ranking 2 · visible pairs · d_a; sorting and "
        "exponentials are not counted. Choose i and j above, or click a row.",
        "막대는 한 쌍의 점수를 이루는 항을 쌓은 것이고, 세로선은 그 합이며, 행 전체의 소프트맥스가 "
        "가중치입니다. FLOP은 곱셈만 공식으로 셉니다: 2 · 쌍 · (2d + e + 3d_z)와 순위 매기기 2 · "
        "보이는 쌍 · d_a. 정렬과 지수 함수는 세지 않습니다. 위에서 i와 j를 고르거나 행을 누르세요.",
    ),
    "says_why": (
        "Query {i}, key {j}: {terms}; weight {weight}.",
        "쿼리 {i}, 키 {j}: {terms}; 가중치 {weight}.",
    ),
}  # fmt: skip

TASK: dict[str, Pair] = {
    "ascender": ("ASCender", "ASCender"),
    "vanilla": ("plain attention", "일반 어텐션"),
    "next": ("Next", "다음"),
    "hundred": ("100 more", "100개 더"),
    "again": ("Start again", "다시 시작"),
    "trained": ("Models", "모델"),
    "seed_n": ("seed {n}", "시드 {n}"),
    "as_flock": ("See it as a flock", "무리로 보기"),
    "task_question": (
        "Which name has the last digit? Names 1 to {n} are drawn anew each time.",
        "마지막 숫자의 이름은? 이름 1–{n}은 매번 새로 정해집니다.",
    ),
    "no_name": ("no name", "이름 없음"),
    "task_looks": (
        "Bars: what the last one attends to (last layer).",
        "막대: 마지막 숫자가 보는 곳 (마지막 층).",
    ),
    "right": ("right", "맞음"),
    "wrong": ("wrong", "틀림"),
    "task_running": ("Running accuracy (episodes: {n})", "에피소드 {n}개의 누적 정확도"),
    "chance": ("chance", "무작위"),
    "draw": ("Draw your own", "직접 그리기"),
    "draw_text": (
        "Draw one of {kinds}: it takes the place of the last digit. Arrow keys and space work too.",
        "{kinds} 중 하나를 그리면 마지막 숫자를 대신합니다. 방향키와 스페이스로도 그릴 수 "
        "있습니다.",
    ),
    "draw_here": ("Draw a digit here", "여기에 숫자를 그리세요"),
    "wipe": ("Clear", "지우기"),
    "heldout": ("Held-out accuracy", "평가 정확도"),
    "parameters": ("parameters", "매개변수"),
    "ahead_ascender": (
        "Seed {n}: ASCender is ahead by {mean} points, 95% interval [{low}, {high}].",
        "시드 {n}: ASCender가 {mean}점 앞섭니다. 95% 구간 [{low}, {high}].",
    ),
    "ahead_vanilla": (
        "Seed {n}: plain attention is ahead; the difference is {mean} points, 95% interval "
        "[{low}, {high}].",
        "시드 {n}: 일반 어텐션이 앞섭니다. 차이 {mean}점, 95% 구간 [{low}, {high}].",
    ),
    "ahead_none": (
        "Seed {n}: no clear difference, {mean} points, 95% interval [{low}, {high}].",
        "시드 {n}: 뚜렷한 차이가 없습니다. {mean}점, 95% 구간 [{low}, {high}].",
    ),
    "heldout_how": (
        "{n} held-out episodes; {layers} layers of width {width}, {steps} steps, the same training "
        "for both. Two seeds are a demonstration: over the tasks of the repository the two mostly "
        "tie.",
        "평가 에피소드 {n}개; 너비 {width}의 {layers}층, {steps}스텝, 둘 다 같은 학습. 시드 두 "
        "개는 시연일 뿐입니다. 저장소의 다른 과제에서는 대부분 둘이 비슷합니다.",
    ),
    "about_task": (
        "Two small models, trained with this package, run in this page: the same episode, side by "
        "side. Each sees one named picture of three kinds of digits and two without names, all "
        "held out from training. A drawn digit is counted in blocks as the data set was "
        "(scikit-learn's digits, 8 × 8); it is not scored. A CSV of your own becomes a flock.",
        "이 패키지로 학습한 작은 모델 두 개가 이 페이지 안에서 같은 에피소드를 나란히 풉니다. 세 "
        "종류의 숫자마다 이름 있는 그림 하나와 이름 없는 그림 둘을 보며, 모두 학습에 쓰지 않은 "
        "그림입니다. 그린 숫자는 데이터(scikit-learn의 8 × 8 숫자)와 같은 방식으로 바꾸며 "
        "채점하지 않습니다. 내 CSV는 무리가 됩니다.",
    ),
    "says_task": (
        "{n} episodes. This one: ASCender says {a}, plain attention {v}. Accuracy so far: ASCender "
        "{pa}, plain attention {pv}.",
        "에피소드 {n}개. 이번 답: ASCender {a}, 일반 어텐션 {v}. 지금까지 정확도: ASCender {pa}, "
        "일반 어텐션 {pv}.",
    ),
}  # fmt: skip

TOUR: dict[str, Pair] = {
    "tour_1": ("Tokens are a flock", "토큰은 무리입니다"),
    "tour_1_text": (
        "Each dot is a token, each arrow where its key points. Discs show what the chosen token "
        "attends to. Click another dot, or drag one.",
        "점은 토큰, 화살표는 키의 방향입니다. 원판은 고른 토큰의 어텐션입니다. 다른 점을 누르거나 "
        "끌어 보세요.",
    ),
    "tour_2": ("Let it move", "움직여 보세요"),
    "tour_2_text": (
        "Step moves the flock by the three rules: headings align, duplicates separate, the group "
        "coheres. That is where the names come from.",
        "한 걸음을 누르면 방향이 나란해지고(정렬), 중복이 떨어지고(분리), 무리가 모입니다(응집). "
        "규칙의 이름이 여기서 왔습니다.",
    ),
    "tour_3": ("Turn the rules", "규칙을 조절하세요"),
    "tour_3_text": (
        "ω weighs a rule; with all ω = 0 this is plain attention. Scores, softmax and output are "
        "recomputed at once.",
        "ω는 규칙의 세기입니다. 모든 ω가 0이면 일반 어텐션입니다. 점수, 소프트맥스, 출력이 바로 "
        "다시 계산됩니다.",
    ),
    "tour_4": ("A trained model, here", "학습된 모델"),
    "tour_4_text": (
        "Two small models answer the same questions, with the rules and without. Press “100 more”, "
        "or draw a digit.",
        "규칙이 있는 모델과 없는 모델이 같은 문제를 풉니다. ‘100개 더’를 누르거나 숫자를 그려 "
        "보세요.",
    ),
    "tour_5": ("Ask why", "이유를 물어보세요"),
    "tour_5_text": (
        "Every score is a sum of named terms. Choose a query and a key, then switch to flock scope "
        "to see which keys are dropped.",
        "모든 점수는 이름 붙은 항의 합입니다. 쿼리와 키를 고르고, 무리 범위로 바꿔 어떤 키가 "
        "빠지는지 보세요.",
    ),
    "tour_next": ("Next", "다음"),
    "tour_back": ("Back", "이전"),
    "tour_skip": ("Skip", "건너뛰기"),
    "tour_done": ("Done", "마침"),
    "key_panel": ("panel", "화면"),
    "key_i": ("query i", "쿼리 i"),
    "key_j": ("key j", "키 j"),
    "key_move": ("move the query (picture focused)", "쿼리 옮기기 (그림에 초점이 있을 때)"),
    "key_play": ("play or pause (Flock)", "재생 또는 멈춤 (무리)"),
    "key_step": ("one step", "한 걸음"),
    "key_reset": ("back to the start", "처음으로"),
    "key_new": ("next episode, new flock", "다음 에피소드, 새 무리"),
    "key_scope": ("flock scope on or off", "무리 범위 켜기/끄기"),
    "key_language": ("language", "언어"),
}  # fmt: skip

TEXTS: dict[str, Pair] = {key: OF_VIEW[key] for key in SHARED} | PAGE | WHY | TASK | TOUR
STRINGS = Strings(TEXTS)

SHORTCUTS = (
    (("1", "2", "3"), "key_panel"), (("[", "]"), "key_i"), ((",", "."), "key_j"),
    (("←", "→", "↑", "↓"), "key_move"), (("␣",), "key_play"), (("s",), "key_step"),
    (("r",), "key_reset"), (("n",), "key_new"), (("f",), "key_scope"), (("l",), "key_language"),
    (("t",), "key_theme"), (("?",), "key_help"),
)  # fmt: skip
