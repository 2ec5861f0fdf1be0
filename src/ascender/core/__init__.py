"""The attention as a function: who may look at whom, the three rules, the softmax, its backends."""
