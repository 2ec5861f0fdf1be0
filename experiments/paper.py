"""All claims of the paper: all suites with one set of trials, and how each claim is tested.

ascender lab run paper --out lab/paper --data-dir data
ascender lab report lab/paper --lang both
"""

from ascender.lab import Bundle, Claim

SUITE = Bundle(
    name="paper",
    claim="RQ1 to RQ4, ablations, lengths and the first trials again, with one set of trials.",
    claim_ko="RQ1–RQ4, 절제 실험, 길이 실험, 첫 시험의 재현을 하나의 시행 집합으로.",
    suites=(
        "accuracy", "interpretability", "efficiency", "replicate_first_trials", "ablation",
        "compatibility", "long", "ablation_other_tasks", "against_no_rules",
        "compatibility_other_tasks", "sensitivity", "length", "structure", "sparse_recall",
    ),
    claims=(
        Claim(
            "ASCender is more accurate than vanilla attention (wins on most tasks, loses on none).",
            "ASCender가 기본 어텐션보다 정확하다(과제 대부분에서 우세, 열세 없음).",
            "accuracy", "wins",
        ),
        Claim(
            "Up to +8.3% accuracy (a win by 0.083 on some task).",
            "정확도 최대 +8.3% (어떤 과제에서 0.083 이상의 우세).",
            "accuracy", "gain", {"at_least": 0.083},
        ),
        Claim(
            "It learns in fewer steps (every goal, every seed).",
            "더 적은 스텝에 배운다(모든 목표, 모든 시드).",
            "accuracy", "faster",
        ),
        Claim(
            "The first trials hold: 90% on few-shot digits in fewer steps (every seed).",
            "첫 시험이 재현된다: few-shot 숫자 90%에 더 적은 스텝(모든 시드).",
            "replicate_first_trials", "faster",
        ),
        Claim(
            "It is not the parameters: it beats vanilla with as many.",
            "매개변수 덕분이 아니다: 매개변수 수가 같은 기본 어텐션보다 낫다.",
            "accuracy", "beats", {"control": "matched"},
        ),
        Claim(
            "It is the neighbours: it beats itself with random ones.",
            "이웃 덕분이다: 이웃을 무작위로 뽑은 자신보다 낫다.",
            "accuracy", "beats", {"control": "shuffled"},
        ),
        Claim(
            "All three rules contribute (each, left out, costs something on some task).",
            "세 규칙이 모두 기여한다(어느 것을 빼도 어떤 과제에서 나빠진다).",
            "ablation", "each",
        ),
        Claim(
            "−21% attention FLOPs at equal quality (not inferior by 0.01 on every task).",
            "같은 성능에서 어텐션 FLOPs −21% (모든 과제에서 0.01 한계로 비열등).",
            "efficiency", "cheaper", {"saving": 0.21},
        ),
        Claim(
            "The same on a text of 1,024 tokens.",
            "1,024토큰 글에서도 마찬가지다.",
            "long", "cheaper", {"saving": 0.21},
        ),
        Claim(
            "Readable clusters: z and neighbours find true groups better than vanilla's states.",
            "읽을 수 있는 군집: z와 이웃이 기본 모델의 상태보다 실제 무리를 더 잘 찾는다.",
            "interpretability", "groups",
        ),
        Claim(
            "Heads take roles (seeds agree on how heads of a layer differ, on most tasks).",
            "헤드가 역할을 나눠 맡는다(한 층의 헤드 차이가 과제 대부분에서 시드 사이에 일치).",
            "interpretability", "roles",
        ),
        Claim(
            "Orthogonal to positions and kernels: it helps beside each as it does alone.",
            "위치 표현, 커널과 직교한다: 함께 써도 단독일 때처럼 도움이 된다.",
            "compatibility", "beside",
        ),
        Claim(
            "Given lists of neighbours: flock scope is better by 0.083 than attention to "
            "everything, with the same lists or without.",
            "이웃 목록이 주어지면 무리 범위가 모든 토큰을 보는 어텐션보다(같은 목록이 있든 없든) "
            "0.083 이상 낫다.",
            "structure", "gain_over_all",
            {"ours": "flock", "at_least": 0.083,
             "controls": ["vanilla", "matched", "graph", "ascender"]},
        ),
        Claim(
            "It is the rules and the affinity term: flock scope is better than attention to the "
            "same lists without them.",
            "규칙과 친화도 항의 효과다: 둘을 뺀 채 같은 목록을 보는 어텐션보다 무리 범위가 낫다.",
            "structure", "gain_over_all",
            {"ours": "flock", "at_least": 0.0, "controls": [
                "flock-no-rules", "flock+affinity_term=False", "flock-no-rules+affinity_term=False",
            ]},
        ),
        Claim(
            "Recall with a fifth of the keys: −21% attention FLOPs, not inferior by 0.01 to all of "
            "them.",
            "키 다섯 중 하나만 보는 회상: 어텐션 FLOPs −21%, 모든 키를 볼 때보다 0.01 한계로 "
            "비열등.",
            "sparse_recall", "cheaper", {"saving": 0.21},
        ),
        Claim(
            "It is the index that the task trains: better by 0.083 than random keys and than an "
            "index trained by distillation.",
            "과제가 학습시킨 색인의 효과다: 무작위 키나 증류한 색인보다 0.083 이상 낫다.",
            "sparse_recall", "gain_over_all",
            {"ours": "flock+far=8+window=4+rules=none", "at_least": 0.083, "controls": [
                "flock-random+far=8+window=4+rules=none",
                "flock-index-loss+far=8+window=4+rules=none",
            ]},
        ),
    ),
)  # fmt: skip
