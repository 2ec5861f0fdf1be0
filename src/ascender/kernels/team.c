/* Tasks of a kernel shared by the threads of a team: each takes the next few until none is left. */
typedef struct {
  int (*kernel)(const void *args, int from, int to);
  const void *args;
  int tasks, each, next, ok;
} Team;

void asc_team(Team *t) {
  for (;;) {
    int from = __atomic_fetch_add(&t->next, t->each, __ATOMIC_RELAXED);
    if (from >= t->tasks) return;
    int to = t->tasks - from < t->each ? t->tasks : from + t->each;
    if (!t->kernel(t->args, from, to)) __atomic_store_n(&t->ok, 0, __ATOMIC_RELAXED);
  }
}
