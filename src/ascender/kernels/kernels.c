/* Everything that is compiled, as one unit. */
#include "attention.c"
#include "token.c"
#include "topk.c"
#include "lists.c"
#include "lists_backward.c"
#include "list_token.c"
#include "team.c"
int asc_lanes(void) { return VL; } /* numbers in a vector */
