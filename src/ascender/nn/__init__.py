"""Modules: the attention slot, AscenderAttention, positions, baselines, the cache for decoding."""
