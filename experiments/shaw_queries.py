"""Why not on queries? Shaw's relative vectors on keys and values, and on queries too.

    ascender lab run shaw_queries --out lab/shaw_queries

Two tasks in which the distance of tokens matters: recall (a value stands behind its key) and nested
operations on digits. vanilla, so that nothing but the position differs, at the sizes and vanilla's
learning rates of the other suites.
"""

from recipes import RULE, tuned

from ascender.lab import Suite

SUITE = Suite(
    name="shaw_queries",
    claim="Relative vectors on queries too make Shaw's positions better.",
    claim_ko="쿼리에도 상대 위치 벡터를 두면 Shaw의 위치 표현이 더 좋아진다.",
    baseline="vanilla+shaw",
    runs=tuned(["recall", "listops-short"], ["vanilla+shaw", "vanilla+shaw+queries=True"], 3),
    rule=RULE,
)
